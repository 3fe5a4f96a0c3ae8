// SPDX-License-Identifier: GPL-2.0
/*
 * Estimate how much space a deletion of some versions would free.
 *
 * Rows that none of the others sees would go, and with them the recipes that no
 * other row names: these die. The blocks that a dying recipe has OWN are free but
 * for those to which a recipe that stays refers, perhaps through dying ones. An
 * entry refers to one other at most, so what refers to a block is a tree, and it is
 * climbed from there: each entry is seen once.
 *
 * A version that a device reads stays as it is, for the time being.
 *
 * A block in a pack frees nothing by itself. Blocks that go are counted for each packed frame:
 * a pack that loses all of its blocks goes, and one that has lost a quarter is made anew (see
 * free_packs.c) and becomes smaller, presumably in proportion.
 *
 * What older versions give up when another one becomes the newest is not counted.
 *
 * The same for each version of a volume, as if it alone were deleted: a recipe then dies
 * with one version, and lives for all others.
 */
#include <errno.h>

#include "base/buffer.h"
#include "base/sort.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/sole.h"
#include "pool/engine/read/resolve.h"
#include "version.h"

/* Dying recipes whose wanted blocks are in memory: 16 MiB. */
#ifdef RD_TEST
#define WINDOW		3U
#else
#define WINDOW		(256U << 10)
#endif
/* Losses that are noted before those of one packed frame are added up. */
#define MANY_LOSSES	(64U << 10)
/* No more than these are kept for each version alone. */
#define MAX_LOSSES	(1U << 20)

/* A packed frame loses blocks with a version, or with all versions. */
struct loss {
	i64 number;
	u64 frame;
	u64 blocks;
};

struct estimate {
	struct rd_pool *pool;
	struct rd_buffer dying;		/* struct rd_sole each, in the order of recipes */
	i64 number;			/* only those that die with this version die */
	u64 blocks;			/* that would be free with all of them */
	struct rd_buffer losses;	/* struct loss each */
	size_t many_losses;		/* add up when there are as many */
	struct rd_resolver *resolver;
	/* Of the @nr dying recipes from @first on, what others want. */
	size_t first, nr;
	struct rd_slots *wanted;
	struct rd_unique *versions;	/* in the order of numbers */
	size_t nr_versions;
};

/* --- who dies */

static const struct rd_sole *find_dying(const struct estimate *estimate, i64 recipe)
{
	const struct rd_buffer *dying = &estimate->dying;
	const struct rd_sole *list = (const struct rd_sole *)dying->data;

	return rd_find(list, dying->len / sizeof(*list), recipe, recipe);
}

static const struct rd_sole *dying_at(const struct estimate *estimate, size_t at)
{
	return (const struct rd_sole *)estimate->dying.data + at;
}

static size_t nr_dying(const struct estimate *estimate)
{
	return estimate->dying.len / sizeof(struct rd_sole);
}

/* --- what those want that stay */

static void want(struct estimate *estimate, const struct rd_sole *sole, unsigned int slot)
{
	size_t at = sole - dying_at(estimate, 0);

	if (at >= estimate->first && at - estimate->first < estimate->nr)
		rd_slots_set(&estimate->wanted[at - estimate->first], slot);
}

/* One step for each entry that leads to a recipe that dies with version @number. */
static int follow(struct estimate *estimate, struct rd_map *map, i64 number, bool *ret_more)
{
	rd_place *at = map->at;
	const struct rd_recipe *target = NULL;
	const struct rd_sole *sole = NULL;
	unsigned int i, slot;
	int r;

	*ret_more = false;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(at[i]) != RD_REF)
			continue;
		if (!sole || sole->recipe != (i64)rd_place_id(at[i]))
			sole = find_dying(estimate, rd_place_id(at[i]));
		/* Who lives is followed by itself. */
		if (!sole || sole->number != number) {
			at[i] = 0;
			continue;
		}
		if (!target || target->id != sole->recipe) {
			r = rd_resolver_load(estimate->resolver, sole->recipe, &target);
			if (r)
				return r == -ENOENT ? -EUCLEAN : r;
		}
		slot = rd_place_slot(at[i]);
		at[i] = target->map.at[slot];
		if (rd_place_kind(at[i]) == RD_OWN)
			want(estimate, sole, slot);
		*ret_more |= rd_place_kind(at[i]) == RD_REF;
	}
	return 0;
}

