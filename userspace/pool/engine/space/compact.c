// SPDX-License-Identifier: GPL-2.0
/*
 * Move what lives in frames into packed ones.
 *
 *	1. read, and compare with the fingerprints: damage is not carried on
 *	2. write to free slots of packed frames, with the fingerprints; flush
 *	3. one transaction makes the recipes name the new places, and queues the
 *	   old ones
 *
 * A crash before the last step leaves frames that are reserved, or slots of a
 * packed frame beyond its "next": no recipe uses either.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/journal/journal.h"
#include "compact.h"

#define NR_DEST	(RD_COMPACT_SLOTS / RD_SEG_BLOCKS + 1)

struct move {
	rd_place from;
	rd_place to;
	i64 recipe;
	bool is_bad;
	bool is_used;
};

struct compact {
	struct rd_pool *pool;
	struct rd_hasher *hasher;
	struct rd_ring *ring;
	int r;
	unsigned int nr;
	struct move moves[RD_COMPACT_SLOTS];
	struct rd_op ops[RD_COMPACT_SLOTS];
	struct iovec iovs[RD_COMPACT_SLOTS];
	u8 *data;		/* a block a move */
	struct rd_fp fps[RD_COMPACT_SLOTS];	/* and what it is */
	/* The packed frames, the first of which may have been begun before. */
	unsigned int nr_dest, next, first;	/* slots of the last one, of the first */
	u64 dest[NR_DEST];
	bool dest_was_open;
	struct rd_fp dest_fps[NR_DEST][RD_SEG_BLOCKS];
};

/* --- what to move */

static int add_recipe(struct compact *c, u64 frame, i64 id)
{
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	r = rd_recipe_load(c->pool->sql, id, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe.map.at[i];

		if (rd_place_kind(place) != RD_OWN || rd_place_id(place) != frame)
			continue;
		if (c->nr == RD_COMPACT_SLOTS)
			return -E2BIG;
		c->moves[c->nr++] = (struct move){ .from = place, .recipe = id };
	}
	return 0;
}

static int add_frame(struct compact *c, u64 frame)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 id;
	int r;

	r = rd_frame_recipes(c->pool->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &id)) > 0)
		r = rd_owner_is_pack(id) ? 0 : add_recipe(c, frame, id);
	return r;
}

