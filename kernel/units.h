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

/*
 * Can discards from above be made wider? Not if a unit is a block, nor if it is more than a
 * segment, of which hardly ever a part is away. Anywhere.
 */
static inline bool dmr_units_exist(struct dmr_table *t)
{
	unsigned int bytes = bdev_discard_granularity(t->base);

	return bytes > DMR_BLOCK_SIZE && bytes <= DMR_SEG_BLOCKS * DMR_BLOCK_SIZE &&
	       bdev_max_discard_sectors(t->base);
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
 * Discard @part, blocks that are BASE, and what is beside it in the same units, where no other
 * block of these is BASE but those of @all, which are all being discarded. True: @part will
 * end; false: nothing is wider, and nothing was done. Sleeps.
 */
bool dmr_unit_discard(struct dmr_table *t, struct bio *part, struct dmr_block_range all);

#endif
