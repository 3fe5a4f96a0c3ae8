/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of the remap table become stable.
 */
#ifndef DMR_WRITEBACK_H
#define DMR_WRITEBACK_H

#include "dmr.h"

void dmr_writeback_init(struct dmr_table *t);
int dmr_writeback_alloc(struct dmr_table *t);
void dmr_writeback_exit(struct dmr_table *t);

/* Make all changes stable that were made before: 0 or -errno. Sleeps. */
int dmr_writeback(struct dmr_table *t);
/*
 * Begin a message: its dmr_writeback_settle() fails if a copy home is taken back from
 * now on. Under message_lock.
 */
void dmr_writeback_begin_settle(struct dmr_table *t);
/* Write back, then wait for all I/O that looked at the table before. Under message_lock. */
int dmr_writeback_settle(struct dmr_table *t);
/*
 * The same, at no cost where no place has changed since the last settle: what was replaced is
 * named nowhere. Copies home that run are not waited for. Under message_lock.
 */
int dmr_writeback_settle_changes(struct dmr_table *t);
/* Are all blocks BASE, and is that stable? Not under t->lock. */
bool dmr_writeback_is_linear(struct dmr_table *t);
/*
 * Prepare the disk for the first entry that is not BASE: write all words, which were
 * never initialised, then clear DMR_FLAG_LINEAR_OK, so that they are read. Set @flags
 * in the superblock, too. Under meta->lock.
 */
int dmr_writeback_leave_linear(struct dmr_table *t, u32 flags);
/* If they are, record it in the superblock. Under meta->lock. */
void dmr_writeback_note_linear(struct dmr_table *t);

#endif
