// SPDX-License-Identifier: GPL-2.0
/* Prove what is to stay, and let superseded recipes refer to it: steps 3 and 4 of reverse.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inject.h"
#include "base/sort.h"
#include "pool/catalog/recipes.h"
#include "reverse_parts.h"

#define CHANGES		1024		/* recipes a transaction: they have longer maps */

/* --- proving */

static int compare_here(const void *a, const void *b, void *ctx)
{
	const struct rd_reverse_wanted *wanted = ctx;

	return rd_order(wanted[*(const u32 *)a].here, wanted[*(const u32 *)b].here);
}

/*
 * List in rev->heads, as the table is not used any more, the blocks for which something was found
 * that this command has not written, in the order of where that is.
 */
static unsigned int list_unproven(struct rd_reverse *rev)
{
	const struct rd_reverse_wanted *wanted;
	unsigned int nr = 0, i;

	for (i = 0; i < rev->nr_wanted; i++) {
		wanted = &rev->wanted[i];
		if (wanted->at && !(rev->written &&
				    rd_written_has(rev->written, rd_place_id(wanted->here))))
			rev->heads[nr++] = i;
	}
	qsort_r(rev->heads, nr, sizeof(*rev->heads), compare_here, rev->wanted);
	return nr;
}

/* Is it @keeper that was found for the block? */
static bool is_for(const struct rd_keeper *keeper, const struct rd_reverse_wanted *wanted)
{
	return keeper->at == wanted->here && rd_fp_equal(&keeper->fp, &wanted->fp);
}

/* Prove what was found for the blocks @list, from the first one on; *@ret_nr: for so many. */
static int prove_some(struct rd_reverse *rev, const u32 *list, unsigned int nr,
		      unsigned int *ret_nr)
{
	struct rd_keeper keepers[RD_KEEPERS], *by_place[RD_KEEPERS];
	struct rd_pace pace = { .rate = 0 };
	unsigned int i, nr_keepers = 0, k = 0;
	struct rd_reverse_wanted *wanted;
	int r;

	for (i = 0; i < nr; i++) {
		wanted = &rev->wanted[list[i]];
		if (nr_keepers && is_for(&keepers[nr_keepers - 1], wanted))
			continue;
		if (nr_keepers == RD_KEEPERS)
			break;
		by_place[nr_keepers] = &keepers[nr_keepers];
		keepers[nr_keepers++] = (struct rd_keeper){ .at = wanted->here, .fp = wanted->fp };
	}
	*ret_nr = i;
	r = rd_keepers_read(rev->keepers, by_place, nr_keepers, &pace);
	if (r)
		return r;
	for (i = 0; i < *ret_nr; i++) {
		wanted = &rev->wanted[list[i]];
		if (!is_for(&keepers[k], wanted))
			k++;
		if (!keepers[k].is_sound)
			wanted->at = 0;
	}
	for (k = 0; k < nr_keepers; k++)
		rev->damaged += !keepers[k].is_sound;
	return 0;
}

static int prove_all(struct rd_reverse *rev)
{
	unsigned int all = list_unproven(rev), first, nr;
	u64 size = rev->newest.size;
	int r = all ? rd_failpoint("reverse-prove") : 0;

	for (first = 0; first < all && !r; first += nr) {
		r = prove_some(rev, rev->heads + first, all - first, &nr);
		if (!r)
			r = rd_pool_progress(rev->pool, "reverse", size, size);
	}
	return r;
}

/* --- changing */

struct checked {
	i64 id;
	bool usable;
	struct rd_map map;
};

/* Is the target still what it was? @checked: the recipe that was loaded last. */
static int check_target(struct rd_sql *sql, const struct rd_reverse_wanted *wanted,
			struct checked *checked, bool *ret_good)
{
	i64 id = rd_place_id(wanted->at);
	struct rd_recipe recipe;
	u64 refs;
	int r;

