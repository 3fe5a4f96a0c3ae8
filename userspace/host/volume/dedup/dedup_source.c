// SPDX-License-Identifier: GPL-2.0
/* Which blocks of a volume the pool has as well. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/volume/device/target.h"
#include "host/volume/device/target_place.h"
#include "pool/catalog/segments.h"
#include "pool/engine/read/proof.h"
#include "dedup_source.h"

#define MAX_SEGS	64	/* that are read at a time */

/* --- the version */

/* Is @version what the dirty bits of the target count from? */
static const char *why_not(const struct rd_attachment *at, const struct rd_version *version,
			   const struct rd_target_status *status)
{
	if (status->is_lost)
		return "tracking was lost";
	if (memcmp(version->tracker, at->uuid, sizeof(at->uuid)))
		return "the newest version was not made by this target";
	if ((i64)status->version != version->number || at->version_uid != version->uid)
		return "the last snapshot is not in this pool";
	if (!version->is_consistent)
		return "a program wrote past the target while it was made";
	return NULL;
}

static int find_version(struct rd_dedup_source *source)
{
	const struct rd_attachment *at = source->at;
	struct rd_target_status status;
	const char *why = NULL;
	i64 volume;
	int r = rd_volume_find(source->pool->sql, at->volume, &volume);

	if (!r)
		r = rd_version_load(source->pool->sql, volume, 0, &source->version);
	if (r == -ENOENT) {
		why = "there is none yet";
	} else {
		if (!r)
			r = rd_target_status(at->device, &status);
		if (r)
			return r;
		why = why_not(at, &source->version, &status);
	}
	if (!why)
		return rd_version_prove(source->pool, &source->version);
	rd_err(0, "no version of '%s' in '%s' can stand for its present content: %s", at->volume,
	       source->pool->path, why);
	rd_remedy(RD_REMEDY_TAKE_SNAPSHOT, at->volume, "nothing was changed");
	return -EINVAL;
}

int rd_dedup_source_look(struct rd_dedup_source *source)
{
	RD_BUFFER struct rd_buffer ranges = { 0 };
	const struct rd_changed_range *range;
	u64 segment, end;
	int r = rd_target_dirty(source->at->device, "current", source->nr_segs, &ranges);

	memset(source->dirty, 0, source->nr_segs / 8 + 1);
	rd_each(range, &ranges) {
		end = rd_min((range->offset + range->len) >> RD_SEG_SHIFT, source->nr_segs);
		for (segment = range->offset >> RD_SEG_SHIFT; segment < end; segment++)
			source->dirty[segment / 8] |= 1 << segment % 8;
	}
	return r;
}

int rd_dedup_source_open(struct rd_dedup_source *source, struct rd_pool *pool,
			 const struct rd_attachment *at, u64 nr_blocks, unsigned int cold)
{
	int r;

	*source = (struct rd_dedup_source){
		.pool = pool,
		.at = at,
		.nr_segs = rd_round_up(nr_blocks, RD_SEG_BLOCKS) / RD_SEG_BLOCKS,
	};
	r = find_version(source);
	if (r)
		return r;
	source->oldest_hot = source->version.number - cold + 1;
	source->resolver = rd_resolver_new(pool->sql);
	source->dirty = calloc(1, source->nr_segs / 8 + 1);
	if (!source->resolver || !source->dirty)
		return -ENOMEM;
	return rd_dedup_source_look(source);
}

void rd_dedup_source_close(struct rd_dedup_source *source)
{
	if (source->resolver)
		rd_resolver_free(source->resolver);
	free(source->dirty);
}

/* --- places */

/*
 * 1: a block lies where the table's device ends. -ENOPKG, and says so: one is in a pack, and the
 * module reads none.
 */
static int take_map(struct rd_dedup_source *source, struct rd_target_places *packs,
		    const struct rd_map *map, struct dmr_entry *places)
{
	unsigned int i;
	u64 end;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		r = rd_target_place(packs, map->at[i], &places[i], &end);
		if (!r && source->nr_places && end > source->nr_places)
			r = 1;
		if (!r && places[i].kind == DMR_PACK)
			r = rd_target_require_packs();
	}
	return r;
}

static void leave(struct dmr_entry *places, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		places[i] = (struct dmr_entry){ .kind = DMR_BASE };
}

