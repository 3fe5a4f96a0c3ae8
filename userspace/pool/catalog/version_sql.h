/* SPDX-License-Identifier: GPL-2.0 */
/*
 * States of versions in texts of SQL. They are put into the text and not bound, so that
 * SQLite sees that the index version_unfinished has all rows that are asked for.
 */
#ifndef RD_VERSION_SQL_H
#define RD_VERSION_SQL_H

#include "sql.h"
#include "versions.h"

/* RD_STATE(DONE) is what RD_VERSION_DONE is in C. */
#define RD_STATE(name)		RD_SQL_NUMBER(RD_STATE_##name)

/* The version exists, for users. */
#define RD_VERSION_EXISTS	"state IN (" RD_STATE(NEW) ", " RD_STATE(DONE) ")"
/* The engine keeps it as a version of its volume. */
#define RD_VERSION_KEPT		"state IN (" RD_STATE(NEW) ", " RD_STATE(DONE) ", "	\
	RD_STATE(HELD) ")"
/* It is not done: the condition of the index version_unfinished, which is used with it. */
#define RD_VERSION_UNFINISHED	"state <> " RD_STATE(DONE)
/* It is HELD, by nothing any more: the command that has the lock of the volume deletes it. */
#define RD_VERSION_RELEASED	"(state = " RD_STATE(HELD) " AND NOT EXISTS"	\
	" (SELECT 1 FROM lease WHERE lease.volume = version.volume AND lease.number = version.number))"

#endif
