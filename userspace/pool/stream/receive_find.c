// SPDX-License-Identifier: GPL-2.0
/*
 * What the pool has of a segment that a sender names: all of it, what the version before has in
 * the same place, and blocks that the index knows anywhere.
 *
 * Places are hints, as ever: they are read when the segment is put together, and what is then
 * wrong has another fingerprint. Nothing is asked for twice: the sender is asked for all that the
 * pool may not have.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "possess.h"
#include "receiver.h"

/* Rows of a recipe that are looked at, to see whose it is. */
#define MAX_ROWS	64

/* --- whose is it? */

static int owns(struct rd_receiver *receiver, i64 volume, bool *ret)
{
	RD_FREE char *name = NULL;
	int r;

	*ret = volume == receiver->volume_id;
	if (*ret || !receiver->options->owns)
		return 0;
	r = rd_volume_name(receiver->pool->sql, volume, &name);
	if (!r)
		*ret = receiver->options->owns(receiver->options->ctx, name);
	return r == -ENOENT ? 0 : r;
}

static int is_own(struct rd_receiver *receiver, i64 recipe, bool *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_segment_row row;
	unsigned int nr = 0;
	int r;

	*ret = false;
	r = rd_segment_rows(receiver->pool->sql, &rows, recipe);
	while (!r && !*ret && nr++ < MAX_ROWS && (r = rd_next_segment_row(rows, &row)) > 0)
		r = owns(receiver, row.volume, ret);
	return r < 0 ? r : 0;
}

/* --- a segment */

static int find_shared(struct rd_receiver *receiver, const struct rd_seg_fp *fp,
		       struct rd_map *ret)
{
	struct rd_seg_fp found;
	unsigned int pieces;
	i64 recipe;
	int r = rd_sql_begin_read(receiver->pool->sql);

	if (r)
		return r;
	rd_resolver_forget(receiver->resolver);
	r = rd_recipe_find(receiver->pool->sql, fp, &recipe, &pieces);
	if (!r)
		r = rd_resolve(receiver->resolver, recipe, ret, &found);
	rd_sql_end_read(receiver->pool->sql);
	return r;
}

/* Is what the pool has of the segment zeros behind the end of the version? */
static int ends_well(struct rd_receiver *receiver, const struct rd_arriving *arriving, bool *ret)
{
	u64 left = receiver->feed.size - (arriving->named.segment << RD_SEG_SHIFT);
	struct rd_map map;
	unsigned int i;
	int r;

	*ret = left >= RD_SEG_SIZE;
	/* Of a block that it ends in, the content would have to be read. */
	if (*ret || left % RD_BLOCK_SIZE)
		return 0;
	r = find_shared(receiver, &arriving->named.fp, &map);
	if (r)
		return r == -ENOENT ? 0 : r;
	*ret = true;
	for (i = left / RD_BLOCK_SIZE; i < RD_SEG_BLOCKS; i++)
		*ret &= rd_place_kind(map.at[i]) == RD_ZERO;
	return 0;
}

int rd_receive_find_segment(struct rd_receiver *receiver, struct rd_arriving *arriving,
			    enum rd_have *ret)
{
	enum rd_share share = receiver->options->share;
	bool own = false, fits;
	unsigned int pieces;
	i64 recipe;
	int r;

	*ret = RD_HAVE_NOT;
	arriving->state = RD_ARRIVING_LACKING;
	if (rd_is_zero(&arriving->named.fp, sizeof(arriving->named.fp))) {
		arriving->state = RD_ARRIVING_ZEROS;
		*ret = RD_HAVE;
		return 0;
	}
	/* A file has its content in any case. */
	if (receiver->trust_nothing || receiver->is_file)
		return 0;
	r = rd_recipe_find(receiver->pool->sql, &arriving->named.fp, &recipe, &pieces);
	/* One in more pieces than the volume allows is written anew. */
	if (r || pieces > receiver->pieces)
		return r == -ENOENT ? 0 : r;
	r = ends_well(receiver, arriving, &fits);
	if (r || !fits)
		return r;
	if (share != RD_SHARE_ALL) {
		r = is_own(receiver, recipe, &own);
		if (r || (!own && share == RD_SHARE_OWN))
			return r;
	}
	*ret = own || share == RD_SHARE_ALL ? RD_HAVE : RD_HAVE_PROVE;
	arriving->state = *ret == RD_HAVE ? RD_ARRIVING_SHARED : RD_ARRIVING_PROVE;
	if (*ret == RD_HAVE_PROVE)
		memset(&arriving->need.prove, 0xff, sizeof(arriving->need.prove));
	return 0;
}