/* Note what @source, which lives, wants of the recipe @sole and of those that it refers to. */
static int follow_source(struct estimate *estimate, const struct rd_sole *sole, i64 source)
{
	const struct rd_recipe *recipe;
	struct rd_map map, before;
	unsigned int i, hops = 0;
	bool more = true;
	int r;

	r = rd_resolver_load(estimate->resolver, source, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe->map.at[i];

		map.at[i] = rd_place_kind(place) == RD_REF &&
			rd_place_id(place) == (u64)sole->recipe ? place : 0;
	}
	/* A recipe may refer to itself, so there can be more hops than recipes. */
	while (!r && more) {
		rd_map_note(&map, &before, hops);
		r = follow(estimate, &map, sole->number, &more);
		hops++;
		/* A circle, of a catalog that is damaged, leads to no block. */
		more = more && !rd_map_circles(&map, &before);
	}
	return r;
}

static int follow_sources(struct estimate *estimate, const struct rd_sole *sole)
{
	RD_ROW struct rd_row *rows = NULL;
	const struct rd_sole *other;
	i64 source;
	int r;

	r = rd_recipe_sources(estimate->pool->sql, &rows, sole->recipe);
	while (!r && (r = rd_next_id(rows, &source)) > 0) {
		other = find_dying(estimate, source);
		r = other && other->number == sole->number ? 0 :
			follow_source(estimate, sole, source);
	}
	return r;
}

static int find_wanted(struct estimate *estimate)
{
	size_t i, nr = nr_dying(estimate);
	int r = 0;

	memset(estimate->wanted, 0, estimate->nr * sizeof(*estimate->wanted));
	for (i = 0; i < nr && !r; i++) {
		r = follow_sources(estimate, dying_at(estimate, i));
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate",
					     estimate->first * RD_SEG_SIZE, nr * RD_SEG_SIZE);
	}
	return r;
}

/* --- what packs lose */

static int compare_losses(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return rd_order(x->number, y->number) ? : rd_order(x->frame, y->frame);
}

/* Sort losses by version and frame, and add up those of the same. Return how many are left. */
static size_t add_up_losses(struct rd_buffer *losses)
{
	struct loss *list = (struct loss *)losses->data;
	size_t i, nr = losses->len / sizeof(*list), kept = 0;

	rd_sort_buffer(losses, sizeof(*list), compare_losses);
	for (i = 0; i < nr; i++) {
		if (kept && !compare_losses(&list[kept - 1], &list[i]))
			list[kept - 1].blocks += list[i].blocks;
		else
			list[kept++] = list[i];
	}
	losses->len = kept * sizeof(*list);
	return kept;
}

static int note_loss(struct estimate *estimate, u64 frame, u64 blocks)
{
	const struct loss loss = { estimate->number, frame, blocks };
	struct rd_buffer *losses = &estimate->losses;
	size_t nr = losses->len / sizeof(loss);

	if (nr >= rd_max(estimate->many_losses, MANY_LOSSES)) {
		nr = add_up_losses(losses);
		estimate->many_losses = 2 * nr;
		/* All versions together lose no more than there is: that is not limited. */
		if (nr > MAX_LOSSES && loss.number)
			return -E2BIG;
	}
	return rd_buffer_put(losses, &loss, sizeof(loss));
}

/* How many blocks does the data area have less? */
static int freed_by(struct estimate *estimate, const struct loss *loss, u64 *ret)
{
	unsigned int live, left;
	struct rd_pack pack;
	int r;

	*ret = 0;
	r = rd_pack_find(estimate->pool->sql, loss->frame, &pack);
	if (!r)
		r = rd_frames_count_live(estimate->pool->sql, loss->frame, &live);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	left = live - rd_min(loss->blocks, live);
	if (!left)
		*ret = pack.blocks + RD_FPS_SIZE / RD_BLOCK_SIZE;
	else if (left <= pack.slots * 3 / 4)
		*ret = (u64)pack.blocks * (pack.slots - left) / pack.slots;
	return 0;
}

/* --- roots */

static struct rd_unique *find_version(const struct estimate *estimate, i64 number)
{
	return rd_find(estimate->versions, estimate->nr_versions, number, number);
}

/* With one version of those that are asked for, or with all of them. */
static void add_blocks(struct estimate *estimate, i64 number, u64 blocks)
{
	if (estimate->versions)
		find_version(estimate, number)->bytes += blocks * RD_BLOCK_SIZE;
	else
		estimate->blocks += blocks;
}

