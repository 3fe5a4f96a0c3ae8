// SPDX-License-Identifier: GPL-2.0
/*
 * Write a metadata device with a remap table; see table_write.h. The layout is that of
 * kernel/format.h. Everything but the table is as dmr_load_new() in kernel/load.c
 * leaves it.
 *
 * A group's bitmaps and words are adjacent, and so are its pages: the former are written
 * when the group is complete, the latter as soon as there are enough.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "table_write.h"

#define HEAD_BLOCKS	(DMR_STRIDE_BITS + DMR_GROUP_WORD_BLOCKS)
#define PAGES_AT_ONCE	1024U
/*
 * Write over a gap of this many pages rather than begin a new write behind it: a page
 * that no word names may hold anything. Less than the head of a group.
 */
#define PAGES_BETWEEN	16U

static int write_blocks(struct rd_table_writer *table, const void *data, u64 block,
			unsigned int nr)
{
	return rd_write_direct(table->fd, data, (size_t)nr << DMR_BLOCK_SHIFT,
			       block << DMR_BLOCK_SHIFT);
}

static int flush(struct rd_table_writer *table)
{
	return fsync(table->fd) ? -errno : 0;
}

/* Superblocks. The buffer `head` is free before the first group and after the last. */

static int clear_supers(struct rd_table_writer *table)
{
	int r;

	memset(table->head, 0, DMR_BLOCK_SIZE);
	r = write_blocks(table, table->head, 0, 1);
	if (!r)
		r = write_blocks(table, table->head, table->super.meta_blocks - 1, 1);
	return r ? r : flush(table);
}

static int write_super(struct rd_table_writer *table, u64 block)
{
	int r;

	memset(table->head, 0, DMR_BLOCK_SIZE);
	dmr_super_pack(&table->super, block, (struct dmr_super_disk *)table->head);
	r = write_blocks(table, table->head, block, 1);
	return r ? r : flush(table);
}

/* Groups */

/* Pack the bitmap of epoch 0, all dirty, and that of epoch 1, empty. */
static void pack_bits(struct rd_table_writer *table, u64 group, u64 nr_segs)
{
	u64 bits[DMR_BITS_LONGS] = { 0 };
	u64 block = dmr_bits_block(group, 1, DMR_FLAG_TABLE), seg;

	dmr_bits_pack(table->seed, block, 0, bits,
		      (struct dmr_bits_disk *)(table->head + DMR_BLOCK_SIZE));
	for (seg = 0; seg < nr_segs; seg++)
		bits[seg / 64] |= 1ULL << seg % 64;
	dmr_bits_pack(table->seed, block - 1, 0, bits,
		      (struct dmr_bits_disk *)table->head);
}

static void pack_word(struct rd_table_writer *table, u64 seg, struct dmr_entry entry)
{
	__le64 *words = (__le64 *)(table->head + DMR_STRIDE_BITS * DMR_BLOCK_SIZE);

	words[seg % DMR_GROUP_SEGS] =
		cpu_to_le64(dmr_entry_pack(table->seed, true, seg, entry));
}

static int write_head(struct rd_table_writer *table, u64 group)
{
	u64 first = group * DMR_GROUP_SEGS, seg = first + DMR_GROUP_SEGS;

	if (seg > table->nr_segs) {
		/* Words beyond the end are used when the volume grows. */
		while (seg-- > table->nr_segs)
			pack_word(table, seg, (struct dmr_entry){ .kind = DMR_BASE });
		seg = table->nr_segs;
	}
	pack_bits(table, group, seg - first);
	return write_blocks(table, table->head, dmr_bits_block(group, 0, DMR_FLAG_TABLE),
			    HEAD_BLOCKS);
}

/* Segments */

static int put_word(struct rd_table_writer *table, u64 seg, struct dmr_entry entry)
{
	if (entry.kind != DMR_BASE)
		table->super.flags &= ~DMR_FLAG_LINEAR_OK;
	pack_word(table, seg, entry);
	if ((seg + 1) % DMR_GROUP_SEGS && seg + 1 < table->nr_segs)
		return 0;
	return write_head(table, seg / DMR_GROUP_SEGS);
}

static int write_pages(struct rd_table_writer *table)
{
	unsigned int nr = table->waiting;

	table->waiting = 0;
	return nr ? write_blocks(table, table->pages, table->first_page, nr) : 0;
}

/* Find the buffer for the page of block @block. */
static int next_page(struct rd_table_writer *table, u64 block, __le64 **ret)
{
	u64 at = block - table->first_page;

	if (!table->waiting || at >= PAGES_AT_ONCE || at > table->waiting + PAGES_BETWEEN) {
		int r = write_pages(table);

		if (r)
			return r;
		table->first_page = block;
		at = 0;
	}
	memset(table->pages + (u64)table->waiting * DMR_BLOCK_SIZE, 0,
	       (at - table->waiting) * DMR_BLOCK_SIZE);
	table->waiting = at + 1;
	*ret = (__le64 *)(table->pages + at * DMR_BLOCK_SIZE);
	return 0;
}

static int put_page(struct rd_table_writer *table, u64 seg)
{
	unsigned int nr[DMR_NR_KINDS] = { 0 }, i;
	__le64 *page;
	int r = next_page(table, dmr_page_block(seg), &page);

	if (r)
		return r;
	for (i = 0; i < DMR_SEG_BLOCKS; i++) {
		u64 block = seg * DMR_SEG_BLOCKS + i;

		nr[table->entries[i].kind]++;
		page[i] = cpu_to_le64(dmr_entry_pack(table->seed, false, block,
						     table->entries[i]));
	}
	table->nr_pages++;
	return put_word(table, seg, (struct dmr_entry){
		.kind = DMR_PAGE,
		.block = dmr_page_hints(nr[DMR_BASE], nr[DMR_ZERO]),
	});
}