static int resolve(struct rd_dedup_source *source, i64 recipe, struct rd_map *ret)
{
	struct rd_seg_fp fp;

	if (recipe)
		return rd_resolve(source->resolver, recipe, ret, &fp);
	memset(ret, 0, sizeof(*ret));
	return 0;
}

/*
 * Leave blocks of @map alone that the recipe @before does not have in the same place. Where two
 * versions have the same block at the same offset, the older one has given it up for the newer
 * one's; so what differs was written in between, whatever the fingerprints say.
 */
static int leave_written(struct rd_dedup_source *source, const struct rd_map *map, i64 before,
			 struct dmr_entry *places)
{
	struct rd_map old;
	unsigned int i;
	int r = resolve(source, before, &old);

	/* Damage of an old version is for a scrub to say. */
	if (r == -ENOENT || r == -EUCLEAN) {
		leave(places, RD_SEG_BLOCKS);
		return 0;
	}
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (map->at[i] != old.at[i])
			leave(places + i, 1);
	return r;
}

/* @before: what the segment was when it had to be the same already */
static int read_segment(struct rd_dedup_source *source, struct rd_target_places *packs, i64 recipe,
			i64 before, struct dmr_entry *places)
{
	struct rd_map map;
	int r = resolve(source, recipe, &map);

	if (!r)
		r = take_map(source, packs, &map, places);
	if (r > 0) {
		leave(places, RD_SEG_BLOCKS);
		return 0;
	}
	return r || recipe == before ? r : leave_written(source, &map, before, places);
}

static bool is_cold(const struct rd_dedup_source *source, u64 segment, i64 born)
{
	return born < source->oldest_hot && !rd_dedup_source_is_dirty(source, segment);
}

/* Leave blocks beyond the end of the version alone, of which it says nothing. */
static void cut(const struct rd_dedup_source *source, u64 first, unsigned int nr,
		struct dmr_entry *places)
{
	u64 end = source->version.size / RD_BLOCK_SIZE;
	u64 at = first * RD_SEG_BLOCKS;

	if (end < at + nr * RD_SEG_BLOCKS)
		leave(places + (end > at ? end - at : 0),
		      nr * RD_SEG_BLOCKS - (end > at ? end - at : 0));
}

/* Find the version that warm segments are compared with: it may be deleted at any time. */
static int find_before(struct rd_dedup_source *source)
{
	struct rd_version before;
	int r = rd_version_before(source->pool->sql, source->version.volume, source->oldest_hot,
				  &before);

	source->before = r ? 0 : before.number;
	return r == -ENOENT ? 0 : r;
}

static int read_all(struct rd_dedup_source *source, struct rd_target_places *packs, u64 first,
		    unsigned int nr, struct dmr_entry *places)
{
	struct rd_sql *sql = source->pool->sql;
	i64 recipes[MAX_SEGS], born[MAX_SEGS], before[MAX_SEGS], volume = source->version.volume;
	u64 end = rd_nr_segs(source->version.size);
	unsigned int i;
	bool cold;
	int r;

	r = rd_segments_read_born(sql, volume, source->version.number, first, nr, recipes, born);
	if (!r && source->before)
		r = rd_segments_read(sql, volume, source->before, first, nr, before);
	for (i = 0; i < nr && !r; i++, places += RD_SEG_BLOCKS) {
		cold = is_cold(source, first + i, born[i]);
		/* A last segment that the end of the version cuts is its own up to there. */
		if (first + i < end && (cold || source->before))
			r = read_segment(source, packs, recipes[i],
					 cold ? recipes[i] : before[i], places);
		else
			leave(places, RD_SEG_BLOCKS);
	}
	return r;
}

int rd_dedup_source_read(struct rd_dedup_source *source, u64 first, unsigned int nr,
			 struct dmr_entry *places)
{
	struct rd_target_places packs = { .sql = source->pool->sql };
	unsigned int some;
	u64 at;
	int r = rd_sql_begin_read(source->pool->sql);

	if (r)
		return r;
	rd_resolver_forget(source->resolver);
	r = find_before(source);
	for (at = 0; at < nr && !r; at += some) {
		some = rd_min(MAX_SEGS, nr - at);
		r = read_all(source, &packs, first + at, some, places + at * RD_SEG_BLOCKS);
	}
	rd_sql_end_read(source->pool->sql);
	if (r == -ENOPKG)
		return r;
	if (r)
		return rd_err(r, "cannot read where '%s' has its blocks", source->at->volume);
	cut(source, first, nr, places);
	return 0;
}
