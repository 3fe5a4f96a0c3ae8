// SPDX-License-Identifier: GPL-2.0
/*
 * Changed segments that are stored in part.
 *
 * What a segment has where the version before has it as well is not written: the new recipe
 * refers to the recipe of that version, entry by entry, and takes the blocks over when no newest
 * version names that one any more (swap.c). What differs is written one behind the other, for
 * many segments in one dense frame, or as one pack.
 *
 *	the version before	a b c d e f g h		recipe 7
 *	the image		a b X d e f g Y
 *	the new recipe		REF 7.0, REF 7.1, dense 0, REF 7.3 ... REF 7.6, dense 1
 *
 * A segment has no more pieces than the rule of the volume allows: beyond that the shortest
 * runs that are the same are written after all, and in the end the whole segment, in one piece.
 *
 * That a block is the same is known from fingerprints, which are read without a lock, and
 * could be those of other content by now. They are believed only if all of them together give
 * the fingerprint of the segment that the catalog has. The content of a recipe does not change
 * as long as it exists, wherever its blocks move. So the transaction that commits looks up only
 * where an entry leads: a REF is made to an entry that is OWN at that moment.
 *
 * Until then the map of an item has PENDING places: slots of the dense frames of the batch. And,
 * with inline deduplication, OWN places: where the index says that the pool has the block,
 * anywhere (snapshot_hits.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/inject.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/read/resolve.h"
#include "snapshot_run.h"

/* A kind that no map in the catalog has: slot of dense frame @id of the batch. */
#define PENDING		((enum rd_kind)3)
/* With more than this part of a segment changed it is written as a whole. */
#define MOSTLY(nr)	((nr) - (nr) / 4)

/* --- the version before */

static bool is_good(struct rd_snapshot_run *s)
{
	struct rd_seg_fp fp;

	rd_fp_of_fps(s->hasher, s->before.fps, &fp);
	return rd_seg_fp_equal(&fp, &s->before.fp);
}

void rd_snapshot_read_before(struct rd_snapshot_run *s, i64 old)
{
	struct rd_snapshot_before *before = &s->before;
	int r;

	before->is_good = false;
	memset(before->fps, 0, sizeof(before->fps));
	if (!old || rd_sql_begin_read(s->pool->sql))
		return;
	rd_resolver_forget(s->resolver);
	r = rd_resolve(s->resolver, old, &before->map, &before->fp);
	if (!r)
		rd_resolver_read_fps(s->resolver, &s->pool->area, &before->map, before->fps);
	rd_sql_end_read(s->pool->sql);
	before->is_good = !r && s->rule.pieces > 1 && is_good(s);
	/* The next segment need not suffer from a frame that another command has used again. */
	if (!before->is_good)
		rd_resolver_forget_fps(s->resolver);
}

/* --- what is written */

/* The segment as it will be, which of its blocks are written, and where the others are. */
struct part {
	struct rd_slots written, found;
	unsigned int nr, nr_written;
	struct rd_map map, from;
};

/* Number the blocks that are written, and count the pieces. */
static unsigned int number(const struct rd_snapshot_run *s, struct part *part)
{
	unsigned int i, slot;

	part->nr_written = 0;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		slot = s->next_slot % RD_SEG_BLOCKS + part->nr_written;
		/* What crosses from one dense frame into the next is in two pieces. */
		if (rd_slots_test(&part->written, i)) {
			part->map.at[i] = rd_place_make(PENDING, slot / RD_SEG_BLOCKS,
							slot % RD_SEG_BLOCKS);
			part->nr_written++;
		} else if (rd_place_kind(part->map.at[i]) != RD_ZERO) {
			part->map.at[i] = part->from.at[i];
		}
	}
	return rd_map_pieces(&part->map);
}

/* A run of blocks that are not written, in one piece. */
struct run {
	unsigned int first, end, nr, sides;
};

/* Find the next run from @run->end on, and how many of its sides are beside a written block. */
static bool next_run(const struct part *part, struct run *run)
{
	const rd_place *at = part->map.at;
	unsigned int i = run->end, last = RD_SEG_BLOCKS;
	bool is_written = false;

	/* What comes before it? Zeros do not count. */
	for (run->nr = 0; i-- > 0;) {
		if (rd_place_kind(at[i]) == RD_ZERO)
			continue;
		is_written = rd_slots_test(&part->written, i);
		break;
	}
	for (i = run->end; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(at[i]) == RD_ZERO)
			continue;
		if (rd_slots_test(&part->written, i)) {
			if (run->nr)
				break;
			is_written = true;
			continue;
		}
		if (run->nr && !rd_place_goes_on(at[last], last, at[i], i))
			break;
		if (!run->nr++)
			run->first = i;
		last = i;
	}
	run->end = i;
	run->sides = is_written + (i < RD_SEG_BLOCKS && rd_slots_test(&part->written, i));
	return run->nr;
}

