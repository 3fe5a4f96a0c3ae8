/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bitmaps of a metadata device, in memory and on disk. All of these sleep, under
 * meta->lock where they have a struct dmr_meta.
 */
#ifndef DMR_BITMAPS_H
#define DMR_BITMAPS_H

#include "dmr.h"

/* A set of bitmaps that is not yet, or no more, that of a struct dmr_meta. */
struct dmr_bitmaps {
	u64 nr_groups;
	unsigned long *want;
	unsigned long *stable;
	unsigned long *frozen;
	unsigned long *stale;
};

static inline unsigned long *dmr_bitmaps_group(unsigned long *bits, u64 group)
{
	return bits + group * DMR_BITS_LONGS;
}

/* Allocate bitmaps of zeros for @nr_segs segments: 0 or -ENOMEM. */
int dmr_bitmaps_alloc(struct dmr_bitmaps *bits, u64 nr_segs);
void dmr_bitmaps_free(struct dmr_bitmaps *bits);
/* Exchange @bits with those of @meta. */
void dmr_bitmaps_swap(struct dmr_meta *meta, struct dmr_bitmaps *bits);
/* Copy what @meta has, as far as @to has room. */
void dmr_bitmaps_copy(struct dmr_meta *meta, struct dmr_bitmaps *to);
/* Clear the bits from @nr_segs on, beyond the end of the volume. */
void dmr_bitmaps_cut(struct dmr_bitmaps *bits, u64 nr_segs);

/* Write the block of @group for @epoch, from @bits; it is not flushed. */
int dmr_bitmaps_write(struct dmr_meta *meta, u64 group, u64 epoch,
		      const unsigned long *bits);
/*
 * Read the block of @group for @epoch into @bits. A block that cannot be read makes
 * every segment dirty. False: write the block again.
 */
bool dmr_bitmaps_read(struct dmr_meta *meta, u64 group, u64 epoch,
		      unsigned long *bits);

#endif