	if (checked->id != id) {
		checked->id = id;
		checked->usable = false;
		r = rd_recipe_latest_refs(sql, id, &refs);
		if (!r && refs) {
			r = rd_recipe_load(sql, id, &recipe);
			checked->map = recipe.map;
			checked->usable = !r;
		}
		if (r && r != -ENOENT)
			return r;
	}
	*ret_good = checked->usable &&
		checked->map.at[rd_place_slot(wanted->at)] == wanted->here;
	return 0;
}

/* Are both the same block, and is it the one that was wanted? */
static bool is_same_content(struct rd_reverse *rev, const struct rd_reverse_wanted *wanted)
{
	struct rd_fp was = rd_reverse_fp_at(rev, wanted->was);
	struct rd_fp here = rd_reverse_fp_at(rev, wanted->here);

	return rd_fp_equal(&was, &wanted->fp) && rd_fp_equal(&here, &wanted->fp);
}

/*
 * Compute what @now, as it is now, becomes. *@ret_all: each block that it has was looked
 * for, and what was found for it is still there.
 */
static int change_map(struct rd_reverse *rev, const struct rd_reverse_work *work,
		      struct checked *checked, const struct rd_map *now, struct rd_map *map,
		      bool *ret_all)
{
	const struct rd_reverse_wanted *wanted = &rev->wanted[work->first];
	const struct rd_reverse_wanted *end = wanted + work->nr;
	unsigned int i;
	bool good;
	int r = 0;

	*map = *now;
	*ret_all = true;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (rd_place_kind(now->at[i]) != RD_OWN)
			continue;
		while (wanted < end && wanted->slot < i)
			wanted++;
		good = wanted < end && wanted->slot == i && wanted->was == now->at[i];
		if (good && wanted->at) {
			r = check_target(rev->pool->sql, wanted, checked, &good);
			good = !r && good && is_same_content(rev, wanted);
			if (good)
				map->at[i] = wanted->at;
		}
		*ret_all &= good;
	}
	return r;
}

/* Change a recipe. *@ret_done: nothing of it is left to be done. */
static int change_recipe(struct rd_reverse *rev, const struct rd_reverse_work *work,
			 struct checked *checked, bool *ret_done)
{
	struct rd_sql *sql = rev->pool->sql;
	struct rd_recipe now;
	struct rd_map map;
	u64 refs;
	int r;

	*ret_done = true;
	r = rd_recipe_latest_refs(sql, work->id, &refs);
	if (r || refs)
		return r == -ENOENT ? 0 : r;
	r = rd_recipe_load(sql, work->id, &now);
	if (r)
		return r;
	if (!rd_seg_fp_equal(&now.fp, &work->fp)) {
		*ret_done = false;
		return 0;
	}
	r = change_map(rev, work, checked, &now.map, &map, ret_done);
	if (r || !memcmp(&map, &now.map, sizeof(map)))
		return r;
	return rd_recipe_change(sql, &now, now.frame, &map);
}

/* Change the recipes from @first on that fit in a transaction. */
static int change_some(struct rd_reverse *rev, unsigned int first)
{
	struct rd_sql *sql = rev->pool->sql;
	unsigned int i, end = rd_min(first + CHANGES, rev->nr_works);
	struct checked checked = { .id = 0 };
	bool done;
	int r;

	r = rd_failpoint("reverse-change");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	rd_reverse_forget_fps(rev);
	for (i = first; i < end && !r; i++) {
		r = change_recipe(rev, &rev->works[i], &checked, &done);
		if (!r && done)
			r = rd_superseded_remove(sql, rev->works[i].id);
	}
	return rd_catalog_end(sql, r);
}

static int change_all(struct rd_reverse *rev)
{
	u64 size = rev->newest.size;
	unsigned int first;
	int r = 0;

	for (first = 0; first < rev->nr_works && !r; first += CHANGES) {
		r = change_some(rev, first);
		if (!r)
			r = rd_pool_progress(rev->pool, "reverse", size, size);
		if (!r && first + CHANGES < rev->nr_works)
			rd_sql_pause();
	}
	return r;
}

int rd_reverse_change(struct rd_reverse *rev)
{
	int r = prove_all(rev);

	return r ? r : change_all(rev);
}
