/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write a whole metadata image with a remap table, on a device that no target
 * uses: what a target would have after it was formatted and given this table.
 * Places come in ascending order and are written in the same, so memory is that
 * of one group's words, however large the volume.
 *
 * The two superblocks are cleared first and written last, each step flushed: what
 * a crash leaves of it is not ours, or all of it is there.
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

	/* Of the segment that `next` is in, as far as it goes. */
	struct dmr_entry entries[DMR_SEG_BLOCKS];

	u8 *head;			/* bitmaps and words of the group */
	u8 *pages;			/* that wait to be written in one go */
	u64 first_page;			/* where the first of them goes */
	unsigned int waiting;

	/* What it came to. */
	u64 nr_zero;			/* blocks */
	u64 nr_pool;
	u64 nr_pages;
};

/*
 * Begin on @fd, which holds super->meta_blocks blocks. Of @super the uuids, the
 * two sizes, and DMR_FLAG_HYDRATE with its rate count. Returns 0 or -errno, -EFBIG
 * for a volume that is too large (or of no size), -ENOSPC where the blocks are too
 * few for the table.
 */
int rd_table_begin(struct rd_table_writer *table, int fd, const struct dmr_super *super);

/*
 * Where the blocks of @range are: range->place[0]. Those that are left out are
 * BASE. Returns 0 or -errno of a write, and with nothing changed -EINVAL for what
 * does not come after the range before, -ERANGE for what does not end within the
 * volume, and -EOVERFLOW for a pool block that no entry can name.
 */
int rd_table_add(struct rd_table_writer *table, const struct dmr_range *range);

/* All of it is there, and stable: 0 or -errno. */
int rd_table_end(struct rd_table_writer *table);

/* After success and failure. Does not close the fd. */
void rd_table_free(struct rd_table_writer *table);

#endif
