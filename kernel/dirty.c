// SPDX-License-Identifier: GPL-2.0
/*
 * Dirty bits. A group of bits that changed in memory is stale on disk until its block
 * was written and flushed; then its bits count as stable, and map lets writes pass.
 *
 * When the metadata device fails a write, an outage begins (outage.c). It ends when all
 * bits are stable again. Until then a copy of the superblock is to bear the lost mark,
 * because a crash would forget bits.
 */
#include <linux/bitops.h>

#include "bitmaps.h"
#include "dirty.h"
#include "flush.h"
#include "outage.h"
#include "super.h"

/* ------------------------------------------------------------------
 * Bits
 */

void dmr_dirty_set(struct dmr_meta *meta, u64 first, u64 len)
{
	u64 seg;

	lockdep_assert_held(&meta->lock);
	for (seg = first; seg < first + len; seg++)
		__set_bit(seg, meta->want);
	for (seg = first - first % DMR_GROUP_SEGS; seg < first + len;
	     seg += DMR_GROUP_SEGS)
		__set_bit(seg / DMR_GROUP_SEGS, meta->stale);
}

/* Make the bits of @group stable, which is on disk; map reads `stable` meanwhile. */
static void set_group_stable(struct dmr_meta *meta, u64 group)
{
	unsigned long *stable = meta->stable + group * DMR_BITS_LONGS;
	unsigned long *want = meta->want + group * DMR_BITS_LONGS;
	unsigned int i;

	for (i = 0; i < DMR_BITS_LONGS; i++)
		WRITE_ONCE(stable[i], want[i]);
}

static int write_stale(struct dmr_meta *meta)
{
	unsigned int errors = dmr_flush_errors(meta);
	unsigned long group;
	int r;

	for_each_set_bit(group, meta->stale, meta->nr_groups) {
		r = dmr_bitmaps_write(meta, group, meta->super.epoch,
				      meta->want);
		if (r)
			return r;
	}
	return dmr_flush_buffers(meta, errors);
}

int dmr_dirty_flush(struct dmr_meta *meta)
{
	unsigned long group;
	int r;

	lockdep_assert_held(&meta->lock);
	if (find_first_bit(meta->stale, meta->nr_groups) >= meta->nr_groups)
		return 0;
	/* What these bits mean on disk depends on the epoch that the disk is in. */
	if (meta->epoch_is_unsure) {
		r = dmr_super_refresh(meta);
		if (r)
			return r;
	}
	r = write_stale(meta);
	if (r) {
		dmr_outage_begin(meta, "writing dirty bits", r);
		return r;
	}
	for_each_set_bit(group, meta->stale, meta->nr_groups) {
		set_group_stable(meta, group);
		__clear_bit(group, meta->stale);
	}
	return 0;
}

/* ------------------------------------------------------------------
 * The end of an outage
 */

static void write_mark(struct dmr_meta *meta)
{
	struct dmr_super super = meta->super;

	super.flags |= DMR_FLAG_LOST;
	super.lost_epoch = super.epoch;
	meta->outage_is_marked = !dmr_super_write(meta, &super);
}

/* Remove the mark of an outage in which no bit was lost: all are stable again. */
static int remove_mark(struct dmr_meta *meta)
{
	struct dmr_super super = meta->super;
	int r;

	if (meta->lost_before)
		super.lost_epoch = meta->lost_before_epoch;
	else
		super.flags &= ~DMR_FLAG_LOST;
	r = dmr_super_write(meta, &super);
	if (r && meta->outage_is_marked) {
		/* The failed write may have removed it all the same: first writes wait again. */
		meta->outage_is_marked = false;
		meta->outage_start = jiffies;
	}
	return r;
}

bool dmr_dirty_end_outage(struct dmr_meta *meta)
{
	lockdep_assert_held(&meta->lock);
	if (dmr_dirty_flush(meta) || remove_mark(meta))
		return false;
	meta->outage = false;
	DMINFO("%s: the metadata device can be written again, nothing was lost",
	       dmr_name(meta));
	dmr_outage_event(meta);
	return true;
}

void dmr_dirty_retry(struct dmr_meta *meta)
{
	if (!dmr_dirty_end_outage(meta) && !meta->outage_is_marked)
		write_mark(meta);
}
