// SPDX-License-Identifier: GPL-2.0
/* What lives in frames is written anew: see rewrite.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/sort.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/read/blocks.h"
#include "choices.h"
#include "pack_writer.h"
#include "rewrite.h"

struct move {
	rd_place from, to;
	i64 recipe;
	bool is_bad, is_used;
};

/* A new frame, and the moves that fill it, of a dense one from @slot on. */
struct dest {
	unsigned int first, nr, slot;
	u64 was;		/* the frame that it replaces */
	u64 frame;		/* NO_FRAME: all stays where it is */
	struct rd_pack pack;	/* of a packed one */
};

#define NO_FRAME	U64_MAX

struct rewrite {
	struct rd_pool *pool;
	const struct rd_rewrite_options *options;
	struct rd_hasher *hasher;
	struct rd_packer *packer;
	struct rd_blocks *blocks;
	struct rd_pack_writer writer;
	unsigned int nr, nr_dests;
	struct move moves[RD_REWRITE_BLOCKS];
	struct dest dests[RD_REWRITE_BLOCKS];
	u8 *data;			/* a block a move */
	struct rd_fp fps[RD_REWRITE_BLOCKS];
	rd_place places[RD_REWRITE_BLOCKS];
	struct rd_fp packing[RD_SEG_BLOCKS];	/* of the frame to go on with */
	/* Of the frame that is being written. */
	u8 *segment, *pack;
	struct rd_fp page[RD_SEG_BLOCKS];
	u64 warned;			/* of damage in this frame; NO_FRAME: none yet */
};

/* --- what to move */

static int add_recipe(struct rewrite *w, u64 frame, i64 id)
{
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	r = rd_recipe_load(w->pool->sql, id, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe.map.at[i];

		if (rd_place_kind(place) != RD_OWN || rd_place_id(place) != frame)
			continue;
		if (w->nr == RD_REWRITE_BLOCKS)
			return -E2BIG;
		w->moves[w->nr++] = (struct move){ .from = place, .recipe = id };
	}
	return 0;
}

static int add_frame(struct rewrite *w, u64 frame)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 id;
	int r;

	r = rd_frame_recipes(w->pool->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &id)) > 0)
		r = rd_owner_is_pack(id) ? 0 : add_recipe(w, frame, id);
	return r;
}

/* --- reading */

/* A sector that is gone must not keep everybody from the pool: what can be read moves. */
static int read_blocks(struct rewrite *w)
{
	unsigned int i;
	int r;

	for (i = 0; i < w->nr; i++)
		w->places[i] = w->moves[i].from;
	r = rd_blocks_read_all(w->blocks, w->places, w->nr, w->data);
	return r < 0 ? r : 0;
}

/* Try to make a damaged block good. A caller who can knows of those that stay. */
static void mend(struct rewrite *w, unsigned int i)
{
	struct move *move = &w->moves[i];
	u8 *block = w->data + (size_t)i * RD_BLOCK_SIZE;

	if (!w->options->mend) {
		/* Once a frame. */
		if (w->warned == rd_place_id(move->from))
			return;
		w->warned = rd_place_id(move->from);
		rd_warn("a block in frame %llu is damaged and stays there", w->warned);
		return;
	}
	move->is_bad = !w->options->mend(w->options->ctx, move->from, block);
	rd_fp_blocks(w->hasher, block, 1, &w->fps[i]);
}

/* Mark blocks that do not match their fingerprints: they stay where they are. */
static void check_blocks(struct rewrite *w)
{
	struct rd_fp page[RD_SEG_BLOCKS];
	u64 frame = U64_MAX;
	unsigned int i;

	rd_fp_blocks(w->hasher, w->data, w->nr, w->fps);
	for (i = 0; i < w->nr; i++) {
		struct move *move = &w->moves[i];

		if (rd_place_id(move->from) != frame) {
			frame = rd_place_id(move->from);
			rd_area_get_fps(&w->pool->area, frame, 1, page);
		}
		move->is_bad = !rd_fp_agrees(&page[rd_place_slot(move->from)], &w->fps[i]);
		if (move->is_bad)
			mend(w, i);
	}
}

