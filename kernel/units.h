/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Units of the base: blocks that it discards only together. A thin volume frees a chunk only
 * if all of it is discarded. So a unit can be given back while no block of it is BASE.
 */
#ifndef DMR_UNITS_H
#define DMR_UNITS_H

#include <linux/blkdev.h>

#include "dmr_table.h"

/* Blocks from @first to @end - 1. */
struct dmr_block_range {
	u64 first;
	u64 end;
};

/* How many blocks a unit has. Anywhere. */
unsigned int dmr_unit_blocks(struct dmr_table *t);

/* Is that more than one? Anywhere. */
static inline bool dmr_units_exist(struct dmr_table *t)
{
	return bdev_discard_granularity(t->base) > DMR_BLOCK_SIZE;
}

/*
 * Is no block from @first to @end - 1, all in one segment, BASE or busy? -EAGAIN: that is not
 * known, since the page is on disk only. Under t->lock.
 */
int dmr_unit_look(struct dmr_table *t, u64 first, u64 end);

/* The blocks that @bio covers whole. Anywhere. */
static inline struct dmr_block_range dmr_unit_whole_blocks(struct bio *bio)
{
	return (struct dmr_block_range){
		.first = DIV_ROUND_UP_ULL(bio->bi_iter.bi_sector, DMR_BLOCK_SECTORS),
		.end = bio_end_sector(bio) / DMR_BLOCK_SECTORS,
	};
}

/*
 * Discard @part, blocks that are BASE, of a discard of the blocks @all, in whole units: no
 * other block of a unit is BASE, or it is discarded as well. True: @part will end; false:
 * nothing was done. Sleeps.
 */
bool dmr_unit_discard(struct dmr_table *t, struct bio *part, struct dmr_block_range all);

#endif
