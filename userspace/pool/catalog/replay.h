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
 * Give each version that was being made to a session of a dead command, and insert one more
 * such session, which the next command undoes: before that it marks the journal, and the
 * catalog from before no longer counts as that of the data area.
 */
int rd_replay_sessions(struct rd_sql *sql);

#endif
