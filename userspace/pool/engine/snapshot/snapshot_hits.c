// SPDX-License-Identifier: GPL-2.0
/*
 * Inline deduplication: blocks of a changed segment that the pool has anywhere.
 *
 * The index (pool/index/) gives places, in runs. It is only a hint: a place may have been freed
 * and used again since. So the transaction that commits looks for the recipe that owns the
 * place at that moment, and reads the fingerprint beside it once more, while no command can
 * free what it looks at. What does not fit is written from the image.
 *
 * A recipe that no newest version names gives its place to the new one (rd_recipe_adopt_old()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/direct.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/space/choices.h"
#include "pool/index/lookup.h"
#include "snapshot_run.h"

/* Who owns the slots of a frame in this transaction, and the fingerprints beside them. */
struct owned_frame {
	u64 frame;			/* RD_NO_FRAME: none was looked at */
	rd_place refs[RD_SEG_BLOCKS];	/* 0: nobody */
	struct rd_fp fps[RD_SEG_BLOCKS];
};

struct rd_snapshot_hits {
	struct rd_index *index;
	struct rd_lookup *lookup;	/* NULL: the index only gets what is written */
	struct rd_blocks *blocks;	/* to compare hits; NULL: they are not */
	u8 *block;			/* one of these */
	struct owned_frame owned;
};

/* --- the index */

static int tell_building(void *ctx, u64 done, u64 total)
{
	return rd_pool_progress(ctx, "index", done << RD_SEG_SHIFT, total << RD_SEG_SHIFT);
}

static int open_index(struct rd_pool *pool, struct rd_index **ret)
{
	int r = rd_index_open(ret, pool->path, pool->area.super.uuid);

	if (!r)
		rd_index_prune_by(*ret, pool->sql);
	return r;
}

static int make_index(struct rd_pool *pool, struct rd_index *index)
{
	return rd_index_exists(pool->path) ? 0 :
		rd_index_build(index, pool->sql, &pool->area, tell_building, pool);
}

/* In one piece, nothing that is elsewhere is of use. */
static bool wants_lookups(struct rd_rule rule)
{
	return rule.dedup == RD_DEDUP_INLINE && rule.pieces > 1;
}

static int begin_lookups(struct rd_snapshot_run *s, struct rd_snapshot_hits *hits)
{
	struct rd_pool *pool = s->pool;

	hits->owned.frame = RD_NO_FRAME;
	hits->lookup = rd_lookup_new(&pool->area, hits->index);
	hits->block = rd_alloc_direct(RD_BLOCK_SIZE);
	if (s->options->verify_hits)
		hits->blocks = rd_blocks_new(pool);
	if (!hits->lookup || !hits->block || !hits->blocks != !s->options->verify_hits)
		return -ENOMEM;
	return make_index(pool, hits->index);
}

int rd_snapshot_hits_begin(struct rd_snapshot_run *s)
{
	bool looks_up = wants_lookups(s->rule);
	int r;

	if (!looks_up && !rd_index_exists(s->pool->path))
		return 0;
	s->hits = calloc(1, sizeof(*s->hits));
	if (!s->hits)
		return -ENOMEM;
	r = open_index(s->pool, &s->hits->index);
	return !r && looks_up ? begin_lookups(s, s->hits) : r;
}

int rd_snapshot_prepare(struct rd_pool *pool, const char *volume,
			const struct rd_rule_change *change)
{
	struct rd_index *index;
	struct rd_rule rule;
	i64 id = 0;
	int r;

	r = rd_volume_find(pool->sql, volume, &id);
	if (!r || r == -ENOENT)
		r = rd_rule_of(pool, id, &rule, NULL);
	if (r)
		return r;
	rd_rule_apply(&rule, change);
	if (!wants_lookups(rule) || rd_index_exists(pool->path))
		return 0;
	r = open_index(pool, &index);
	if (r)
		return r;
	r = make_index(pool, index);
	rd_index_close(index);
	return r;
}

void rd_snapshot_hits_free(struct rd_snapshot_hits *hits)
{
	if (!hits)
		return;
	rd_blocks_free(hits->blocks);
	free(hits->block);
	rd_lookup_free(hits->lookup);
	rd_index_close(hits->index);
	free(hits);
}

void rd_snapshot_hits_end(struct rd_snapshot_hits *hits)
{
	if (hits)
		rd_index_flush(hits->index);
}