static int compare_from(const void *a, const void *b)
{
	const struct move *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* --- reading and writing */

static void transferred(struct rd_op *op, int r)
{
	struct compact *c = op->ctx;

	/* Where there is no room, the caller does without. */
	if (r && !c->r)
		c->r = r == -ENOSPC ? r : rd_err(r, "cannot move blocks in the data area");
}

/* Moves @first to @first + @nr are next to each other on one side. */
static void submit(struct compact *c, enum rd_op_kind kind, unsigned int first, unsigned int nr,
		   rd_place place)
{
	c->iovs[first] = (struct iovec){
		.iov_base = c->data + (size_t)first * RD_BLOCK_SIZE,
		.iov_len = (size_t)nr * RD_BLOCK_SIZE,
	};
	c->ops[first] = (struct rd_op){
		.kind = kind,
		.store = c->pool->area.store,
		.offset = rd_place_offset(place),
		.iov = &c->iovs[first],
		.nr_iov = 1,
		.done = transferred,
		.ctx = c,
	};
	rd_ring_submit(c->ring, &c->ops[first]);
}

static bool is_next(rd_place a, rd_place b)
{
	return b == a + 1 && rd_place_slot(b);
}

static int transfer(struct compact *c, enum rd_op_kind kind)
{
	unsigned int first, nr;
	int r = 0;

	for (first = 0; first < c->nr; first += nr) {
		const struct move *move = &c->moves[first];

		for (nr = 1; first + nr < c->nr; nr++)
			if (kind == RD_OP_READ ? !is_next(move[nr - 1].from, move[nr].from) :
			    !is_next(move[nr - 1].to, move[nr].to))
				break;
		submit(c, kind, first, nr, kind == RD_OP_READ ? move->from : move->to);
	}
	while (!r && rd_ring_busy(c->ring))
		r = rd_ring_wait(c->ring);
	return r ? r : c->r;
}

/* A sector that is gone must not keep everybody from the pool: what can be read moves. */
static int read_blocks(struct compact *c)
{
	unsigned int i;
	int r = transfer(c, RD_OP_READ);

	if (!r || r != c->r)
		return r;
	c->r = 0;
	for (i = 0; i < c->nr; i++)
		c->moves[i].is_bad = rd_area_read(&c->pool->area,
						  c->data + (size_t)i * RD_BLOCK_SIZE,
						  RD_BLOCK_SIZE,
						  rd_place_offset(c->moves[i].from)) < 0;
	return 0;
}

/* Mark blocks that do not match their fingerprints: they stay where they are. */
static void check_blocks(struct compact *c)
{
	struct rd_fp page[RD_SEG_BLOCKS];
	u64 frame = U64_MAX;
	bool any_bad = false;
	unsigned int i;

	rd_fp_blocks(c->hasher, c->data, c->nr, c->fps);
	for (i = 0; i < c->nr; i++) {
		struct move *move = &c->moves[i];

		if (rd_place_id(move->from) != frame) {
			frame = rd_place_id(move->from);
			rd_area_get_fps(&c->pool->area, frame, 1, page);
		}
		move->is_bad |= !rd_fp_agrees(&page[rd_place_slot(move->from)], &c->fps[i]);
		if (move->is_bad)
			rd_warn("a block in frame %llu is damaged and stays there",
				(unsigned long long)frame);
		any_bad |= move->is_bad;
	}
	if (any_bad && rd_verbosity >= 0)
		rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
}

/* Leave out the damaged blocks, and close the gaps in the data. */
static void drop_bad(struct compact *c)
{
	unsigned int i, nr = 0;

	for (i = 0; i < c->nr; i++) {
		if (c->moves[i].is_bad)
			continue;
		if (nr != i)
			memcpy(c->data + (size_t)nr * RD_BLOCK_SIZE,
			       c->data + (size_t)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		c->fps[nr] = c->fps[i];
		c->moves[nr++] = c->moves[i];
	}
	c->nr = nr;
}

/* --- where to */

/* Do not trust the table packing: no recipe may have the slots that are written to next. */
static int check_packing(struct compact *c, u64 frame, unsigned int next)
{
	struct rd_slots slots;
	unsigned int i;
	int r;

	r = rd_frame_slots(c->pool->sql, frame, &slots);
	for (i = next; i < RD_SEG_BLOCKS && !r; i++)
		if (rd_slots_test(&slots, i))
			r = -EUCLEAN;
	if (r != -EUCLEAN)
		return r;
	rd_err(0, "frame %llu cannot be filled from slot %u on: it has blocks there already",
	       (unsigned long long)frame, next);
	rd_remedy(RD_REMEDY_RECOUNT_FRAMES, NULL, "nothing was written there");
	return r;
}

static int take_dest(struct compact *c)
{
	struct rd_sql *sql = c->pool->sql;
	u64 frame, len;
	unsigned int have = 0;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_packing_find(sql, &frame, &c->next);
	if (!r) {
		c->dest[c->nr_dest++] = frame;
		c->first = c->next;
		c->dest_was_open = true;
		have = RD_SEG_BLOCKS - c->next;
		r = check_packing(c, frame, c->next);
	} else if (r == -ENOENT) {
		r = 0;
	}
	for (; have < c->nr && !r; have += RD_SEG_BLOCKS) {
		r = rd_frames_reserve(sql, c->pool->session, 1, 0, &frame, &len);
		if (!r)
			c->dest[c->nr_dest++] = frame;
	}
	r = rd_catalog_end(sql, r);
	if (r)
		c->nr_dest = 0;
	return r;
}

static int assign(struct compact *c)
{
	unsigned int i, slot = c->next, dest = 0;
	int r = 0;

	memset(c->dest_fps, 0, sizeof(c->dest_fps));
	if (c->dest_was_open)
		r = rd_area_read_fps(&c->pool->area, c->dest[0], 1, c->dest_fps[0]);
	for (i = 0; i < c->nr && !r; i++) {
		if (slot == RD_SEG_BLOCKS) {
			slot = 0;
			dest++;
		}
		c->moves[i].to = rd_place_make(RD_OWN, c->dest[dest], slot);
		c->dest_fps[dest][slot++] = c->fps[i];
	}
	c->next = slot;
	return r;
}

static int write_fps(struct compact *c)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < c->nr_dest && !r; i++)
		r = rd_area_write(&c->pool->area, c->dest_fps[i], RD_FPS_SIZE,
				  rd_frame_fps_offset(c->dest[i]));
	return r;
}

/* --- the catalog */

static struct move *find_move(struct compact *c, rd_place from)
{
	const struct move key = { .from = from };

	return bsearch(&key, c->moves, c->nr, sizeof(key), compare_from);
}

