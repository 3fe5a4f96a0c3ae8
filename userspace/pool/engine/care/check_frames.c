// SPDX-License-Identifier: GPL-2.0
/* Check whose each frame is, and what the data area has allocated. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "pool/catalog/check_counts.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/state.h"
#include "checker.h"

/* --- the tables that frames are in */

struct span {
	u64 start, len;
	const char *what;
};

static int add_span(void *ctx, const char *what, u64 start, u64 len)
{
	const struct span span = { .start = start, .len = len, .what = what };
	struct rd_buffer *spans = ctx;

	return rd_buffer_put(spans, &span, sizeof(span));
}

/*
 * Did a crash come between the superblock of a pool that grew and the catalog? Then the
 * superblock also names a journal that the catalog does not follow yet, and the next command
 * that writes makes it follow, see journal.c.
 */
static bool is_growing(struct checker *check, u64 nr_known)
{
	const struct rd_pool_super *super = &check->pool->area.super;
	struct rd_state state;

	return nr_known < super->nr_frames && !rd_state_read(check->sql, &state) &&
		state.journal != super->journal_id;
}

int rd_check_frame_tables(struct checker *check)
{
	RD_BUFFER struct rd_buffer spans = { 0 };
	struct span *list;
	size_t i, nr;
	u64 next = 0;
	int r;

	r = rd_check_spans(check->sql, add_span, &spans);
	list = (struct span *)spans.data;
	nr = spans.len / sizeof(*list);
	rd_sort(list, nr, start);
	for (i = 0; i < nr && !r; i++) {
		if (list[i].start > next)
			rd_check_wrong(check, "frames %llu to %llu are in no table", next,
				       list[i].start - 1);
		else if (list[i].start < next)
			rd_check_wrong(check, "frame %llu is both %s and %s", list[i].start,
				       list[i - 1].what, list[i].what);
		next = rd_max(next, list[i].start + list[i].len);
	}
	if (!r && next != check->pool->area.super.nr_frames && !is_growing(check, next))
		rd_check_wrong(check, "frames %llu to %llu are in no table, or there are none",
			       next, check->pool->area.super.nr_frames - 1);
	return r;
}

/* --- packs */

/* Is byte block @i of the pack, or, behind the last one, a block of its fingerprints, there? */
static u64 pack_slot(const struct rd_pack *pack, unsigned int i)
{
	unsigned int page = pack->frame % RD_GROUP_FRAMES;

	if (i < pack->blocks)
		return pack->place + i;
	return (pack->frame - RD_PACKED_FRAMES) / RD_GROUP_FRAMES * RD_SEG_BLOCKS + 2 * page +
		(i - pack->blocks);
}

static int count_pack(struct checker *check, const struct rd_pack *pack)
{
	unsigned int i, end = pack->blocks + 2, nr = 0;
	int r = 0;

	for (i = 0; i < end && !r; i++) {
		u64 frame = pack_slot(pack, i) / RD_SEG_BLOCKS;

		nr++;
		if (i + 1 == end || pack_slot(pack, i + 1) / RD_SEG_BLOCKS != frame) {
			r = rd_check_found_slots(check->sql, frame, -(i64)pack->frame, nr);
			nr = 0;
		}
	}
	/* In a row on the disk. */
	if (pack->place / RD_SEG_BLOCKS / RD_GROUP_FRAMES !=
	    (pack->place + pack->blocks - 1) / RD_SEG_BLOCKS / RD_GROUP_FRAMES)
		rd_check_wrong(check, "the pack of frame %llu is not in one piece", pack->frame);
	check->report->packed_bytes += (u64)end * RD_BLOCK_SIZE;
	return r;
}

int rd_check_packs(struct checker *check)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	int r;

	r = rd_packs(check->sql, &rows, 0);
	while (!r && (r = rd_next_pack(rows, &pack)) > 0)
		r = count_pack(check, &pack);
	return r;
}

static void set_slot(struct checker *check, struct rd_slots *slots, u64 frame, unsigned int slot)
{
	if (rd_slots_test(slots, slot))
		rd_check_wrong(check, "slot %u of frame %llu belongs to two entries", slot, frame);
	rd_slots_set(slots, slot);
}