void rd_snapshot_index(struct rd_snapshot_run *s, const struct rd_slots *slots,
		       const struct rd_fp fps[RD_SEG_BLOCKS], u64 frame)
{
	unsigned int i;

	for (i = 0; s->hits && i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(slots, i) && rd_index_is_sampled(&fps[i]))
			rd_index_add(s->hits->index, &fps[i], rd_place_make(RD_OWN, frame, i));
}

/* --- looking up */

bool rd_snapshot_looks_up(const struct rd_snapshot_run *s)
{
	return s->hits && s->hits->lookup;
}

/* Forget places that do not have these bytes, now. */
static int compare(struct rd_snapshot_hits *hits, const struct rd_snapshot_buffer *buffer,
		   rd_place places[RD_SEG_BLOCKS])
{
	unsigned int i;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!places[i])
			continue;
		r = rd_blocks_read(hits->blocks, places[i], hits->block);
		if (r == -ENOMEM)
			return r;
		if (r || memcmp(hits->block, buffer->data + (size_t)i * RD_BLOCK_SIZE,
				RD_BLOCK_SIZE))
			places[i] = 0;
	}
	return 0;
}

/*
 * A segment of a feed or a stream cannot be read again when a hit turns out to be none, so those
 * that are none already are dropped before it is let go.
 */
static int drop_refused(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
			rd_place places[RD_SEG_BLOCKS])
{
	rd_place ref;
	unsigned int i;
	int r = rd_sql_begin_read(s->pool->sql);

	if (r)
		return r;
	rd_snapshot_forget_owners(s);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (!places[i])
			continue;
		r = rd_snapshot_check_hit(s, places[i], &buffer->fps[i], &ref);
		if (r == -EAGAIN) {
			places[i] = 0;
			r = 0;
		}
	}
	rd_snapshot_forget_owners(s);
	rd_sql_end_read(s->pool->sql);
	return r;
}

int rd_snapshot_find_hits(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
			  const struct rd_slots *wanted, rd_place places[RD_SEG_BLOCKS])
{
	struct rd_snapshot_hits *hits = s->hits;
	int r = 0;

	memset(places, 0, RD_SEG_BLOCKS * sizeof(*places));
	rd_lookup(hits->lookup, buffer->fps, wanted, places, &s->report->lookups);
	if (rd_snapshot_is_once(s))
		r = drop_refused(s, buffer, places);
	return !r && hits->blocks ? compare(hits, buffer, places) : r;
}

/* --- the transaction */

static void add_owner(struct owned_frame *owned, i64 id, const struct rd_map *map)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = map->at[i];

		if (rd_place_kind(place) == RD_OWN && rd_place_id(place) == owned->frame)
			owned->refs[rd_place_slot(place)] = rd_place_make(RD_REF, id, i);
	}
}

static int load_owner(struct rd_sql *sql, struct owned_frame *owned, i64 id)
{
	struct rd_recipe recipe;
	int r = rd_recipe_load(sql, id, &recipe);

	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	add_owner(owned, id, &recipe.map);
	return 0;
}

static int look_at_frame(struct rd_snapshot_run *s, struct owned_frame *owned, u64 frame)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 owner;
	int r;

	memset(owned->refs, 0, sizeof(owned->refs));
	owned->frame = frame;
	r = rd_frame_recipes(s->pool->sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &owner)) > 0)
		r = rd_owner_is_pack(owner) ? 0 : load_owner(s->pool->sql, owned, owner);
	if (!r)
		rd_area_get_fps(&s->pool->area, frame, 1, owned->fps);
	else
		owned->frame = RD_NO_FRAME;
	return r;
}

void rd_snapshot_forget_owners(struct rd_snapshot_run *s)
{
	if (s->hits)
		s->hits->owned.frame = RD_NO_FRAME;
}

void rd_snapshot_add_owner(struct rd_snapshot_run *s, i64 recipe, const struct rd_map *map)
{
	if (s->hits)
		add_owner(&s->hits->owned, recipe, map);
}

int rd_snapshot_check_hit(struct rd_snapshot_run *s, rd_place place, const struct rd_fp *fp,
			  rd_place *ret)
{
	struct owned_frame *owned = &s->hits->owned;
	unsigned int slot = rd_place_slot(place);
	int r;

	if (owned->frame != rd_place_id(place)) {
		r = look_at_frame(s, owned, rd_place_id(place));
		if (r)
			return r;
	}
	if (!owned->refs[slot] || !rd_fp_equal(&owned->fps[slot], fp)) {
		s->report->lookups.refused++;
		return -EAGAIN;
	}
	*ret = owned->refs[slot];
	return 0;
}
