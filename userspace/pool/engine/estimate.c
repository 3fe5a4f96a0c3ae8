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
 * free_packs.h) and becomes smaller, presumably in proportion.
 *
 * What older versions give up when another one becomes the newest is not counted.
 *
 * The same for each version of a volume, as if it alone were deleted: a recipe then dies
 * with one version, and lives for all others.
 */
#include <errno.h>

#include "base/buffer.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/sole.h"
#include "engine.h"

#define NO_ROOT		RD_SEG_BLOCKS
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

/* Which blocks of the root each of the entries of @recipe leads to. */
struct branch {
	i64 recipe;
	u16 root[RD_SEG_BLOCKS];
};

struct estimate {
	struct rd_pool *pool;
	struct rd_buffer dying;		/* struct rd_sole each, in the order of recipes */
	i64 number;			/* only those that die with this version die */
	u64 blocks;			/* of ordinary frames that would be free */
	struct rd_buffer losses;	/* struct loss each */
	size_t many_losses;		/* add up when there are as many */
	struct rd_buffer branches;	/* to be followed */
	bool wanted[RD_SEG_BLOCKS];	/* blocks of the root */
};

/* --- who dies */

static int compare_recipes(const void *a, const void *b)
{
	const struct rd_sole *x = a, *y = b;

	return x->recipe < y->recipe ? -1 : x->recipe > y->recipe;
}

static bool dies(const struct estimate *estimate, i64 recipe)
{
	const struct rd_buffer *dying = &estimate->dying;
	const struct rd_sole wanted = { .recipe = recipe }, *sole;

	sole = bsearch(&wanted, dying->data, dying->len / sizeof(*sole), sizeof(*sole),
		       compare_recipes);
	return sole && sole->number == estimate->number;
}

/* --- what is wanted of a root */

/* Which block of the root does @place, an entry of a source, lead to? NO_ROOT: to none. */
static u16 root_of(const struct branch *branch, rd_place place)
{
	if (rd_place_kind(place) != RD_REF || rd_place_id(place) != (u64)branch->recipe)
		return NO_ROOT;
	return branch->root[rd_place_slot(place)];
}

/* What a source that lives refers to stays; one that dies is followed in turn. */
static int follow(struct estimate *estimate, const struct branch *branch, i64 source)
{
	bool lives = !dies(estimate, source), any = false;
	struct rd_recipe recipe;
	struct branch next;
	unsigned int i;
	u16 root;
	int r;

	r = rd_recipe_load(estimate->pool->sql, source, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	next.recipe = source;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		root = root_of(branch, recipe.map.at[i]);
		next.root[i] = root;
		if (root == NO_ROOT)
			continue;
		any = true;
		estimate->wanted[root] |= lives;
	}
	if (any && !lives)
		rd_buffer_put(&estimate->branches, &next, sizeof(next));
	return estimate->branches.failed ? -ENOMEM : 0;
}

static int follow_all(struct estimate *estimate, const struct branch *branch)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 source;
	int r;

	r = rd_recipe_sources(estimate->pool->sql, &rows, branch->recipe);
	while (!r && (r = rd_next_id(rows, &source)) > 0)
		r = follow(estimate, branch, source);
	return r;
}

/* --- what packs lose */

static int compare_losses(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Sort losses by version and frame, and add up those of the same. Return how many are left. */
static size_t add_up_losses(struct rd_buffer *losses)
{
	struct loss *list = (struct loss *)losses->data;
	size_t i, nr = losses->len / sizeof(*list), kept = 0;

	if (nr)
		qsort(list, nr, sizeof(*list), compare_losses);
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
	rd_buffer_put(losses, &loss, sizeof(loss));
	return losses->failed ? -ENOMEM : 0;
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
		r = rd_pack_live(estimate->pool->sql, loss->frame, &live);
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

/* Blocks of @map that are OWN and not wanted by others are free then. */
static int note_free(struct estimate *estimate, const struct rd_map *map)
{
	u64 frame = 0, blocks = 0;
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		rd_place place = map->at[i];

		if (rd_place_kind(place) != RD_OWN || estimate->wanted[i])
			continue;
		if (!rd_frame_is_packed(rd_place_id(place))) {
			estimate->blocks++;
			continue;
		}
		if (blocks && rd_place_id(place) != frame) {
			r = note_loss(estimate, frame, blocks);
			blocks = 0;
		}
		frame = rd_place_id(place);
		blocks++;
	}
	return r || !blocks ? r : note_loss(estimate, frame, blocks);
}

static int add_root(struct estimate *estimate, i64 id)
{
	struct rd_buffer *branches = &estimate->branches;
	struct rd_recipe recipe;
	struct branch branch;
	unsigned int i, nr = 0;
	int r;

	r = rd_recipe_load(estimate->pool->sql, id, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	branch.recipe = id;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		bool is_here = rd_place_kind(recipe.map.at[i]) == RD_OWN;

		branch.root[i] = is_here ? i : NO_ROOT;
		nr += is_here;
	}
	/* Newer versions may have all of it. */
	if (!nr)
		return 0;
	memset(estimate->wanted, 0, sizeof(estimate->wanted));
	branches->len = 0;
	rd_buffer_put(branches, &branch, sizeof(branch));
	r = branches->failed ? -ENOMEM : 0;
	while (!r && branches->len) {
		branches->len -= sizeof(branch);
		memcpy(&branch, branches->data + branches->len, sizeof(branch));
		r = follow_all(estimate, &branch);
	}
	return r ? r : note_free(estimate, &recipe.map);
}

/* --- some versions together */

/* For those that die together the number is 0. */
static int find_dying(struct estimate *estimate, const i64 *ids, size_t nr_ids)
{
	struct rd_buffer recipes = { 0 };
	size_t i;
	int r;

	r = rd_segments_dying(estimate->pool->sql, ids, nr_ids, &recipes);
	for (i = 0; i < recipes.len / sizeof(i64) && !r; i++) {
		struct rd_sole sole = { .recipe = ((const i64 *)recipes.data)[i] };

		rd_buffer_put(&estimate->dying, &sole, sizeof(sole));
		r = estimate->dying.failed ? -ENOMEM : 0;
	}
	rd_buffer_free(&recipes);
	return r;
}

static int add_losses(struct estimate *estimate)
{
	size_t i, nr = add_up_losses(&estimate->losses);
	const struct loss *losses = (const struct loss *)estimate->losses.data;
	u64 blocks;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = freed_by(estimate, &losses[i], &blocks);
		estimate->blocks += blocks;
	}
	return r;
}