/* Only the first block, which has the head, is never zeros. */
static int add_pack(struct checker *check, u64 frame, u64 packed, struct rd_slots *slots,
		    struct rd_slots *zeros)
{
	struct rd_pack pack;
	unsigned int i;
	int r = rd_pack_find(check->sql, packed, &pack);

	for (i = 0; !r && i < pack.blocks + 2; i++) {
		unsigned int slot = pack_slot(&pack, i) % RD_SEG_BLOCKS;

		if (pack_slot(&pack, i) / RD_SEG_BLOCKS != frame)
			continue;
		set_slot(check, slots, frame, slot);
		if (i)
			rd_slots_set(zeros, slot);
	}
	return r;
}

/* --- frames that are in use */

/*
 * Find the slots of @frame that recipes and packs have, where twice is wrong; and those of them
 * that may be zeros: a copy of the pool has holes there.
 */
static int live_slots(struct checker *check, u64 frame, struct rd_slots *slots,
		      struct rd_slots *zeros)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_recipe recipe;
	unsigned int i;
	i64 id;
	int r;

	memset(slots, 0, sizeof(*slots));
	memset(zeros, 0, sizeof(*zeros));
	r = rd_check_frame_recipes(check->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		if (rd_owner_is_pack(id)) {
			r = add_pack(check, frame, rd_owner_packed(id), slots, zeros);
			continue;
		}
		r = rd_recipe_load(check->sql, id, &recipe);
		for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
			rd_place place = recipe.map.at[i];

			if (rd_place_kind(place) != RD_OWN || rd_place_id(place) != frame)
				continue;
			set_slot(check, slots, frame, rd_place_slot(place));
		}
	}
	return r;
}

/*
 * Compare the data area with @live: data where nothing lives is a leak, unless it is
 * @allowed, and a hole where something lives is a loss, unless that may be @zeros.
 */
static int check_allocated(struct checker *check, u64 frame, const struct rd_slots *live,
			   const struct rd_slots *zeros, const struct rd_slots *allowed)
{
	struct rd_store *store = check->pool->area.store;
	u64 offset = rd_frame_offset(frame), at = offset, end = offset + RD_SEG_SIZE, data, hole;
	u64 i, leaked = 0, lost = 0;
	struct rd_slots has = { 0 };

	while (at < end) {
		off_t found = rd_store_seek(store, at, SEEK_DATA);

		if (found < 0 && errno != ENXIO)
			return -errno;
		data = found < 0 ? end : rd_min(found, end);
		found = data < end ? rd_store_seek(store, data, SEEK_HOLE) : (off_t)end;
		hole = found < 0 ? end : rd_min(found, end);
		for (i = data; i < hole; i += RD_BLOCK_SIZE)
			rd_slots_set(&has, (i - offset) / RD_BLOCK_SIZE);
		at = rd_max(hole, at + 1);
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		check->report->allocated_bytes += rd_slots_test(&has, i) ? RD_BLOCK_SIZE : 0;
		lost += rd_slots_test(live, i) && !rd_slots_test(&has, i) &&
			!rd_slots_test(zeros, i);
		leaked += rd_slots_test(&has, i) && !rd_slots_test(live, i) &&
			!rd_slots_test(allowed, i);
	}
	if (lost)
		rd_check_doubt(check, "frame %llu: %llu blocks that are in use are holes of the data area",
			       frame, lost);
	if (leaked)
		rd_check_doubt(check, "frame %llu: %llu unused blocks take space", frame, leaked);
	return 0;
}

/*
 * Where compaction will write next, it may have written already, and been interrupted. A tail
 * is treated the same.
 */
static int packing_slots(struct checker *check, u64 frame, struct rd_slots *slots)
{
	i64 next;
	int r;

	r = rd_packing_next(check->sql, frame, &next);
	if (r == -ENOENT)
		r = rd_filling_tail_of(check->sql, frame, &next);
	for (; !r && next >= 0 && next < RD_SEG_BLOCKS; next++)
		rd_slots_set(slots, next);
	return r == -ENOENT ? 0 : r;
}