/* Leave out the damaged blocks, and close the gaps in the data. */
static void drop_bad(struct rewrite *w)
{
	unsigned int i, nr = 0;

	for (i = 0; i < w->nr; i++) {
		if (w->moves[i].is_bad)
			continue;
		if (nr != i)
			memcpy(w->data + (size_t)nr * RD_BLOCK_SIZE,
			       w->data + (size_t)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		w->fps[nr] = w->fps[i];
		w->moves[nr++] = w->moves[i];
	}
	if (nr < w->nr && !w->options->mend && rd_verbosity >= 0)
		rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
	w->nr = nr;
}

/* --- where to */

/* Do not trust the table packing: no recipe may have the slots that are written to next. */
static int check_packing(struct rewrite *w, u64 frame, unsigned int next)
{
	struct rd_slots slots;
	unsigned int i;
	int r;

	if (!rd_area_has_frame(&w->pool->area, frame) || next >= RD_SEG_BLOCKS)
		r = -EUCLEAN;
	else
		r = rd_frame_slots(w->pool->sql, frame, &slots);
	for (i = next; i < RD_SEG_BLOCKS && !r; i++)
		if (rd_slots_test(&slots, i))
			r = -EUCLEAN;
	if (r != -EUCLEAN)
		return r;
	rd_err(0, "frame %llu cannot be filled from slot %u on: it has blocks there already, or no such slot",
	       frame, next);
	rd_remedy(RD_REMEDY_RECOUNT_FRAMES, NULL, "nothing was written there");
	return r;
}

/* Fill @frame no further: what nobody has there may have been written to. */
static int leave_packing(struct rewrite *w, u64 frame)
{
	struct rd_sql *sql = w->pool->sql;
	struct rd_slots slots;
	int r;

	r = rd_packing_end(sql);
	if (!r)
		r = rd_filling_free_slots(sql, frame, &slots);
	return r ? r : rd_frames_queue(sql, frame, &slots);
}

/* Find the frame to go on with: its number and first slot. */
static int find_packing(struct rewrite *w, struct dest *ret)
{
	const struct dest none = { .frame = NO_FRAME };
	int r = -ENOENT;
	u64 frame;

	*ret = none;
	if (w->options->packing)
		r = rd_packing_find(w->pool->sql, &ret->frame, &ret->slot);
	if (r)
		return r == -ENOENT ? 0 : r;
	frame = ret->frame;
	r = check_packing(w, frame, ret->slot);
	/* They are written back with those that are added. */
	if (r || !rd_area_read_fps(&w->pool->area, frame, 1, w->packing))
		return r;
	*ret = none;
	return leave_packing(w, frame);
}

static int make_dests(struct rewrite *w)
{
	struct dest *dest = NULL, next;
	unsigned int i;
	int r = find_packing(w, &next);

	for (i = 0; i < w->nr && !r; i++) {
		u64 was = rd_place_id(w->moves[i].from);

		if (!dest || (w->options->dense ? dest->slot + dest->nr == RD_SEG_BLOCKS :
			      dest->was != was)) {
			dest = &w->dests[w->nr_dests++];
			*dest = next;
			dest->first = i;
			dest->was = was;
			next = (struct dest){ .frame = NO_FRAME };
		}
		dest->nr++;
	}
	return r;
}

static int reserve_raw(struct rewrite *w, struct dest *dest)
{
	struct rd_pool *pool = w->pool;
	u64 nr_frames = rd_frames_limit(pool->area.super.nr_frames, w->options->may_fill_up), len;

	return rd_frames_reserve(pool->sql, pool->session, 1, nr_frames, &dest->frame, &len);
}

/*
 * Frames to fill up are reserved at once, in the transaction of this: where there are not enough,
 * none is taken, as the journal must grow for anything to be freed.
 */
static int take_dests(struct rewrite *w)
{
	unsigned int i;
	int r = make_dests(w);

	for (i = 0; i < w->nr_dests && !r && w->options->packing; i++)
		if (!w->dests[i].slot)
			r = reserve_raw(w, &w->dests[i]);
	return r;
}

static unsigned int slot_in(const struct rewrite *w, const struct dest *dest, unsigned int i)
{
	return w->options->dense ? dest->slot + i - dest->first : rd_place_slot(w->moves[i].from);
}

/* Put the blocks where they are to be in the frame. */
static void fill(struct rewrite *w, const struct dest *dest, struct rd_slots *slots)
{
	unsigned int i;

	memset(w->segment, 0, RD_SEG_SIZE);
	memset(w->page, 0, sizeof(w->page));
	memset(slots, 0, sizeof(*slots));
	for (i = dest->first; i < dest->first + dest->nr; i++) {
		unsigned int slot = slot_in(w, dest, i);

		memcpy(w->segment + (size_t)slot * RD_BLOCK_SIZE,
		       w->data + (size_t)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		w->page[slot] = w->fps[i];
		rd_slots_set(slots, slot);
	}
}

static int write_pack(struct rewrite *w, struct dest *dest, size_t len)
{
	const struct rd_area *area = &w->pool->area;
	struct rd_pack *pack = &dest->pack;
	int r;

	pack->blocks = len / RD_BLOCK_SIZE;
	pack->slots = dest->nr;
	r = rd_pack_writer_take(&w->writer, pack);
	if (r)
		return r;
	dest->frame = pack->frame;
	rd_pack_number(w->pack, pack->frame);
	r = rd_area_write(area, w->pack, len, rd_pack_offset(pack));
	return r ? r : rd_area_write(area, w->page, RD_FPS_SIZE,
				     rd_frame_fps_offset(pack->frame));
}

/*
 * Where each frame becomes one, blocks of zeros replace what was there before, where there may be
 * something.
 */
static int write_raw(struct rewrite *w, struct dest *dest, struct rd_slots *slots)
{
	const struct rd_area *area = &w->pool->area;
	unsigned int first, end = 0;
	int r = 0;

	if (dest->slot)
		memcpy(w->page, w->packing, dest->slot * sizeof(*w->packing));
	else if (dest->frame == NO_FRAME)
		r = rd_catalog_do(w->pool->sql, reserve_raw(w, dest));
	if (!w->options->dense && !rd_area_can(area, RD_STORE_ZEROS))
		memset(slots, 0xff, sizeof(*slots));
	while (!r && rd_slots_run(slots, &first, &end))
		r = rd_area_write(area, w->segment + (size_t)first * RD_BLOCK_SIZE,
				  (size_t)(end - first) * RD_BLOCK_SIZE,
				  rd_slot_offset(dest->frame, first));
	return r ? r : rd_area_write(area, w->page, RD_FPS_SIZE,
				     rd_frame_fps_offset(dest->frame));
}

static int write_dest(struct rewrite *w, struct dest *dest)
{
	const struct rd_compression *compression = &w->options->compression;
	struct dmr_pack_head head;
	struct rd_slots slots;
	size_t len = 0;
	unsigned int i;
	int r;

	memset(&head, 0, sizeof(head));
	memcpy(head.uuid, w->pool->area.super.uuid, sizeof(head.uuid));
	fill(w, dest, &slots);
	rd_pack_set_slots(&head, &slots);
	if (compression->codec)
		len = rd_pack_make(w->packer, &head, w->segment, compression->level, w->pack);
	if (!len && w->options->only_packs)
		return 0;
	r = len ? write_pack(w, dest, len) : write_raw(w, dest, &slots);
	for (i = dest->first; i < dest->first + dest->nr && !r; i++)
		w->moves[i].to = rd_place_make(RD_OWN, dest->frame, slot_in(w, dest, i));
	return r;
}

/* --- the catalog */

static struct move *find_move(struct rewrite *w, rd_place from)
{
	struct move *move = rd_find(w->moves, w->nr, from, from);

	return move && move->to ? move : NULL;
}

/* The frame that the recipe was whole in is another one now. */
static u64 new_frame(const struct rewrite *w, const struct rd_recipe *recipe)
{
	unsigned int i;

	for (i = 0; i < w->nr_dests && !w->options->dense; i++)
		if (w->dests[i].was == recipe->frame && w->dests[i].frame != NO_FRAME)
			return w->dests[i].frame;
	return recipe->frame;
}

static int change_recipe(struct rewrite *w, i64 id)
{
	struct rd_recipe recipe;
	struct rd_map map;
	struct move *move;
	unsigned int i;
	int r;

	r = rd_recipe_load(w->pool->sql, id, &recipe);
	if (r)
		return r;
	map = recipe.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		move = rd_place_kind(map.at[i]) == RD_OWN ? find_move(w, map.at[i]) : NULL;
		if (!move)
			continue;
		map.at[i] = move->to;
		move->is_used = true;
	}
	if (!memcmp(&map, &recipe.map, sizeof(map)))
		return 0;
	return rd_recipe_change(w->pool->sql, &recipe, new_frame(w, &recipe), &map);
}

/* Blocks that lost their last recipe while they were copied are in vain. */
static int settle_dest(struct rewrite *w, const struct dest *dest)
{
	bool was_packing = dest->slot;
	struct rd_slots unused = { 0 };
	unsigned int i, nr_used = 0;
	int r;

	for (i = dest->first; i < dest->first + dest->nr; i++) {
		if (w->moves[i].is_used)
			nr_used++;
		else
			rd_slots_set(&unused, rd_place_slot(w->moves[i].to));
	}
	if (rd_frame_is_packed(dest->frame))
		return nr_used ? rd_pack_insert(w->pool->sql, &dest->pack) : 0;
	if (!nr_used && !w->options->packing)
		return rd_filling_leave(w->pool->sql, dest->frame);
	r = was_packing ? 0 : rd_frames_use(w->pool->sql, dest->frame);
	return r ? r : rd_frames_queue(w->pool->sql, dest->frame, &unused);
}

/* The last frame is the one to go on with, if there is room in it. */
static int set_packing(struct rewrite *w)
{
	const struct dest *last = &w->dests[w->nr_dests - 1];
	unsigned int next = last->slot + last->nr;
	int r = rd_packing_end(w->pool->sql);

	return r || next == RD_SEG_BLOCKS ? r : rd_packing_begin(w->pool->sql, last->frame, next);
}

static int change_all(struct rewrite *w)
{
	i64 last = 0;
	unsigned int i;
	int r = 0;

	for (i = 0; i < w->nr && !r; i++) {
		if (w->moves[i].recipe != last)
			r = change_recipe(w, w->moves[i].recipe);
		last = w->moves[i].recipe;
		/* It may have died; what it had is in the queue then. */
		if (r == -ENOENT)
			r = 0;
	}
	for (i = 0; i < w->nr_dests && !r; i++)
		if (w->dests[i].frame != NO_FRAME)
			r = settle_dest(w, &w->dests[i]);
	if (!r && w->options->packing)
		r = set_packing(w);
	return r ? r : rd_pack_writer_end(&w->writer);
}

static int commit(struct rewrite *w)
{
	return rd_catalog_do(w->pool->sql, change_all(w));
}

/*
 * Remove what was written to ordinary frames: that makes room for the catalog. (A failed
 * transaction does not come here: its commit may be stable nevertheless.)
 */
static int punch_dests(struct rewrite *w)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < w->nr_dests && !r && rd_area_can(&w->pool->area, RD_STORE_PUNCH); i++) {
		u64 skip = (u64)w->dests[i].slot * RD_BLOCK_SIZE, frame = w->dests[i].frame;

		if (frame != NO_FRAME && !rd_frame_is_packed(frame))
			r = rd_area_punch(&w->pool->area, rd_frame_offset(frame) + skip,
					  RD_SEG_SIZE - skip);
	}
	return r ? rd_err(r, "cannot free space in the data area") : 0;
}

