/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write a whole metadata device with a remap table, while no target uses it. The result
 * is what a target would have after it formatted the device and got this table. Places
 * come in ascending order and are written in this order, so the memory needed is that
 * of one group's words, however large the volume is.
 *
 * The two superblocks are cleared first and written last, with a flush after each step:
 * after a crash the device has no superblock of ours, or all of it is there.
 */
#ifndef RD_TABLE_WRITE_H
#define RD_TABLE_WRITE_H

#include <linux/types.h>

#include "kernel/format.h"
#include "kernel/ranges.h"

struct rd_table_writer {
	int fd;
	struct dmr_super super;
	u32 seed;
	u64 nr_segs;
	u64 nr_blocks;			/* of the volume */
	u64 next;			/* the first block that has no place yet */

	/* The places in the segment that `next` is in, as far as they are known. */
	struct dmr_entry entries[DMR_SEG_BLOCKS];

	u8 *head;			/* bitmaps and words of the group */
	u8 *pages;			/* waiting to be written together */
	u64 first_page;			/* the block of the first of them */
	unsigned int waiting;

	/* Counts of what was written. */
	u64 nr_zero;			/* blocks */
	u64 nr_pool;
	u64 nr_pages;
};

/*
 * Begin on @fd, which holds super->meta_blocks blocks. Only the UUIDs, the two sizes,
 * and DMR_FLAG_HYDRATE with its rate are used of @super. Returns 0 or -errno; -EFBIG:
 * the volume is too large, or has no size; -ENOSPC: the table needs more blocks.
 */
int rd_table_begin(struct rd_table_writer *table, int fd, const struct dmr_super *super);

/*
 * Add the place of the blocks of @range: range->place[0]. Blocks that no range has are
 * BASE. Returns 0 or -errno of a write. Or, with nothing changed, -EINVAL: @range does
 * not come after the last one; -ERANGE: it ends beyond the volume; -EOVERFLOW: no entry
 * can name the pool block, or the pack has no such slots.
 */
int rd_table_add(struct rd_table_writer *table, const struct dmr_range *range);

/* Write the rest, and flush it: 0 or -errno. */
int rd_table_end(struct rd_table_writer *table);

/* Free the memory, after success and failure. Does not close the fd. */
void rd_table_free(struct rd_table_writer *table);

#endif
