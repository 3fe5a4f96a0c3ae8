/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Put rows into a catalog that is made anew as the journal has them: beside the file of a
 * table, only this one writes it. In a transaction, with rd_sql_note_nothing().
 */
#ifndef RD_REPLAY_H
#define RD_REPLAY_H

#include "changes.h"
#include "db.h"

/* Put or delete the row that @change is of. */
int rd_replay_change(struct rd_sql *sql, const struct rd_change *change);

/* Forget where the journal is; then say, of each frame of @journal, that it is there. */
int rd_replay_forget_journal(struct rd_sql *sql);
int rd_replay_journal_frame(struct rd_sql *sql, u64 journal, u64 frame);

/* The catalog is that of @generation. */
int rd_replay_generation(struct rd_sql *sql, u64 generation);

/* Give versions that were being made to sessions of commands that are dead. */
int rd_replay_sessions(struct rd_sql *sql);

/* May a device read the pool? */
int rd_replay_has_leases(struct rd_sql *sql, bool *ret);

#endif