static int count(struct estimate *estimate)
{
	const struct rd_sole *sole = (const struct rd_sole *)estimate->dying.data;
	size_t i, nr = estimate->dying.len / sizeof(*sole);
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = add_root(estimate, sole[i].recipe);
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate", i * RD_SEG_SIZE,
					     nr * RD_SEG_SIZE);
	}
	return r ? r : add_losses(estimate);
}

static void free_estimate(struct estimate *estimate)
{
	rd_buffer_free(&estimate->dying);
	rd_buffer_free(&estimate->losses);
	rd_buffer_free(&estimate->branches);
}

int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes)
{
	struct estimate estimate = { .pool = pool };
	int r;

	r = rd_sql_begin_read(pool->sql);
	if (r)
		return r;
	r = find_dying(&estimate, ids, nr);
	if (!r)
		r = count(&estimate);
	rd_sql_end_read(pool->sql);
	free_estimate(&estimate);
	*ret_bytes = estimate.blocks * RD_BLOCK_SIZE;
	return r;
}

/* --- each version alone */

static int compare_numbers(const void *a, const void *b)
{
	const struct rd_unique *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static struct rd_unique *find_version(struct rd_unique *versions, size_t nr, i64 number)
{
	const struct rd_unique wanted = { .number = number };

	return bsearch(&wanted, versions, nr, sizeof(*versions), compare_numbers);
}

/* Only versions that are wanted have losses. */
static int add_losses_of_each(struct estimate *estimate, struct rd_unique *versions, size_t nr)
{
	size_t i, nr_losses = add_up_losses(&estimate->losses);
	const struct loss *losses = (const struct loss *)estimate->losses.data;
	u64 blocks;
	int r = 0;

	for (i = 0; i < nr_losses && !r; i++) {
		r = freed_by(estimate, &losses[i], &blocks);
		find_version(versions, nr, losses[i].number)->bytes += blocks * RD_BLOCK_SIZE;
	}
	return r;
}

static int count_each(struct estimate *estimate, struct rd_unique *versions, size_t nr)
{
	const struct rd_sole *sole = (const struct rd_sole *)estimate->dying.data;
	size_t i, nr_sole = estimate->dying.len / sizeof(*sole);
	struct rd_unique *version;
	int r = 0;

	for (i = 0; i < nr_sole && !r; i++) {
		version = find_version(versions, nr, sole[i].number);
		if (!version)
			continue;
		estimate->blocks = 0;
		estimate->number = sole[i].number;
		r = add_root(estimate, sole[i].recipe);
		version->bytes += estimate->blocks * RD_BLOCK_SIZE;
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate", i * RD_SEG_SIZE,
					     nr_sole * RD_SEG_SIZE);
	}
	return r ? r : add_losses_of_each(estimate, versions, nr);
}

int rd_unique_bytes(struct rd_pool *pool, i64 volume, struct rd_unique *versions, size_t nr)
{
	struct estimate estimate = { .pool = pool };
	int r;

	r = rd_sql_begin_read(pool->sql);
	if (r)
		return r;
	r = rd_sole_recipes(pool->sql, volume, &estimate.dying);
	if (!r)
		r = count_each(&estimate, versions, nr);
	rd_sql_end_read(pool->sql);
	free_estimate(&estimate);
	return r;
}
