// SPDX-License-Identifier: GPL-2.0
/* Let old recipes refer to what is to stay: see pass.h. It reads nothing but the catalog. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pass_parts.h"

/*
 * Of a transaction. For each of them the sources of a keeper are counted, up to RD_PASS_SOURCES,
 * while others wait for the catalog.
 */
#define RECIPES		128

struct change {
	struct rd_pass *pass;
	struct rd_sql *sql;
	struct rd_recipe source;
	struct rd_map map;	/* as it will be */
	/* The recipe of the last keeper; id 0: none. */
	struct rd_recipe keeper;
	bool has_room;		/* one more may refer to it */
};

/* --- the keeper */

static int has_room(struct change *change, bool *ret)
{
	unsigned int nr;
	bool has;
	int r;

	*ret = true;
	if (change->keeper.id == change->source.id)
		return 0;
	r = rd_recipe_count_sources(change->sql, change->keeper.id, change->source.id,
				    RD_PASS_SOURCES, &nr, &has);
	*ret = has || nr < RD_PASS_SOURCES;
	return r;
}

/* Load the recipe of the keeper; its id is 0 where it has gone. */
static int load_keeper(struct change *change, i64 id)
{
	int r;

	if (change->keeper.id == id)
		return 0;
	r = rd_recipe_load(change->sql, id, &change->keeper);
	if (!r)
		return has_room(change, &change->has_room);
	change->keeper.id = 0;
	return r == -ENOENT || r == -EUCLEAN ? 0 : r;
}

/* Is the keeper what was proven, where it was read? A recipe may have its own keepers. */
static bool is_there(const struct change *change, const struct rd_pass_choice *choice)
{
	const struct rd_map *map = change->keeper.id == change->source.id ?
		&change->map : &change->keeper.map;

	return change->keeper.id && rd_seg_fp_equal(&change->keeper.fp, &choice->kept) &&
		map->at[rd_block_number(choice->twin.keeper)] == choice->keeper.at;
}

/* *@ret: the block may refer to the keeper. */
static int check(struct change *change, const struct rd_pass_choice *choice, bool *ret)
{
	rd_place was = change->map.at[rd_block_number(choice->twin.block)];
	struct rd_pass_report *report = change->pass->report;
	int r;

	*ret = false;
	r = load_keeper(change, rd_block_recipe(choice->twin.keeper));
	if (r)
		return r;
	if (!choice->keeper.at || rd_place_kind(was) != RD_OWN || was == choice->keeper.at ||
	    !is_there(change, choice))
		report->refused++;
	else if (!choice->keeper.is_sound)
		report->damaged++;
	else if (!change->has_room)
		report->capped++;
	else
		*ret = true;
	return 0;
}

/* --- the source */

/* Load it, if it is old, and what was proven: *@ret. */
static int load_source(struct change *change, const struct rd_pass_choice *choice, bool *ret)
{
	i64 id = rd_block_recipe(choice->twin.block);
	int r;

	r = rd_recipe_is_old(change->sql, id, ret);
	if (!r && *ret)
		r = rd_recipe_load(change->sql, id, &change->source);
	if (!r && *ret)
		*ret = rd_seg_fp_equal(&change->source.fp, &choice->source);
	if (r == -ENOENT || r == -EUCLEAN) {
		*ret = false;
		r = 0;
	}
	return r;
}

/* Change the map of one recipe, which @nr choices are about. */
static int change_source(struct change *change, const struct rd_pass_choice *choices,
			 unsigned int nr)
{
	struct rd_pass_report *report = change->pass->report;
	unsigned int i, given_up = 0, nr_short = 0;
	bool good;
	int r;

	change->keeper.id = 0;
	r = load_source(change, choices, &good);
	if (r || !good) {
		report->refused += nr;
		return r ? r : rd_pass_leave(change->pass, rd_block_recipe(choices->twin.block));
	}
	change->map = change->source.map;
	for (i = 0; i < nr && !r; i++) {
		if (choices[i].is_short) {
			report->short_runs++;
			nr_short++;
			continue;
		}
		r = check(change, &choices[i], &good);
		if (r || !good)
			continue;
		change->map.at[rd_block_number(choices[i].twin.block)] =
			rd_place_make(RD_REF, rd_block_recipe(choices[i].twin.keeper),
				      rd_block_number(choices[i].twin.keeper));
		given_up++;
	}
	if (!r && given_up + nr_short < nr)
		r = rd_pass_leave(change->pass, change->source.id);
	if (r || !given_up)
		return r;
	report->changed++;
	report->given_up += given_up;
	change->pass->waiting += given_up;
	return rd_recipe_change(change->sql, &change->source, change->source.frame, &change->map);
}

static int change_some(struct change *change, unsigned int *next)
{
	const struct rd_pass_choice *choices = change->pass->choices;
	unsigned int nr, recipes;
	int r = 0;

	for (recipes = 0; recipes < RECIPES && *next < change->pass->nr && !r; recipes++) {
		nr = 1;
		while (*next + nr < change->pass->nr &&
		       rd_block_recipe(choices[*next + nr].twin.block) ==
		       rd_block_recipe(choices[*next].twin.block))
			nr++;
		r = change_source(change, &choices[*next], nr);
		*next += nr;
	}
	return r;
}

/* --- */

/* One transaction, from the choice *@next on. */
static int change_in(struct change *change, unsigned int *next)
{
	struct rd_pass_report before = *change->pass->report;
	int r = rd_failpoint("pass-change");

	if (!r)
		r = rd_catalog_do(change->sql, change_some(change, next));
	/* What was rolled back was not done. */
	if (r)
		*change->pass->report = before;
	return r;
}

int rd_pass_change(struct rd_pass *pass)
{
	RD_FREE struct change *change = calloc(1, sizeof(*change));
	unsigned int next = 0;
	int r = 0;

	if (!change)
		return -ENOMEM;
	change->pass = pass;
	change->sql = pass->pool->sql;
	while (!r && next < pass->nr) {
		r = change_in(change, &next);
		if (!r && next < pass->nr)
			rd_sql_pause();
	}
	return r;
}