/* --- the version before */

static int resolve(struct rd_receiver *receiver, u64 segment, struct rd_map *ret)
{
	const struct rd_version *base = &receiver->base;
	struct rd_seg_fp fp;
	i64 recipe = 0;
	int r = 0;

	rd_resolver_forget(receiver->resolver);
	if (segment < rd_nr_segs(base->size))
		r = rd_segments_read(receiver->pool->sql, base->volume, base->number, segment, 1,
				     &recipe);
	return r || !recipe ? r : rd_resolve(receiver->resolver, recipe, ret, &fp);
}

static int find_before(struct rd_receiver *receiver, u64 segment, struct rd_map *ret)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!receiver->base.id)
		return 0;
	r = rd_sql_look(receiver->pool->sql, resolve(receiver, segment, ret));
	return r == -ENOENT ? -EUCLEAN : r;
}

/* --- blocks */

/*
 * Drop places that no recipe has: their fingerprints remain of what old versions gave up. All of
 * the version would be asked for again if they were believed.
 */
static int drop_stale(struct rd_receiver *receiver, rd_place places[RD_SEG_BLOCKS])
{
	u64 frame = U64_MAX;
	struct rd_slots owned;
	unsigned int i;
	int r = rd_sql_begin_read(receiver->pool->sql);

	if (r)
		return r;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (!places[i])
			continue;
		if (rd_place_id(places[i]) != frame) {
			frame = rd_place_id(places[i]);
			r = rd_frame_live_slots(receiver->pool->sql, frame, &owned);
		}
		if (!r && !rd_slots_test(&owned, rd_place_slot(places[i])))
			places[i] = 0;
	}
	rd_sql_end_read(receiver->pool->sql);
	return r == -ENOENT ? -EUCLEAN : r;
}

/* Ask the index for the blocks that are still needed. */
static int ask_index(struct rd_receiver *receiver, struct rd_arriving *arriving,
		     const struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct rd_need *need = &arriving->need;
	struct rd_lookup_counts counts = { 0 };
	rd_place places[RD_SEG_BLOCKS] = { 0 };
	unsigned int i, nr = 0;
	int r;

	if (!receiver->lookup || receiver->trust_nothing || receiver->is_file ||
	    receiver->options->share == RD_SHARE_OWN || rd_slots_are_none(&need->need))
		return 0;
	rd_lookup(receiver->lookup, fps, &need->need, places, &counts);
	r = drop_stale(receiver, places);
	if (r)
		return r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!places[i])
			continue;
		rd_slots_clear(&need->need, i);
		if (receiver->options->share == RD_SHARE_PROVEN)
			rd_slots_set(&need->prove, i);
		nr++;
	}
	if (!nr)
		return 0;
	arriving->places = malloc(sizeof(places));
	if (!arriving->places)
		return -ENOMEM;
	memcpy(arriving->places, places, sizeof(places));
	return 0;
}

int rd_receive_find_blocks(struct rd_receiver *receiver, struct rd_arriving *arriving,
			   const struct rd_blocks_of *blocks)
{
	struct rd_fp fps[RD_SEG_BLOCKS], before[RD_SEG_BLOCKS] = { 0 };
	u64 segment = arriving->named.segment;
	struct rd_need *need = &arriving->need;
	struct rd_slots *needed = &need->need;
	unsigned int i, at = 0;
	struct rd_map map;
	int r;

	r = find_before(receiver, segment, &map);
	if (r)
		return r;
	rd_read_map_fps(&receiver->pool->area, &map, before);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_slots_test(&blocks->slots, i))
			memcpy(&fps[i], blocks->fps + at++ * sizeof(*fps), sizeof(*fps));
		else if (receiver->is_delta)
			fps[i] = before[i];
		else
			memset(&fps[i], 0, sizeof(fps[i]));
	}
	if (!rd_fps_are_of(receiver->hasher, fps, &arriving->named.fp))
		return -EBADMSG;
	memset(need, 0, sizeof(*need));
	need->segment = segment;
	arriving->nr_told = blocks->nr;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		bool must_come = receiver->is_file || receiver->trust_nothing ||
			!rd_fp_equal(&fps[i], &before[i]);

		if (rd_fp_is_zero(&fps[i]))
			continue;
		rd_slots_set(rd_slots_test(&blocks->slots, i) && must_come ? needed :
			     &arriving->before, i);
	}
	return ask_index(receiver, arriving, fps);
}

