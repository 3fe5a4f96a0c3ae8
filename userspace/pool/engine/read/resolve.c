// SPDX-License-Identifier: GPL-2.0
/*
 * Follow recipes to places, with a bounded cache of recipes, and one of what they lead to.
 *
 * Each version's recipe of a segment refers to that of the next version: of n versions the first
 * is n steps from its blocks. Where the next one is in the cache, it is one step. So whoever asks
 * for many begins with the newest, and pays for each recipe once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "resolve.h"

#define NR_CACHED	1024		/* 4 MiB of maps, and as much again */
#define PAGES_SHIFT	8
#define NR_PAGES	(1U << PAGES_SHIFT)	/* 2 MiB of fingerprints */

/* What was read before the last time that all was forgotten does not count. */
struct cached {
	u64 age;
	struct rd_recipe recipe;
};

/* A map that was followed to its end. */
struct resolved {
	u64 age;
	i64 id;
	struct rd_map map;
};

/* The fingerprints of a frame. */
struct page {
	u64 id;				/* of the frame, and 1; 0: none */
	struct rd_fp fps[RD_SEG_BLOCKS];
};

struct rd_resolver {
	struct rd_sql *sql;
	u64 age;
	struct cached cache[NR_CACHED];		/* by number; 0: none */
	struct resolved resolved[NR_CACHED];	/* the same */
	struct page *pages;			/* by frame; NULL: none yet */
};

struct rd_resolver *rd_resolver_new(struct rd_sql *sql)
{
	struct rd_resolver *resolver = calloc(1, sizeof(*resolver));

	if (resolver)
		resolver->sql = sql;
	return resolver;
}

void rd_resolver_free(struct rd_resolver *resolver)
{
	if (resolver)
		free(resolver->pages);
	free(resolver);
}

void rd_resolver_forget(struct rd_resolver *resolver)
{
	resolver->age++;
}

int rd_resolver_load(struct rd_resolver *resolver, i64 id, const struct rd_recipe **ret)
{
	struct cached *cached = &resolver->cache[(u64)id % NR_CACHED];
	struct rd_recipe *recipe = &cached->recipe;
	int r = 0;

	/* No recipe has these, and the cache means nothing by 0. */
	if (id <= 0)
		return -ENOENT;
	if (recipe->id != id || cached->age != resolver->age) {
		recipe->id = 0;
		r = rd_recipe_load(resolver->sql, id, recipe);
		if (r)
			recipe->id = 0;
		cached->age = resolver->age;
	}
	*ret = recipe;
	return r;
}

static struct resolved *resolved_at(struct rd_resolver *resolver, i64 id)
{
	return &resolver->resolved[(u64)id % NR_CACHED];
}

/* NULL: it is not known where @id leads to. */
static const struct rd_map *find_resolved(struct rd_resolver *resolver, i64 id)
{
	const struct resolved *resolved = resolved_at(resolver, id);

	return id > 0 && resolved->id == id && resolved->age == resolver->age ?
		&resolved->map : NULL;
}

static void keep_resolved(struct rd_resolver *resolver, i64 id, const struct rd_map *map)
{
	struct resolved *resolved = resolved_at(resolver, id);

	resolved->age = resolver->age;
	resolved->id = id;
	resolved->map = *map;
}

/* Load the map of @id, the furthest that is known. */
static int load_target(struct rd_resolver *resolver, i64 id, const struct rd_map **ret)
{
	const struct rd_recipe *recipe;
	int r;

	*ret = find_resolved(resolver, id);
	if (*ret)
		return 0;
	r = rd_resolver_load(resolver, id, &recipe);
	*ret = &recipe->map;
	return r;
}