/* Write the run that costs least for each piece that it saves. */
static bool write_one_more(struct part *part)
{
	struct run run = { 0 }, best = { 0 };
	unsigned int i;

	while (next_run(part, &run))
		if (run.sides && (!best.nr || run.nr * best.sides < best.nr * run.sides))
			best = run;
	for (i = best.first; i < best.end; i++)
		if (rd_place_kind(part->map.at[i]) != RD_ZERO)
			rd_slots_set(&part->written, i);
	return best.nr;
}

/*
 * Is the segment to be stored in part? In one piece old versions give their blocks up for it as
 * well, but those of other volumes stay.
 */
static bool is_worth_it(const struct part *part)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(&part->found, i) && !rd_slots_test(&part->written, i))
			return true;
	return part->nr_written <= MOSTLY(part->nr);
}

/* Look for the blocks that are to be written elsewhere in the pool. */
static int find_hits(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
		     struct part *part)
{
	rd_place places[RD_SEG_BLOCKS];
	unsigned int i;
	int r;

	r = rd_snapshot_find_hits(s, buffer, &part->written, places);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (!places[i])
			continue;
		part->from.at[i] = places[i];
		rd_slots_set(&part->found, i);
		rd_slots_clear(&part->written, i);
	}
	return r;
}

/* Choose what is written; *@ret: not all of it. */
static int choose(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
		  struct part *part, bool *ret)
{
	const struct rd_fp *fps = buffer->fps;
	unsigned int i;
	int r;

	*ret = false;
	memset(part, 0, sizeof(*part));
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_fp_is_zero(&fps[i]))
			continue;
		part->nr++;
		part->map.at[i] = rd_place_make(PENDING, 0, 0);
		if (s->before.is_good && rd_fp_equal(&fps[i], &s->before.fps[i]))
			part->from.at[i] = s->before.map.at[i];
		else
			rd_slots_set(&part->written, i);
		s->report->lookups.same_offset += !rd_slots_test(&part->written, i);
	}
	r = rd_snapshot_looks_up(s) ? find_hits(s, buffer, part) : 0;
	if (r)
		return r;
	while (number(s, part) > s->rule.pieces)
		if (!write_one_more(part))
			return 0;
	*ret = is_worth_it(part);
	return 0;
}

/* --- dense frames */

static struct rd_snapshot_frame *last_dense(struct rd_snapshot_run *s)
{
	return &s->dense[s->nr_dense - 1];
}

/* Continue in a raw frame that an earlier session has left. The slots before are not touched. */
static int open_tail(struct rd_snapshot_run *s)
{
	struct rd_snapshot_frame *frame = last_dense(s);
	struct rd_pool *pool = s->pool;
	int r = rd_catalog_begin(pool->sql);

	if (r)
		return r;
	r = rd_filling_take_raw_tail(pool->sql, pool->session, &frame->nr, &s->next_slot);
	if (r == -ENOENT)
		r = 0;
	r = rd_catalog_end(pool->sql, r);
	if (r || frame->nr == RD_NO_FRAME)
		return r;
	/* They are written back with those that are added. */
	if (rd_area_read(&pool->area, s->filling->fps, RD_FPS_SIZE,
			 rd_frame_fps_offset(frame->nr))) {
		frame->nr = RD_NO_FRAME;
		s->next_slot = 0;
		memset(s->filling->fps, 0, RD_FPS_SIZE);
	}
	return 0;
}

static int open_dense(struct rd_snapshot_run *s)
{
	struct rd_snapshot_buffer **buffer = &s->buffers[RD_SNAPSHOT_BUFFERS + 1];
	int r;

	if (s->nr_dense % 2)
		buffer++;
	r = rd_snapshot_wait(s, *buffer);
	if (r)
		return r;
	s->filling = *buffer;
	memset(s->filling->fps, 0, RD_FPS_SIZE);
	s->dense[s->nr_dense++] = (struct rd_snapshot_frame){ .nr = RD_NO_FRAME, .is_dense = true };
	s->next_slot = 0;
	return s->compression.codec ? 0 : open_tail(s);
}

int rd_snapshot_flush_dense(struct rd_snapshot_run *s)
{
	struct rd_snapshot_buffer *buffer = s->filling;

	s->filling = NULL;
	return buffer ? rd_snapshot_write(s, buffer, last_dense(s)) : 0;
}

static int add_block(struct rd_snapshot_run *s, const u8 *block, const struct rd_fp *fp,
		     rd_place *ret)
{
	int r = s->filling ? 0 : open_dense(s);

	if (r)
		return r;
	memcpy(s->filling->data + (size_t)s->next_slot * RD_BLOCK_SIZE, block, RD_BLOCK_SIZE);
	s->filling->fps[s->next_slot] = *fp;
	rd_slots_set(&last_dense(s)->slots, s->next_slot);
	*ret = rd_place_make(PENDING, s->nr_dense - 1, s->next_slot++);
	return s->next_slot == RD_SEG_BLOCKS ? rd_snapshot_flush_dense(s) : 0;
}

