// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs in two phases. The controller suspends the device, sends checkpoint E,
 * resumes, copies what is frozen, makes the version durable in its catalog, and
 * sends commit E N. If the copy fails it sends abort E.
 *
 * Each message is one write of the superblock, which happens or does not (super.c):
 *
 *   checkpoint E   epoch = E, FROZEN. Bits of epoch E start empty without a
 *                  write, since all blocks of that parity are of an older epoch.
 *                  The base is flushed before, because the version will hold what
 *                  the volume says now: if a power cut took data of a segment
 *                  back later, the segment would differ from the version and
 *                  yet be clean once the version is committed
 *   commit E N     committed = E, version = N, not FROZEN
 *   abort E        not FROZEN, after the frozen bits were added to the current
 *                  ones and that is stable: a crash between leaves the frozen
 *                  set in place and some of it in the current one, too
 *
 * Repeating a message whose answer was lost does nothing; a message for another
 * epoch is refused and changes nothing.
 */
#include <linux/blkdev.h>

#include "checkpoint.h"
#include "dirty.h"
#include "flush.h"
#include "outage.h"
#include "ranges.h"
#include "super.h"

static void all_stale(struct dmr_meta *meta)
{
	u64 group;

	for (group = 0; group < meta->nr_groups; group++)
		__set_bit(group, meta->stale);
}

/* Add the frozen bits to the current ones, in memory only. */
static void add_frozen(struct dmr_meta *meta)
{
	u64 i;

	for (i = 0; i < meta->nr_groups * DMR_BITS_LONGS; i++)
		meta->want[i] |= meta->frozen[i];
	all_stale(meta);
}

static void clear_bits(struct dmr_meta *meta, unsigned long *bits)
{
	memset(bits, 0, meta->nr_groups * DMR_BITS_LONGS * sizeof(u64));
}

static int check_checkpoint(struct dmr_meta *meta, u64 epoch)
{
	if (!meta->suspended) {
		DMERR("%s: checkpoint %llu: suspend the device first",
		      dmr_name(meta), epoch);
		return -EBUSY;
	}
	if (epoch != meta->super.epoch + 1) {
		DMERR("%s: checkpoint %llu: the next one is %llu",
		      dmr_name(meta), epoch, meta->super.epoch + 1);
		return -EINVAL;
	}
	return dmr_super_check_writable(meta, "checkpoint");
}

static int flush_base(struct dmr_meta *meta, struct block_device *base)
{
	int r = dmr_flush_base(meta, base);

	if (r)
		DMERR("%s: checkpoint: cannot flush the base device: error %d",
		      dmr_name(meta), r);
	return r;
}

int dmr_checkpoint(struct dmr_meta *meta, struct block_device *base, u64 epoch)
{
	struct dmr_super super;
	int r;

	/*
	 * The same message again, before the device is resumed, does nothing. Not
	 * after an abort or a commit: the checkpoint would seem to wait still.
	 */
	if (meta->checkpoint_is_fresh && epoch == meta->super.epoch &&
	    (meta->super.flags & DMR_FLAG_FROZEN))
		return 0;
	r = check_checkpoint(meta, epoch);
	if (!r)
		r = flush_base(meta, base);
	if (r)
		return r;

	/* A frozen set that exists already becomes part of the new one. */
	if (meta->super.flags & DMR_FLAG_FROZEN)
		add_frozen(meta);
	r = dmr_dirty_flush(meta);
	if (r)
		return r;

	super = meta->super;
	super.epoch = epoch;
	super.flags |= DMR_FLAG_FROZEN;
	r = dmr_super_write(meta, &super);
	if (r) {
		/* If the write reached the disk all the same, the set there is empty. */
		clear_bits(meta, meta->stable);
		all_stale(meta);
		return r;
	}
	swap(meta->want, meta->frozen);
	clear_bits(meta, meta->want);
	clear_bits(meta, meta->stable);
	meta->checkpoint_is_fresh = true;
	return 0;
}

/* Return 1 if @epoch is the uncommitted checkpoint, 0 if it is done with, or -EINVAL. */
static int check_pending(struct dmr_meta *meta, const char *verb, u64 epoch,
			 bool done)
{
	if (epoch == meta->super.epoch) {
		if (meta->super.flags & DMR_FLAG_FROZEN)
			return 1;
		if (done)
			return 0;
	}
	DMERR("%s: %s %llu: no such checkpoint waits (epoch %llu, committed %llu)",
	      dmr_name(meta), verb, epoch, meta->super.epoch,
	      meta->super.committed);
	return -EINVAL;
}

int dmr_commit(struct dmr_meta *meta, u64 epoch, u64 version)
{
	struct dmr_super super = meta->super;
	bool was_lost = dmr_is_lost(meta);
	bool healed;
	int r;

	r = check_pending(meta, "commit", epoch,
			  super.committed == epoch && epoch &&
			  super.version_nr == version);
	if (r <= 0)
		return r;
	r = dmr_super_check_writable(meta, "commit");
	if (r)
		return r;

	super.flags &= ~DMR_FLAG_FROZEN;
	super.committed = super.epoch;
	super.version_nr = version;
	/* The frozen set covers what was lost before the checkpoint: it has every segment. */
	healed = meta->lost_before_epoch < super.epoch;
	/* In an outage the mark may stand for that one, too. */
	if (healed && !meta->outage)
		super.flags &= ~DMR_FLAG_LOST;
	r = dmr_super_write(meta, &super);
	if (r)
		return r;
	if (healed)
		meta->lost_before = false;
	clear_bits(meta, meta->frozen);
	if (was_lost && !dmr_is_lost(meta))
		dmr_outage_event(meta);
	return 0;
}

/* Drop the frozen set once its union with the current one is on disk. */
static int drop_frozen(struct dmr_meta *meta)
{
	struct dmr_super super = meta->super;
	int r;

	add_frozen(meta);
	super.flags &= ~DMR_FLAG_FROZEN;
	r = dmr_dirty_flush(meta);
	return r ? r : dmr_super_write(meta, &super);
}

int dmr_abort(struct dmr_meta *meta, u64 epoch)
{
	int r;

	r = check_pending(meta, "abort", epoch,
			  epoch && meta->super.committed != epoch);
	if (r <= 0)
		return r;
	r = dmr_super_check_writable(meta, "abort");
	if (r)
		return r;
	r = drop_frozen(meta);
	if (r)
		return r;
	clear_bits(meta, meta->frozen);
	return 0;
}

int dmr_mark(struct dmr_meta *meta, const char *ranges)
{
	const struct dmr_range_rules rules = { .limit = meta->nr_segs };
	struct dmr_range range;
	int r;

	r = dmr_ranges_check(ranges, &rules);
	if (r) {
		DMERR("%s: mark: not ranges \"first,len;...\" in hex within %llu segments",
		      dmr_name(meta), meta->nr_segs);
		return r;
	}
	r = dmr_super_check_writable(meta, "mark");
	if (r)
		return r;
	while (dmr_range_next(&ranges, &rules, &range) > 0)
		dmr_dirty_set(meta, range.first, range.len);
	return dmr_dirty_flush(meta);
}