/* One step, or more, for each entry that points at a recipe. */
static int follow(struct rd_resolver *resolver, struct rd_map *map, bool *ret_more)
{
	const struct rd_map *target = NULL;
	unsigned int i;
	u64 id = 0;
	int r;

	*ret_more = false;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = map->at[i];

		if (rd_place_kind(place) != RD_REF)
			continue;
		if (!target || id != rd_place_id(place)) {
			id = rd_place_id(place);
			r = load_target(resolver, id, &target);
			if (r)
				return r;
		}
		place = target->at[rd_place_slot(place)];
		if (rd_place_kind(place) == RD_ZERO)
			return -EUCLEAN;
		map->at[i] = place;
		*ret_more |= rd_place_kind(place) == RD_REF;
	}
	return 0;
}

int rd_resolve(struct rd_resolver *resolver, i64 id, struct rd_map *ret_map,
	       struct rd_seg_fp *ret_fp)
{
	const struct rd_recipe *recipe;
	const struct rd_map *known;
	unsigned int hops = 0;
	struct rd_map before;
	bool more = true;
	int r;

	r = rd_resolver_load(resolver, id, &recipe);
	if (r)
		return r;
	known = find_resolved(resolver, id);
	*ret_map = known ? *known : recipe->map;
	*ret_fp = recipe->fp;
	if (known)
		return 0;
	while (more) {
		rd_map_note(ret_map, &before, hops);
		r = follow(resolver, ret_map, &more);
		hops++;
		/* Whom a recipe points at exists, and no chain closes. */
		if (r == -ENOENT || (!r && more && rd_map_circles(ret_map, &before)))
			r = -EUCLEAN;
		if (r)
			return rd_err(r, "cannot find the blocks of recipe %lld", id);
	}
	/* One that refers to nothing is in the other cache. */
	if (hops > 1 || memcmp(&before, ret_map, sizeof(before)))
		keep_resolved(resolver, id, ret_map);
	return 0;
}

/* Read the fingerprints of a frame to @pages, or, if that is NULL, to @page. */
static const struct rd_fp *page_of(const struct rd_area *area, struct page *pages, u64 frame,
				   struct page *page)
{
	if (pages)
		/* Packed frames of a few packs have numbers in regular distances. */
		page = &pages[frame * 0x9e3779b97f4a7c15ULL >> (64 - PAGES_SHIFT)];
	if (!pages || page->id != frame + 1)
		rd_area_get_fps(area, frame, 1, page->fps);
	page->id = frame + 1;
	return page->fps;
}

static void read_map_fps(const struct rd_area *area, struct page *pages, const struct rd_map *map,
			 struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct rd_slots done = { 0 };
	const struct rd_fp *page;
	struct page space;
	unsigned int i, j;
	u64 frame;

	memset(fps, 0, RD_FPS_SIZE);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(map->at[i]) != RD_OWN || rd_slots_test(&done, i))
			continue;
		/* Pieces of few frames may take turns: each is read once. */
		frame = rd_place_id(map->at[i]);
		page = page_of(area, pages, frame, &space);
		for (j = i; j < RD_SEG_BLOCKS; j++) {
			if (rd_place_kind(map->at[j]) != RD_OWN || rd_place_id(map->at[j]) != frame)
				continue;
			fps[j] = page[rd_place_slot(map->at[j])];
			rd_slots_set(&done, j);
		}
	}
}

void rd_read_map_fps(const struct rd_area *area, const struct rd_map *map,
		     struct rd_fp fps[RD_SEG_BLOCKS])
{
	read_map_fps(area, NULL, map, fps);
}

void rd_resolver_read_fps(struct rd_resolver *resolver, const struct rd_area *area,
			  const struct rd_map *map, struct rd_fp fps[RD_SEG_BLOCKS])
{
	if (!resolver->pages)
		resolver->pages = calloc(NR_PAGES, sizeof(*resolver->pages));
	read_map_fps(area, resolver->pages, map, fps);
}

void rd_resolver_forget_fps(struct rd_resolver *resolver)
{
	unsigned int i;

	for (i = 0; resolver->pages && i < NR_PAGES; i++)
		resolver->pages[i].id = 0;
}