/* Another state of the pool may have all that this one has not. */
static int kept_slots(struct checker *check, u64 frame, struct rd_slots *slots)
{
	bool kept;
	int r = rd_frames_is_kept(check->sql, frame, &kept);

	if (!r && kept)
		memset(slots, 0xff, sizeof(*slots));
	return r;
}

/* No recipe has a slot that is to be given back. */
static void check_queued(struct checker *check, u64 frame, const struct rd_slots *live,
			 const struct rd_slots *queued)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += rd_slots_test(live, i) && rd_slots_test(queued, i);
	if (nr)
		rd_check_wrong(check, "frame %llu: %u blocks that are in use are queued to be freed",
			       frame, nr);
}

/* Sessions go on where nothing was written: blocks of others there would be overwritten. */
static int check_tail(struct checker *check, u64 frame, const struct rd_slots *live)
{
	unsigned int nr = 0;
	i64 next;
	int r = rd_filling_tail_of(check->sql, frame, &next);

	for (; !r && next < RD_SEG_BLOCKS; next++)
		nr += next < 0 || rd_slots_test(live, next);
	if (nr)
		rd_check_wrong(check, "frame %llu: %u blocks that are in use count as its tail",
			       frame, nr);
	return r == -ENOENT ? 0 : r;
}

/* Has the pack all that recipes have of it? A scrub looks at what it really has. */
static int check_packed(struct checker *check, u64 frame, const struct rd_slots *live)
{
	struct rd_pack pack;
	int r = rd_pack_find(check->sql, frame, &pack);

	if (r == -ENOENT)
		rd_check_wrong(check, "packed frame %llu has no pack", frame);
	else if (!r && rd_slots_count(live) > pack.slots)
		rd_check_wrong(check, "recipes have %u blocks of packed frame %llu, which has %u",
			       rd_slots_count(live), frame, pack.slots);
	return r == -ENOENT ? 0 : r;
}

int rd_check_used(struct checker *check)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_slots live, zeros, queued;
	u64 frame;
	int r;

	r = rd_check_frames(check->sql, &rows);
	while (!r && (r = rd_next_frame(rows, &frame)) > 0) {
		if (!rd_area_has_frame(&check->pool->area, frame)) {
			rd_check_wrong(check, "frame %llu is beyond the end of the data area",
				       frame);
			r = 0;
			continue;
		}
		r = live_slots(check, frame, &live, &zeros);
		if (!r)
			r = rd_frames_queued_of(check->sql, frame, &queued);
		if (!r)
			check_queued(check, frame, &live, &queued);
		if (!r)
			r = check_tail(check, frame, &live);
		if (!r && rd_frame_is_packed(frame)) {
			r = check_packed(check, frame, &live);
			continue;
		}
		if (!r)
			r = packing_slots(check, frame, &queued);
		if (!r)
			r = kept_slots(check, frame, &queued);
		if (!r && rd_area_can(&check->pool->area, RD_STORE_HOLES))
			r = check_allocated(check, frame, &live, &zeros, &queued);
	}
	return r;
}

/* Free frames and their fingerprints must not take space. */
int rd_check_free(struct checker *check)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_extent extent;
	int r;

	r = rd_frames_extents(check->sql, &rows);
	while (!r && (r = rd_next_extent(rows, &extent)) > 0) {
		u64 frame = extent.start, end = frame + extent.len, group_end;

		for (r = 0; frame < end && !r; frame = group_end) {
			u64 start = rd_frame_offset(frame), stop;
			off_t data;

			group_end = rd_min(end, (frame / RD_GROUP_FRAMES + 1) * RD_GROUP_FRAMES);
			stop = rd_frame_offset(group_end - 1) + RD_SEG_SIZE;
			data = rd_store_seek(check->pool->area.store, start, SEEK_DATA);
			if (data < 0 || (u64)data >= stop)
				continue;
			rd_check_doubt(check, "free frames %llu to %llu take space", frame,
				       group_end - 1);
		}
	}
	return r;
}
