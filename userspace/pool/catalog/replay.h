/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Put rows into a catalog that is rebuilt from the journal. This is the only file that
 * writes to tables of other files. The caller is in a transaction, after
 * rd_sql_note_nothing().
 */
#ifndef RD_REPLAY_H
#define RD_REPLAY_H

#include "changes.h"
#include "db.h"

/* Put or delete the row that @change is of. */
int rd_replay_change(struct rd_sql *sql, const struct rd_change *change);

/*
 * Insert a session of a dead command: the next command marks the journal before it undoes that, and
 * the catalog from before no longer counts as that of the data area.
 */
int rd_replay_session(struct rd_sql *sql);

#endif