/* There was no room for all of it: what was written is in vain. */
static int give_up(struct rewrite *w)
{
	struct rd_sql *sql = w->pool->sql;
	unsigned int i;
	int r = punch_dests(w);

	/* The session leaves frames of these that it has reserved. */
	if (r || w->options->packing)
		return r ? r : 1;
	r = rd_catalog_begin(sql);
	if (r)
		return r;
	for (i = 0; i < w->nr_dests && !r; i++)
		if (w->dests[i].frame != NO_FRAME && !rd_frame_is_packed(w->dests[i].frame))
			r = rd_filling_leave(sql, w->dests[i].frame);
	if (!r)
		r = rd_pack_writer_end(&w->writer);
	r = rd_catalog_end(sql, r);
	return r ? r : 1;
}

/* --- */

static int write_all(struct rewrite *w)
{
	unsigned int i;
	int r;

	r = rd_catalog_do(w->pool->sql, take_dests(w));
	if (r)
		w->nr_dests = 0;
	if (!r && w->options->compression.codec)
		r = rd_packs_announce(w->pool);
	if (!r)
		r = rd_failpoint(w->options->packing ? "compact-write" : "rewrite-write");
	for (i = 0; i < w->nr_dests && !r; i++)
		r = write_dest(w, &w->dests[i]);
	if (!r)
		r = rd_journal_mark(w->pool);
	if (!r)
		r = rd_failpoint(w->options->packing ? "compact-commit" : "rewrite-commit");
	if (r == -ENOSPC)
		return give_up(w);
	return r ? r : commit(w);
}

