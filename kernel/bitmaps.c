// SPDX-License-Identifier: GPL-2.0
/*
 * The bitmaps of a metadata device, in memory and on disk. A bitmap block that cannot
 * be read takes no volume down: its segments count as dirty.
 */
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "bitmaps.h"

/* ------------------------------------------------------------------
 * In memory
 */

/* Allocate with vzalloc(): kvcalloc() would round up to a power of two. */
static unsigned long *alloc_bits(u64 nr_groups)
{
	return vzalloc(array_size(nr_groups, DMR_BITS_LONGS * sizeof(u64)));
}

void dmr_bitmaps_free(struct dmr_bitmaps *bits)
{
	kvfree(bits->want);
	kvfree(bits->stable);
	kvfree(bits->frozen);
	kvfree(bits->stale);
}

int dmr_bitmaps_alloc(struct dmr_bitmaps *bits, u64 nr_segs)
{
	bits->nr_groups = dmr_nr_groups(nr_segs);
	bits->want = alloc_bits(bits->nr_groups);
	bits->stable = alloc_bits(bits->nr_groups);
	bits->frozen = alloc_bits(bits->nr_groups);
	bits->stale = kvcalloc(BITS_TO_LONGS(bits->nr_groups),
			       sizeof(long), GFP_KERNEL);
	if (bits->want && bits->stable && bits->frozen && bits->stale)
		return 0;
	dmr_bitmaps_free(bits);
	return -ENOMEM;
}

void dmr_bitmaps_swap(struct dmr_meta *meta, struct dmr_bitmaps *bits)
{
	swap(meta->nr_groups, bits->nr_groups);
	swap(meta->want, bits->want);
	swap(meta->stable, bits->stable);
	swap(meta->frozen, bits->frozen);
	swap(meta->stale, bits->stale);
}

void dmr_bitmaps_copy(struct dmr_meta *meta, struct dmr_bitmaps *to)
{
	u64 groups = min(meta->nr_groups, to->nr_groups);
	size_t len = groups * DMR_BITS_LONGS * sizeof(u64);

	memcpy(to->want, meta->want, len);
	memcpy(to->stable, meta->stable, len);
	memcpy(to->frozen, meta->frozen, len);
	memcpy(to->stale, meta->stale,
	       BITS_TO_LONGS(groups) * sizeof(long));
}

static void clear_bits(unsigned long *bits, u64 first, u64 end)
{
	for (; first < end; first++)
		__clear_bit(first, bits);
}

void dmr_bitmaps_cut(struct dmr_bitmaps *bits, u64 nr_segs)
{
	u64 end = bits->nr_groups * DMR_GROUP_SEGS;

	clear_bits(bits->want, nr_segs, end);
	clear_bits(bits->stable, nr_segs, end);
	clear_bits(bits->frozen, nr_segs, end);
}

/* ------------------------------------------------------------------
 * On disk
 */

int dmr_bitmaps_write(struct dmr_meta *meta, u64 group, u64 epoch,
		      const unsigned long *bits)
{
	u64 block = dmr_bits_block(group, epoch, meta->super.flags);
	struct dm_buffer *buf;
	void *data = dm_bufio_new(meta->bufio, block, &buf);

	if (IS_ERR(data))
		return PTR_ERR(data);
	dmr_bits_pack(meta->seed, block, epoch,
		      (const u64 *)dmr_bitmaps_group((unsigned long *)bits, group),
		      data);
	dm_bufio_mark_buffer_dirty(buf);
	dm_bufio_release(buf);
	return 0;
}

bool dmr_bitmaps_read(struct dmr_meta *meta, u64 group, u64 epoch,
		      unsigned long *bits)
{
	u64 block = dmr_bits_block(group, epoch, meta->super.flags);
	u64 *to = (u64 *)dmr_bitmaps_group(bits, group);
	struct dm_buffer *buf;
	void *data = dm_bufio_read(meta->bufio, block, &buf);
	bool good;

	if (IS_ERR(data)) {
		memset(to, 0xff, DMR_BITS_LONGS * sizeof(*to));
		good = false;
	} else {
		good = dmr_bits_unpack(meta->seed, block, epoch, data, to);
		dm_bufio_release(buf);
	}
	if (!good)
		DMWARN("%s: bitmap block %llu is %s; its segments count as dirty",
		       dmr_name(meta), block,
		       IS_ERR(data) ? "unreadable" : "damaged");
	return good;
}