/* --- putting it together */

int rd_receive_fill(struct rd_receiver *receiver, const struct rd_arriving *arriving, u8 *data)
{
	struct rd_map map;
	unsigned int i;
	int r;

	r = find_before(receiver, arriving->named.segment, &map);
	if (r)
		return r;
	rd_blocks_forget(receiver->blocks);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (arriving->places && arriving->places[i])
			map.at[i] = arriving->places[i];
		else if (!rd_slots_test(&arriving->before, i) ||
			 rd_place_kind(map.at[i]) == RD_ZERO)
			map.at[i] = 0;
		if (!map.at[i] && !rd_slots_test(&arriving->need.need, i))
			memset(data + (size_t)i * RD_BLOCK_SIZE, 0, RD_BLOCK_SIZE);
	}
	return rd_blocks_read_all(receiver->blocks, map.at, RD_SEG_BLOCKS, data);
}

/* --- proofs */

/* Read the blocks that are to be proven, each to its place in receiver->data. */
static int read_to_prove(struct rd_receiver *receiver, const struct rd_arriving *arriving)
{
	struct rd_map map;
	unsigned int i;
	int r = 0;

	memset(receiver->data, 0, RD_SEG_SIZE);
	if (arriving->state == RD_ARRIVING_PROVE)
		r = find_shared(receiver, &arriving->named.fp, &map);
	else
		memcpy(map.at, arriving->places, sizeof(map.at));
	if (r)
		return r;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(map.at[i]) == RD_ZERO ||
		    !rd_slots_test(&arriving->need.prove, i))
			map.at[i] = 0;
	rd_blocks_forget(receiver->blocks);
	return rd_blocks_read_all(receiver->blocks, map.at, RD_SEG_BLOCKS, receiver->data);
}

int rd_receive_is_proven(struct rd_receiver *receiver, struct rd_arriving *arriving,
			 const u8 proof[32])
{
	u8 found[32];
	int r = read_to_prove(receiver, arriving);

	/* What was there is gone, or cannot be read: then there is nothing to prove. */
	if (r == -ENOMEM || r == -EINTR)
		return r;
	if (r)
		return 0;
	r = rd_possess_hash(receiver->digest, receiver->nonce, arriving->named.segment,
			    &arriving->need.prove, receiver->data, found);
	return r ? r : !memcmp(found, proof, sizeof(found));
}

/* --- */

static int tell_building(void *ctx, u64 done, u64 total)
{
	return rd_pool_progress(ctx, "index", done << RD_SEG_SHIFT, total << RD_SEG_SHIFT);
}

int rd_receive_open_index(struct rd_receiver *receiver)
{
	struct rd_pool *pool = receiver->pool;
	bool exists = rd_index_exists(pool->path);
	u64 versions = 0;
	int r = 0;

	if (receiver->is_file || receiver->options->share == RD_SHARE_OWN || receiver->index)
		return 0;
	if (!exists)
		r = rd_versions_count(pool->sql, &versions);
	/* A version before is enough for one that follows it. */
	if (r || (!exists && (receiver->base.id || !versions)))
		return r;
	r = rd_index_open(&receiver->index, pool->path, pool->area.super.uuid);
	if (!r && !exists)
		r = rd_index_build(receiver->index, pool->sql, &pool->area, tell_building, pool);
	if (r)
		return r;
	receiver->lookup = rd_lookup_new(&pool->area, receiver->index);
	return receiver->lookup ? 0 : -ENOMEM;
}

int rd_receive_find_new(struct rd_receiver *receiver)
{
	receiver->hasher = rd_hasher_new();
	receiver->resolver = rd_resolver_new(receiver->pool->sql);
	receiver->blocks = rd_blocks_new(receiver->pool);
	receiver->decoder = ZSTD_createDCtx();
	receiver->digest = EVP_MD_CTX_new();
	receiver->data = rd_alloc_direct(RD_SEG_SIZE);
	return receiver->hasher && receiver->resolver && receiver->blocks &&
		receiver->decoder && receiver->digest && receiver->data ? 0 : -ENOMEM;
}

void rd_receive_find_free(struct rd_receiver *receiver)
{
	rd_lookup_free(receiver->lookup);
	rd_index_close(receiver->index);
	free(receiver->data);
	EVP_MD_CTX_free(receiver->digest);
	ZSTD_freeDCtx(receiver->decoder);
	rd_blocks_free(receiver->blocks);
	rd_resolver_free(receiver->resolver);
	rd_hasher_free(receiver->hasher);
}