static int put_segment(struct rd_table_writer *table, u64 seg)
{
	const struct dmr_entry *entries = table->entries;
	unsigned int i;

	for (i = 1; i < DMR_SEG_BLOCKS; i++) {
		if (!dmr_entry_goes_on(entries[0], i, entries[i]))
			return put_page(table, seg);
	}
	return put_word(table, seg, entries[0]);
}

static int put_run(struct rd_table_writer *table, u64 len, struct dmr_entry place)
{
	int r = 0;

	while (!r && len) {
		u64 seg = table->next / DMR_SEG_BLOCKS, nr, i;
		unsigned int at = table->next % DMR_SEG_BLOCKS;

		nr = len < DMR_SEG_BLOCKS - at ? len : DMR_SEG_BLOCKS - at;
		if (nr == DMR_SEG_BLOCKS) {
			r = put_word(table, seg, place);
		} else {
			for (i = 0; i < nr; i++)
				table->entries[at + i] = dmr_entry_plus(place, i);
			if (at + nr == DMR_SEG_BLOCKS)
				r = put_segment(table, seg);
		}
		table->next += nr;
		len -= nr;
		place = dmr_entry_plus(place, nr);
	}
	return r;
}

static int put_base_until(struct rd_table_writer *table, u64 block)
{
	return put_run(table, block - table->next, (struct dmr_entry){ .kind = DMR_BASE });
}

/* The interface */

int rd_table_begin(struct rd_table_writer *table, int fd, const struct dmr_super *super)
{
	u64 nr_segs = dmr_nr_segs(super->volume_sectors);

	memset(table, 0, sizeof(*table));
	if (!nr_segs || nr_segs > DMR_MAX_SEGS)
		return -EFBIG;
	if (super->meta_blocks < dmr_meta_blocks_needed(nr_segs, DMR_FLAG_TABLE))
		return -ENOSPC;
	table->fd = fd;
	memcpy(table->super.meta_uuid, super->meta_uuid, DMR_UUID_SIZE);
	memcpy(table->super.volume_uuid, super->volume_uuid, DMR_UUID_SIZE);
	memcpy(table->super.pool_uuid, super->pool_uuid, DMR_UUID_SIZE);
	table->super.volume_sectors = super->volume_sectors;
	table->super.meta_blocks = super->meta_blocks;
	/* LINEAR_OK stands until a block is not BASE. */
	table->super.flags = DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK |
		(super->flags & DMR_FLAG_HYDRATE);
	table->super.hydrate_mib = super->hydrate_mib;
	table->super.seq = 1;
	table->seed = dmr_seed(super->meta_uuid);
	table->nr_segs = nr_segs;
	table->nr_blocks = dmr_nr_blocks(super->volume_sectors);
	table->head = rd_alloc_direct(HEAD_BLOCKS * DMR_BLOCK_SIZE);
	table->pages = rd_alloc_direct(PAGES_AT_ONCE * DMR_BLOCK_SIZE);
	if (!table->head || !table->pages)
		return -ENOMEM;
	return clear_supers(table);
}

/* Can entries name the places of @len blocks from @place on? */
static bool has_entries(const struct dmr_entry *place, u64 len)
{
	if (!dmr_entry_in_pool(*place))
		return true;
	if (place->block > DMR_ENTRY_BLOCK_MAX)
		return false;
	return len - 1 <= (place->kind == DMR_PACK ? DMR_SEG_BLOCKS - 1 - dmr_entry_slot(*place) :
						     DMR_ENTRY_BLOCK_MAX - place->block);
}

int rd_table_add(struct rd_table_writer *table, const struct dmr_range *range)
{
	const struct dmr_entry *place = &range->place[0];
	int r;

	if (range->first < table->next || !range->len)
		return -EINVAL;
	if (range->first >= table->nr_blocks ||
	    range->len > table->nr_blocks - range->first)
		return -ERANGE;
	if (!has_entries(place, range->len))
		return -EOVERFLOW;
	r = put_base_until(table, range->first);
	if (r)
		return r;
	if (place->kind == DMR_ZERO)
		table->nr_zero += range->len;
	else if (dmr_entry_in_pool(*place))
		table->nr_pool += range->len;
	if (place->kind == DMR_PACK)
		table->super.incompat |= DMR_INCOMPAT_PACK;
	return put_run(table, range->len, *place);
}

int rd_table_end(struct rd_table_writer *table)
{
	/* Blocks beyond the end of the volume, in its last segment, are BASE. */
	int r = put_base_until(table, table->nr_segs * DMR_SEG_BLOCKS);

	/* There is nothing to copy home. */
	if (table->super.flags & DMR_FLAG_LINEAR_OK) {
		table->super.flags &= ~DMR_FLAG_HYDRATE;
		table->super.hydrate_mib = 0;
	}
	if (!r)
		r = write_pages(table);
	if (!r)
		r = flush(table);
	if (!r)
		r = write_super(table, 0);
	return r ? r : write_super(table, table->super.meta_blocks - 1);
}

void rd_table_free(struct rd_table_writer *table)
{
	free(table->head);
	free(table->pages);
}
