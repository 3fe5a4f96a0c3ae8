/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dirty bits: set in memory, made stable, and mended after an outage.
 */
#ifndef DMR_DIRTY_H
#define DMR_DIRTY_H

#include "dmr.h"

/* Are the dirty bits of all that @bio writes on disk? Anywhere. */
static inline bool dmr_dirty_is_stable(struct dmr_meta *meta, struct bio *bio)
{
	u64 seg = dmr_sector_seg(bio->bi_iter.bi_sector);
	u64 last = dmr_sector_seg(bio_end_sector(bio) - 1);

	for (; seg <= last; seg++) {
		if (!test_bit(seg, meta->stable))
			return false;
	}
	return true;
}

/* The rest under meta->lock. */

/* Put the bits of segments [@first, @first + @len) into want. */
void dmr_dirty_set(struct dmr_meta *meta, u64 first, u64 len);
/* Make want stable: 0, or -errno and an outage has begun. */
int dmr_dirty_flush(struct dmr_meta *meta);
/* Write what an outage kept in memory only. True: the outage is over. */
bool dmr_dirty_end_outage(struct dmr_meta *meta);
/* Try to end the outage; while that fails, try to mark it on a superblock copy. */
void dmr_dirty_retry(struct dmr_meta *meta);

#endif