static int change_recipe(struct compact *c, i64 id)
{
	struct rd_recipe recipe;
	struct rd_map map;
	struct move *move;
	unsigned int i;
	int r;

	r = rd_recipe_load(c->pool->sql, id, &recipe);
	if (r)
		return r;
	map = recipe.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		move = rd_place_kind(map.at[i]) == RD_OWN ? find_move(c, map.at[i]) : NULL;
		if (!move)
			continue;
		map.at[i] = move->to;
		move->is_used = true;
	}
	if (!memcmp(&map, &recipe.map, sizeof(map)))
		return 0;
	return rd_recipe_change(c->pool->sql, &recipe, recipe.frame, &map);
}

/* Queue copies of blocks that lost their last recipe while they were copied. */
static int queue_unused(struct compact *c)
{
	struct rd_slots slots;
	unsigned int i, dest;
	bool any;
	int r = 0;

	for (dest = 0; dest < c->nr_dest && !r; dest++) {
		memset(&slots, 0, sizeof(slots));
		any = false;
		for (i = 0; i < c->nr; i++) {
			if (c->moves[i].is_used || rd_place_id(c->moves[i].to) != c->dest[dest])
				continue;
			rd_slots_set(&slots, rd_place_slot(c->moves[i].to));
			any = true;
		}
		if (any)
			r = rd_frames_queue(c->pool->sql, c->dest[dest], &slots);
	}
	return r;
}

static int commit(struct compact *c)
{
	struct rd_sql *sql = c->pool->sql;
	i64 last = 0;
	unsigned int i;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	for (i = c->dest_was_open; i < c->nr_dest && !r; i++)
		r = rd_frames_use(sql, c->dest[i]);
	if (!r)
		r = rd_packing_end(sql);
	for (i = 0; i < c->nr && !r; i++) {
		if (c->moves[i].recipe != last)
			r = change_recipe(c, c->moves[i].recipe);
		last = c->moves[i].recipe;
		/* It may have died; what it had is in the queue then. */
		if (r == -ENOENT)
			r = 0;
	}
	if (!r)
		r = queue_unused(c);
	if (!r && c->next < RD_SEG_BLOCKS)
		r = rd_packing_begin(sql, c->dest[c->nr_dest - 1], c->next);
	return rd_catalog_end(sql, r);
}

/* --- */

/*
 * Remove what was written to the new places after there was no room for all of it: no
 * recipe refers to it. (A failed transaction does not come here: its commit may be stable
 * nevertheless, so its blocks stay for the next try.)
 */
static int clear_dest(struct compact *c)
{
	bool can_punch = rd_area_can(&c->pool->area, RD_STORE_PUNCH);
	u64 skip = (u64)c->first * RD_BLOCK_SIZE;
	unsigned int i;
	int r = 0;

	for (i = 0; i < c->nr_dest && can_punch && !r; i++, skip = 0)
		r = rd_area_punch(&c->pool->area, rd_frame_offset(c->dest[i]) + skip,
				  RD_SEG_SIZE - skip);
	return r ? rd_err(r, "cannot free space in the data area") : 1;
}

static int write_all(struct compact *c)
{
	int r;

	r = take_dest(c);
	if (!r)
		r = assign(c);
	if (!r)
		r = rd_failpoint("compact-write");
	if (!r)
		r = transfer(c, RD_OP_WRITE);
	if (!r)
		r = write_fps(c);
	if (!r)
		r = rd_journal_mark(c->pool);
	return r == -ENOSPC ? clear_dest(c) : r;
}

static int run(struct compact *c, const u64 *frames, unsigned int nr)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < nr && !r; i++)
		r = add_frame(c, frames[i]);
	if (r || !c->nr)
		return r;
	qsort(c->moves, c->nr, sizeof(*c->moves), compare_from);
	r = read_blocks(c);
	if (r)
		return r;
	check_blocks(c);
	drop_bad(c);
	if (!c->nr)
		return 0;
	r = write_all(c);
	if (!r)
		r = rd_failpoint("compact-commit");
	return r ? r : commit(c);
}

int rd_compact(struct rd_pool *pool, const u64 *frames, unsigned int nr)
{
	RD_FREE void *data = NULL;
	struct compact *c;
	int r;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->pool = pool;
	c->hasher = rd_hasher_new();
	r = c->hasher ? rd_ring_new(&c->ring, 64) : -ENOMEM;
	if (!r && posix_memalign(&data, RD_BLOCK_SIZE, RD_COMPACT_SLOTS * RD_BLOCK_SIZE))
		r = -ENOMEM;
	c->data = data;
	if (!r)
		r = run(c, frames, nr);
	rd_ring_free(c->ring);
	rd_hasher_free(c->hasher);
	free(c);
	return r;
}