/* Each segment of a batch has at most one frame's blocks. */
static int add_blocks(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
		      const struct part *part, struct rd_map *map)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (rd_slots_test(&part->written, i))
			r = add_block(s, buffer->data + (size_t)i * RD_BLOCK_SIZE, &buffer->fps[i],
				      &map->at[i]);
		else if (rd_slots_test(&part->found, i))
			map->at[i] = part->from.at[i];
		else if (rd_place_kind(part->map.at[i]) != RD_ZERO)
			map->at[i] = rd_place_make(RD_REF, buffer->old, i);
		else
			map->at[i] = rd_place_make(RD_ZERO, 0, 0);
	return r;
}

/* Were all blocks that are written read? */
static bool has_all(const struct rd_snapshot_buffer *buffer, const struct rd_slots *written)
{
	unsigned int i;

	for (i = 0; buffer->is_partial && i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(written, i) && (i < buffer->first || i >= buffer->end))
			return false;
	return true;
}

int rd_snapshot_store_part(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
			   struct rd_snapshot_item *item)
{
	bool in_part = false, has_hits;
	struct part part;
	int r = 0;

	if (s->before.is_good || rd_snapshot_looks_up(s))
		r = choose(s, buffer, &part, &in_part);
	if (r || !in_part)
		return r;
	if (!has_all(buffer, &part.written))
		return -EAGAIN;
	has_hits = !rd_slots_are_none(&part.found);
	item->map = malloc(sizeof(*item->map));
	if (item->map && has_hits)
		item->fps = malloc(RD_FPS_SIZE);
	if (!item->map || !item->fps != !has_hits)
		return -ENOMEM;
	if (item->fps)
		memcpy(item->fps, buffer->fps, RD_FPS_SIZE);
	return add_blocks(s, buffer, &part, item->map);
}

void rd_snapshot_drop_part(struct rd_snapshot_item *item)
{
	free(item->map);
	free(item->fps);
	item->map = NULL;
	item->fps = NULL;
}

/* --- committing */

/* The recipes that entries of one item lead to: that of the version before is in all of them. */
struct trail {
	struct rd_recipe before, last;
};

/* Follow *@place, which is in the version before, to an entry that is OWN. */
static int follow(struct rd_sql *sql, struct trail *trail, rd_place *place)
{
	struct rd_recipe *recipe = &trail->before;
	rd_place next;
	int r = 0;

	for (;; recipe = &trail->last) {
		if (recipe->id != (i64)rd_place_id(*place))
			r = rd_recipe_load(sql, rd_place_id(*place), recipe);
		if (r)
			return r == -ENOENT ? -EUCLEAN : r;
		next = recipe->map.at[rd_place_slot(*place)];
		if (rd_place_kind(next) != RD_REF)
			return rd_place_kind(next) == RD_OWN ? 0 : -EUCLEAN;
		*place = next;
	}
}

int rd_snapshot_map_part(struct rd_snapshot_run *s, const struct rd_snapshot_item *item,
			 struct rd_map *ret)
{
	struct rd_sql *sql = s->pool->sql;
	struct trail trail = { .before.id = 0 };
	unsigned int i;
	int r;

	r = rd_failpoint("snapshot-part");
	*ret = *item->map;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		rd_place place = ret->at[i];

		if (rd_place_kind(place) == PENDING)
			ret->at[i] = rd_place_make(RD_OWN, s->dense[rd_place_id(place)].nr,
						   rd_place_slot(place));
		else if (rd_place_kind(place) == RD_REF)
			r = follow(sql, &trail, &ret->at[i]);
		else if (rd_place_kind(place) == RD_OWN)
			r = rd_snapshot_check_hit(s, place, &item->fps[i], &ret->at[i]);
	}
	return r;
}

/* A frame that nobody has turned out not to be needed. */
static int use_dense(struct rd_snapshot_run *s, const struct rd_snapshot_frame *frame)
{
	struct rd_sql *sql = s->pool->sql;
	unsigned int next = RD_SEG_BLOCKS;
	bool owned;
	int r;

	if (!rd_frame_is_packed(frame->nr)) {
		while (!rd_slots_test(&frame->slots, next - 1))
			next--;
		return rd_filling_leave_tail(sql, frame->nr, next);
	}
	r = rd_frames_is_owned(sql, frame->nr, &owned);
	return r || !owned ? r : rd_pack_insert(sql, &frame->pack);
}

int rd_snapshot_use_dense(struct rd_snapshot_run *s)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < s->nr_dense && !r; i++)
		r = use_dense(s, &s->dense[i]);
	s->nr_dense = 0;
	return r;
}
