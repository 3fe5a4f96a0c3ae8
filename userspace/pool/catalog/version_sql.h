/* SPDX-License-Identifier: GPL-2.0 */
/*
 * States of versions in texts of SQL. They are literals and not bound values, so that
 * SQLite sees that the index version_unfinished covers a query.
 */
#ifndef RD_VERSION_SQL_H
#define RD_VERSION_SQL_H

#include "sql.h"
#include "versions.h"

/* RD_STATE(DONE) is RD_VERSION_DONE as a text. */
#define RD_STATE(name)		RD_SQL_NUMBER(RD_STATE_##name)

/* The version exists, for users. */
#define RD_VERSION_EXISTS	"state IN (" RD_STATE(NEW) ", " RD_STATE(DONE) ")"
/* The engine keeps it as a version of its volume. */
#define RD_VERSION_KEPT		"state IN (" RD_STATE(NEW) ", " RD_STATE(DONE) ", "	\
	RD_STATE(HELD) ")"
/* It is not done: this is the condition of the index version_unfinished. */
#define RD_VERSION_UNFINISHED	"state <> " RD_STATE(DONE)
/* No version that a command can read or base another on: the volume ends below it. */
#define RD_VERSION_UNBORN	"state IN (" RD_STATE(WRITING) ", " RD_STATE(PARTIAL) ")"
/* It is HELD without a lease: a command that has the lock of the volume deletes it. */
#define RD_VERSION_RELEASED	"(state = " RD_STATE(HELD) " AND NOT EXISTS"	\
	" (SELECT 1 FROM lease WHERE lease.volume = version.volume AND lease.number = version.number))"

#endif