static int run(struct rewrite *w, const u64 *frames, unsigned int nr)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < nr && !r; i++)
		r = add_frame(w, frames[i]);
	if (r || !w->nr)
		return r;
	rd_sort(w->moves, w->nr, from);
	r = read_blocks(w);
	if (r)
		return r;
	check_blocks(w);
	drop_bad(w);
	return w->nr ? write_all(w) : 0;
}

static void tear_down(struct rewrite *w)
{
	rd_pack_writer_free(&w->writer);
	rd_blocks_free(w->blocks);
	rd_packer_free(w->packer);
	rd_hasher_free(w->hasher);
	free(w->pack);
	free(w->segment);
	free(w->data);
	free(w);
}

int rd_rewrite(struct rd_pool *pool, const u64 *frames, unsigned int nr,
	       const struct rd_rewrite_options *options)
{
	struct rewrite *w = calloc(1, sizeof(*w));
	int r = -ENOMEM;

	if (!w)
		return r;
	w->pool = pool;
	w->warned = NO_FRAME;
	w->options = options;
	w->hasher = rd_hasher_new();
	w->packer = rd_packer_new();
	w->blocks = rd_blocks_new(pool);
	w->data = rd_alloc_direct((size_t)RD_REWRITE_BLOCKS * RD_BLOCK_SIZE);
	w->segment = rd_alloc_direct(RD_SEG_SIZE);
	w->pack = rd_alloc_direct(RD_PACK_MAX);
	rd_pack_writer_begin(&w->writer, pool, options->may_fill_up);
	if (w->hasher && w->packer && w->blocks && w->data && w->segment && w->pack)
		r = run(w, frames, nr);
	tear_down(w);
	return r;
}
