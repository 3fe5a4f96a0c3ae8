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
 */
#include <errno.h>

#include "base/buffer.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "engine.h"

#define NO_ROOT		RD_SEG_BLOCKS

/* Which blocks of the root each of the entries of @recipe leads to. */
struct branch {
	i64 recipe;
	u16 root[RD_SEG_BLOCKS];
};

struct estimate {
	struct rd_pool *pool;
	struct rd_buffer dying;		/* i64 each, in order */
	struct rd_buffer branches;	/* to be followed */
	bool wanted[RD_SEG_BLOCKS];	/* blocks of the root */
};

/* --- who dies */

static int compare_ids(const void *a, const void *b)
{
	i64 x = *(const i64 *)a, y = *(const i64 *)b;

	return x < y ? -1 : x > y;
}

static bool dies(const struct estimate *estimate, i64 recipe)
{
	const struct rd_buffer *dying = &estimate->dying;

	return bsearch(&recipe, dying->data, dying->len / sizeof(i64), sizeof(i64),
		       compare_ids);
}

/* --- what is wanted of a root */

static int follow(struct estimate *estimate, const struct branch *branch, i64 source)
{
	struct branch next = { .recipe = source };
	bool lives = !dies(estimate, source), any = false;
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	r = rd_recipe_load(estimate->pool->sql, source, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe.map.at[i];

		next.root[i] = NO_ROOT;
		if (rd_place_kind(place) == RD_REF && rd_place_id(place) == (u64)branch->recipe)
			next.root[i] = branch->root[rd_place_slot(place)];
		if (next.root[i] == NO_ROOT)
			continue;
		any = true;
		estimate->wanted[next.root[i]] |= lives;
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
	struct branch branch = { .recipe = id };
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	r = rd_recipe_load(estimate->pool->sql, id, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		bool is_here = rd_place_kind(recipe.map.at[i]) == RD_OWN;

		branch.root[i] = is_here ? i : NO_ROOT;
		*blocks += is_here;
	}
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

/* --- */

static int count(struct estimate *estimate, const i64 *ids, size_t nr_ids, u64 *blocks)
{
	size_t i, nr;
	int r;

	r = rd_segments_dying(estimate->pool->sql, ids, nr_ids, &estimate->dying);
	nr = estimate->dying.len / sizeof(i64);
	for (i = 0; i < nr && !r; i++) {
		r = add_root(estimate, ((const i64 *)estimate->dying.data)[i], blocks);
		if (!r)
			r = rd_pool_progress(estimate->pool, "estimate", i * RD_SEG_SIZE,
					     nr * RD_SEG_SIZE);
	}
	return r;
}

int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes)
{
	struct estimate estimate = { .pool = pool };
	u64 blocks = 0;
	int r;

	r = rd_sql_begin_read(pool->sql);
	if (r)
		return r;
	r = count(&estimate, ids, nr, &blocks);
	rd_sql_end_read(pool->sql);
	rd_buffer_free(&estimate.dying);
	rd_buffer_free(&estimate.branches);
	*ret_bytes = blocks * RD_BLOCK_SIZE;
	return r;
}
