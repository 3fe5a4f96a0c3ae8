/* SPDX-License-Identifier: GPL-2.0 */
/* Undo versions that do not exist yet. */
#ifndef RD_UNDO_H
#define RD_UNDO_H

#include "pool/catalog/versions.h"

/*
 * Remove version @id, which is WRITING and which no command writes, and its rows, in batches.
 * The frames that it has written to go with its session.
 */
int rd_undo_version(struct rd_sql *sql, i64 id);

/* Remove only the rows of @version, which this command writes. */
int rd_undo_rows(struct rd_sql *sql, const struct rd_version *version);

/* Undo the version that session @id wrote, if any. -ENOENT: there is no such session. */
int rd_undo_version_of(struct rd_sql *sql, i64 id);

#endif
