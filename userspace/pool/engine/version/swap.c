// SPDX-License-Identifier: GPL-2.0
/*
 * Let newest recipes take the places that they refer to.
 *
 *	before	newest R: REF O, REF O, own		after	R: own, own, own
 *		O, superseded: own, own, own			O: REF R, REF R, own
 *
 * A snapshot stores of a changed segment only what changed, and refers to the recipe of the
 * version before for the rest. When no newest version names that one any more, the two change
 * roles in the catalog: no data moves, what was written once passes from newest version to
 * newest version, and an old one refers to the newest as ever.
 *
 * A transaction changes some recipes, and is done for good. After a crash the rest is still in
 * the table superseded, and newest recipes refer to it, which reads right.
 */
#include "base/inject.h"
#include "pool/catalog/recipes.h"
#include "reverse_parts.h"

#define BATCH	512		/* pairs a transaction; each changes two maps */

struct pair {
	i64 newest, old;
};

static int find_pairs(struct rd_sql *sql, i64 volume, i64 first, struct pair *pairs,
		      unsigned int *ret_nr)
{
	RD_ROW struct rd_row *rows = NULL;
	unsigned int nr = 0;
	int r;

	r = rd_superseded_sources(sql, &rows, volume, first, BATCH);
	while (!r && (r = rd_next_source(rows, &pairs[nr].old, &pairs[nr].newest)) > 0) {
		nr++;
		r = 0;
	}
	*ret_nr = nr;
	return r;
}

/* Recipes before *@first are done. */
static int swap_some(struct rd_sql *sql, i64 volume, i64 *first, unsigned int *ret_nr)
{
	struct pair pairs[BATCH];
	unsigned int i;
	int r;

	/* The rows are read before any is changed. */
	r = find_pairs(sql, volume, *first, pairs, ret_nr);
	for (i = 0; i < *ret_nr && !r; i++) {
		r = rd_recipe_adopt(sql, pairs[i].newest, pairs[i].old);
		*first = pairs[i].old;
	}
	return r;
}

int rd_swap_superseded(struct rd_pool *pool, i64 volume)
{
	unsigned int nr = BATCH;
	i64 first = 0;
	int r = 0;

	while (!r && nr) {
		r = rd_failpoint("swap");
		if (!r)
			r = rd_catalog_do(pool->sql, swap_some(pool->sql, volume, &first, &nr));
		if (!r && nr)
			rd_sql_pause();
	}
	return r;
}
