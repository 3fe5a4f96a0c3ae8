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

/* Forget the frames of the journal; then note each frame of @journal. */
int rd_replay_forget_journal(struct rd_sql *sql);
int rd_replay_journal_frame(struct rd_sql *sql, u64 journal, u64 frame);

/* Set the generation of the catalog. */
int rd_replay_generation(struct rd_sql *sql, u64 generation);

/* Give each version that was being made to a session of a dead command. */
int rd_replay_sessions(struct rd_sql *sql);

/* May a device read the pool? */
int rd_replay_has_leases(struct rd_sql *sql, bool *ret);

#endif