/* Blocks of @map that are OWN and not @wanted by others are free then. */
static int note_free(struct estimate *estimate, const struct rd_map *map,
		     const struct rd_slots *wanted)
{
	u64 frame = 0, blocks = 0, nr_free = 0;
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		rd_place place = map->at[i];

		if (rd_place_kind(place) != RD_OWN || rd_slots_test(wanted, i))
			continue;
		if (!rd_frame_is_packed(rd_place_id(place))) {
			nr_free++;
			continue;
		}
		if (blocks && rd_place_id(place) != frame) {
			r = note_loss(estimate, frame, blocks);
			blocks = 0;
		}
		frame = rd_place_id(place);
		blocks++;
	}
	add_blocks(estimate, estimate->number, nr_free);
	return r || !blocks ? r : note_loss(estimate, frame, blocks);
}

static int count_window(struct estimate *estimate)
{
	const struct rd_recipe *recipe;
	const struct rd_sole *sole;
	size_t i, nr = nr_dying(estimate);
	int r = find_wanted(estimate);

	for (i = 0; i < estimate->nr && !r; i++) {
		sole = dying_at(estimate, estimate->first + i);
		r = rd_resolver_load(estimate->resolver, sole->recipe, &recipe);
		if (r)
			return r == -ENOENT ? -EUCLEAN : r;
		estimate->number = sole->number;
		r = note_free(estimate, &recipe->map, &estimate->wanted[i]);
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate",
					     (estimate->first + i) * RD_SEG_SIZE,
					     nr * RD_SEG_SIZE);
	}
	return r;
}

static int count_all(struct estimate *estimate)
{
	size_t nr = nr_dying(estimate);
	int r = 0;

	if (!nr)
		return 0;
	estimate->resolver = rd_resolver_new(estimate->pool->sql);
	estimate->wanted = calloc(rd_min(nr, WINDOW), sizeof(*estimate->wanted));
	if (!estimate->resolver || !estimate->wanted)
		return -ENOMEM;
	for (; estimate->first < nr && !r; estimate->first += estimate->nr) {
		estimate->nr = rd_min(nr - estimate->first, WINDOW);
		r = count_window(estimate);
	}
	return r;
}

/* --- all of it */

/* With each version alone, only those that are wanted have losses. */
static int add_losses(struct estimate *estimate)
{
	size_t i, nr = add_up_losses(&estimate->losses);
	const struct loss *losses = (const struct loss *)estimate->losses.data;
	u64 blocks;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = freed_by(estimate, &losses[i], &blocks);
		add_blocks(estimate, losses[i].number, blocks);
	}
	return r;
}

/* For a version, those that die with others live. */
static void drop_unwanted(struct estimate *estimate)
{
	struct rd_sole *sole = (struct rd_sole *)estimate->dying.data;
	size_t i, kept = 0, nr = nr_dying(estimate);

	for (i = 0; i < nr; i++)
		if (find_version(estimate, sole[i].number))
			sole[kept++] = sole[i];
	estimate->dying.len = kept * sizeof(*sole);
}

/* The recipes that die were asked for: @r. */
static int count(struct estimate *estimate, int r)
{
	if (!r && estimate->versions)
		drop_unwanted(estimate);
	if (!r)
		r = count_all(estimate);
	return r ? r : add_losses(estimate);
}

static void free_estimate(struct estimate *estimate)
{
	rd_buffer_free(&estimate->dying);
	rd_buffer_free(&estimate->losses);
	rd_resolver_free(estimate->resolver);
	free(estimate->wanted);
}

int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes)
{
	struct estimate estimate = { .pool = pool };
	int r;

	r = rd_sql_look(pool->sql, count(&estimate, rd_sole_together(pool->sql, ids, nr,
								     &estimate.dying)));
	free_estimate(&estimate);
	*ret_bytes = estimate.blocks * RD_BLOCK_SIZE;
	return r;
}

int rd_unique_bytes(struct rd_pool *pool, i64 volume, struct rd_unique *versions, size_t nr)
{
	struct estimate estimate = { .pool = pool, .versions = versions, .nr_versions = nr };
	int r;

	r = rd_sql_look(pool->sql, count(&estimate, rd_sole_recipes(pool->sql, volume,
								    &estimate.dying)));
	free_estimate(&estimate);
	return r;
}
