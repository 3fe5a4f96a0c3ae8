// SPDX-License-Identifier: GPL-2.0
/*
 * What a metadata device holds: formatted, loaded, or brought to another size.
 *
 * Nothing here takes a volume down that could run: bits that cannot be read count as
 * dirty, and when bits cannot be written an outage begins (outage.c).
 */
#include <linux/math64.h>
#include <linux/uuid.h>

#include "bitmaps.h"
#include "dirty.h"
#include "flush.h"
#include "load.h"
#include "super.h"

static void set_bits(unsigned long *bits, u64 first, u64 end)
{
	for (; first < end; first++)
		__set_bit(first, bits);
}

/* ------------------------------------------------------------------
 * Format
 */

static u32 geometry_for(struct dmr_meta *meta, u64 nr_segs)
{
	return dmr_device_blocks(meta) >=
	       dmr_meta_blocks_needed(nr_segs, DMR_FLAG_TABLE) ?
	       DMR_FLAG_TABLE : 0;
}

/* Write both bitmap slots of the groups from @group on. */
static int write_groups(struct dmr_meta *meta, struct dmr_bitmaps *bits, u64 group)
{
	unsigned int errors = dmr_flush_errors(meta);
	u64 epoch = meta->super.epoch;
	int r = 0;

	for (; !r && group < bits->nr_groups; group++) {
		r = dmr_bitmaps_write(meta, group, epoch, bits->want);
		/*
		 * The other slot holds the frozen set, if there is one, or else
		 * any epoch before the next one.
		 */
		if (!r && epoch)
			r = dmr_bitmaps_write(meta, group, epoch - 1,
					      bits->frozen);
	}
	return r ? r : dmr_flush_buffers(meta, errors);
}

/*
 * Write the other slot in epoch 0, which has no epoch before it: an empty block of
 * epoch 0 in the place of epoch 1.
 */
static int write_first_odd_slots(struct dmr_meta *meta, struct dmr_bitmaps *bits,
				 u64 group)
{
	for (; group < bits->nr_groups; group++) {
		u64 block = dmr_bits_block(group, 1, meta->super.flags);
		struct dm_buffer *buf;
		void *data = dm_bufio_new(meta->bufio, block, &buf);

		if (IS_ERR(data))
			return PTR_ERR(data);
		dmr_bits_pack(meta->seed, block, 0,
			      (const u64 *)dmr_bitmaps_group(bits->frozen, group),
			      data);
		dm_bufio_mark_buffer_dirty(buf);
		dm_bufio_release(buf);
	}
	return 0;
}

static int write_new_groups(struct dmr_meta *meta, struct dmr_bitmaps *bits, u64 group)
{
	int r = 0;

	if (!meta->super.epoch)
		r = write_first_odd_slots(meta, bits, group);
	return r ? r : write_groups(meta, bits, group);
}

int dmr_load_new(struct dmr_meta *meta, struct dmr_target *rt,
		 sector_t volume_sectors)
{
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	struct dmr_super super = {
		.flags = DMR_FLAG_LINEAR_OK | geometry_for(meta, nr_segs),
		.volume_sectors = volume_sectors,
		.meta_blocks = dmr_device_blocks(meta),
	};
	struct dmr_bitmaps bits;
	int r;

	r = dmr_bitmaps_alloc(&bits, nr_segs);
	if (r)
		return r;
	generate_random_uuid(super.meta_uuid);
	memcpy(super.volume_uuid, rt->volume_uuid, DMR_UUID_SIZE);
	memcpy(super.pool_uuid, rt->pool_uuid, DMR_UUID_SIZE);

	meta->super = super;
	meta->seed = dmr_seed(super.meta_uuid);
	meta->last_seq = 0;
	/* Nothing is known of the past: every segment is dirty. */
	set_bits(bits.want, 0, nr_segs);
	r = write_new_groups(meta, &bits, 0);
	if (!r)
		r = dmr_super_write(meta, &super);
	if (r) {
		/* Leave nothing for the worker to retry. */
		meta->outage = false;
		meta->super_is_stale = false;
		meta->epoch_is_unsure = false;
		dmr_bitmaps_free(&bits);
		DMERR("%s: cannot format the metadata device: error %d",
		      dmr_name(meta), r);
		return r;
	}

	set_bits(bits.stable, 0, nr_segs);
	dmr_bitmaps_swap(meta, &bits);
	meta->nr_segs = nr_segs;
	DMINFO("%s: formatted the metadata device, %s a remap table: every segment is dirty",
	       dmr_name(meta),
	       super.flags & DMR_FLAG_TABLE ? "with room for" : "too small for");
	return 0;
}

