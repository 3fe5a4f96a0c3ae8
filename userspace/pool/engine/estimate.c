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
 * What older versions give up when another one becomes the newest is not counted.
 *
 * The same for each version of a volume, as if it alone were deleted: a recipe then dies
 * with one version, and lives for all others.
 */
#include <errno.h>

#include "base/buffer.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/sole.h"
#include "engine.h"

#define NO_ROOT		RD_SEG_BLOCKS

/* Which blocks of the root each of the entries of @recipe leads to. */
struct branch {
	i64 recipe;
	u16 root[RD_SEG_BLOCKS];
};

struct estimate {
	struct rd_pool *pool;
	struct rd_buffer dying;		/* struct rd_sole each, in the order of recipes */
	i64 number;			/* only those that die with this version die */
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

static int add_root(struct estimate *estimate, i64 id, u64 *blocks)
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
	*blocks += nr;
	memset(estimate->wanted, 0, sizeof(estimate->wanted));
	branches->len = 0;
	rd_buffer_put(branches, &branch, sizeof(branch));
	r = branches->failed ? -ENOMEM : 0;
	while (!r && branches->len) {
		branches->len -= sizeof(branch);
		memcpy(&branch, branches->data + branches->len, sizeof(branch));
		r = follow_all(estimate, &branch);
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		*blocks -= estimate->wanted[i];
	return r;
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

static int count(struct estimate *estimate, u64 *blocks)
{
	const struct rd_sole *sole = (const struct rd_sole *)estimate->dying.data;
	size_t i, nr = estimate->dying.len / sizeof(*sole);
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		r = add_root(estimate, sole[i].recipe, blocks);
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate", i * RD_SEG_SIZE,
					     nr * RD_SEG_SIZE);
	}
	return r;
}

static void free_estimate(struct estimate *estimate)
{
	rd_buffer_free(&estimate->dying);
	rd_buffer_free(&estimate->branches);
}

int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes)
{
	struct estimate estimate = { .pool = pool };
	u64 blocks = 0;
	int r;

	r = rd_sql_begin_read(pool->sql);
	if (r)
		return r;
	r = find_dying(&estimate, ids, nr);
	if (!r)
		r = count(&estimate, &blocks);
	rd_sql_end_read(pool->sql);
	free_estimate(&estimate);
	*ret_bytes = blocks * RD_BLOCK_SIZE;
	return r;
}

/* --- each version alone */

static int compare_numbers(const void *a, const void *b)
{
	const struct rd_unique *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int count_each(struct estimate *estimate, struct rd_unique *versions, size_t nr)
{
	const struct rd_sole *sole = (const struct rd_sole *)estimate->dying.data;
	size_t i, nr_sole = estimate->dying.len / sizeof(*sole);
	struct rd_unique wanted, *version;
	u64 blocks;
	int r = 0;

	for (i = 0; i < nr_sole && !r; i++) {
		wanted.number = sole[i].number;
		version = bsearch(&wanted, versions, nr, sizeof(*versions), compare_numbers);
		if (!version)
			continue;
		blocks = 0;
		estimate->number = sole[i].number;
		r = add_root(estimate, sole[i].recipe, &blocks);
		version->bytes += blocks * RD_BLOCK_SIZE;
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate", i * RD_SEG_SIZE,
					     nr_sole * RD_SEG_SIZE);
	}
	return r;
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
