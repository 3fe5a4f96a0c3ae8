/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks that are in packs: read, or copied home.
 *
 * packs.c stands above writeback.c in the drawing of dmr_table.h; at the bottom are
 * decode.c, the contexts of zstd, and pack_format.c, which is pure: the format of a pack.
 * dmr_packs.lock is taken last, a spinlock in interrupts, too, and map takes it under no
 * other. The lock of a head is a mutex of jobs that nothing else waits for; under those of
 * decode.c nothing is done but to allocate and to decode.
 */
#ifndef DMR_PACKS_H
#define DMR_PACKS_H

#include "dmr_table.h"
#include "pack_format.h"

/*
 * Have what it takes to read packs, before an entry names one: 0 or -ENOMEM. It stays as long as
 * the table. Under meta->lock.
 */
int dmr_packs_begin(struct dmr_table *t);
void dmr_packs_end(struct dmr_table *t);

/* Forget what was read of the pack at @head: it may be another one. Anywhere. */
void dmr_packs_forget(struct dmr_table *t, u64 head);
/* The same for all of them. Sleeps. */
void dmr_packs_forget_all(struct dmr_table *t);

/* How many blocks from @place on, at most, are read at once? Anywhere. */
static inline unsigned int dmr_packs_run(struct dmr_entry place)
{
	return DMR_PACK_GROUP_BLOCKS - dmr_entry_slot(place) % DMR_PACK_GROUP_BLOCKS;
}

/* Read @bio, whose blocks are those from @place on, and end it. Anywhere. */
void dmr_packs_read(struct dmr_table *t, struct bio *bio, struct dmr_entry place);

/* As dmr_copy_home(), for blocks of one group of a pack. Sleeps. */
void dmr_packs_copy_home(struct dmr_table *t, struct dmr_entry place, sector_t sector,
			 sector_t count, dm_kcopyd_notify_fn fn, void *context);

/* MiB that groups take, and how many were decoded. */
void dmr_packs_count(struct dmr_table *t, unsigned int *mib, u64 *nr_decoded);

#endif