/* ------------------------------------------------------------------
 * Load
 */

static void load_group(struct dmr_meta *meta, struct dmr_bitmaps *bits, u64 group)
{
	u64 epoch = meta->super.epoch;

	if (!dmr_bitmaps_read(meta, group, epoch, bits->want) || meta->epoch_is_unsure)
		__set_bit(group, bits->stale);
	else
		memcpy(dmr_bitmaps_group(bits->stable, group),
		       dmr_bitmaps_group(bits->want, group),
		       DMR_BITS_LONGS * sizeof(u64));
	if (meta->super.flags & DMR_FLAG_FROZEN)
		dmr_bitmaps_read(meta, group, epoch - 1, bits->frozen);
}

int dmr_load(struct dmr_meta *meta, const struct dmr_super *super)
{
	u64 nr_segs = dmr_nr_segs(super->volume_sectors);
	struct dmr_bitmaps bits;
	u64 group;
	int r;

	r = dmr_bitmaps_alloc(&bits, nr_segs);
	if (r)
		return r;
	meta->super = *super;
	meta->last_seq = super->seq;
	meta->seed = dmr_seed(super->meta_uuid);
	for (group = 0; group < bits.nr_groups; group++)
		load_group(meta, &bits, group);

	dmr_bitmaps_cut(&bits, nr_segs);

	dmr_bitmaps_swap(meta, &bits);
	meta->nr_segs = nr_segs;
	if (super->flags & DMR_FLAG_LOST) {
		DMWARN("%s: tracking was lost in epoch %llu: every segment is dirty until a later checkpoint is committed",
		       dmr_name(meta), super->lost_epoch);
		meta->lost_before = true;
		meta->lost_before_epoch = super->lost_epoch;
		dmr_dirty_set(meta, 0, nr_segs);
	}
	return 0;
}

/* ------------------------------------------------------------------
 * Size
 */

/*
 * Make the bits of new segments stable before the superblock that counts them. The bits
 * of segments that are cut off stay on disk: beyond the end that the new superblock
 * counts they mean nothing, and until it is stable the volume has these segments.
 */
int dmr_load_resize(struct dmr_meta *meta, sector_t volume_sectors)
{
	u64 old_sectors = meta->super.volume_sectors;
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	/* A last segment that is not whole changes with the size, too. */
	u64 first = dmr_sector_seg(min_t(u64, old_sectors, volume_sectors));
	struct dmr_super super = meta->super;
	struct dmr_bitmaps bits;
	u64 group;
	int r;

	r = dmr_bitmaps_alloc(&bits, nr_segs);
	if (r)
		return r;
	dmr_bitmaps_copy(meta, &bits);
	set_bits(bits.want, first, nr_segs);

	group = div_u64(first, DMR_GROUP_SEGS);
	r = write_new_groups(meta, &bits, group);
	super.volume_sectors = volume_sectors;
	if (!r)
		r = dmr_super_write(meta, &super);
	if (r) {
		dmr_bitmaps_free(&bits);
		DMERR("%s: cannot record the new size: error %d; nothing was changed, load a table of the old size",
		      dmr_name(meta), r);
		return r;
	}
	/* Groups from @group on are on disk as they are in memory. */
	for (; group < bits.nr_groups; group++) {
		memcpy(dmr_bitmaps_group(bits.stable, group),
		       dmr_bitmaps_group(bits.want, group),
		       DMR_BITS_LONGS * sizeof(u64));
		__clear_bit(group, bits.stale);
	}
	dmr_bitmaps_cut(&bits, nr_segs);
	dmr_bitmaps_swap(meta, &bits);
	dmr_bitmaps_free(&bits);
	meta->nr_segs = nr_segs;
	DMINFO("%s: the volume has %llu sectors now, before it had %llu",
	       dmr_name(meta), (u64)volume_sectors, old_sectors);
	return 0;
}
