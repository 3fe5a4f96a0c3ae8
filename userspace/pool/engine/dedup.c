// SPDX-License-Identifier: GPL-2.0
/* The pass over the whole pool: see dedup.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/pace.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "blocks.h"
#include "dedup.h"
#include "engine.h"

/* Blocks of a batch: of homes that are read together, and of what one transaction changes. */
#define BATCH		1024
/* Blocks that are given up before they are given back. */
#define FREE_AFTER	((64U << 20) / RD_BLOCK_SIZE)

const unsigned int rd_dedup_pieces[RD_DEDUP_PIECES] = { 8, 64, 512 };

/* A block that is to be given up. */
struct choice {
	struct rd_twin twin;
	rd_place at;		/* of the home, when it was read */
	struct rd_fp fp;	/* of what was read; zeros: it is not to be used */
};

struct dedup {
	struct rd_pool *pool;
	const struct rd_dedup_options *options;
	struct rd_dedup_report *report;
	struct rd_pace pace;
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	u8 *data;		/* a block a choice */
	unsigned int nr;
	struct choice choices[BATCH];
	struct choice *by_place[BATCH];
	u64 waiting;		/* blocks that were given up, and not given back */
	/* Of the transaction: what was looked at last. */
	u64 frame;
	struct rd_fp fps[RD_SEG_BLOCKS];
	i64 capped;		/* a home with as many sources as there may be */
};

static i64 recipe_of(rd_block_id block)
{
	return block >> 9;
}

static unsigned int slot_of(rd_block_id block)
{
	return block % RD_SEG_BLOCKS;
}

/* --- choosing */

/* How many of the twins from @first on are in a row at both ends? */
static unsigned int run_of(const struct rd_twin *twins, unsigned int first, unsigned int nr)
{
	unsigned int i = first + 1;

	while (i < nr && twins[i].block == twins[i - 1].block + 1 &&
	       twins[i].home == twins[i - 1].home + 1 &&
	       recipe_of(twins[i].home) == recipe_of(twins[first].home))
		i++;
	return i - first;
}

static void choose(struct dedup *dedup, const struct rd_twin *twins, unsigned int nr)
{
	unsigned int i, run;

	for (i = 0; i < nr; i += run) {
		run = run_of(twins, i, nr);
		if (run < dedup->options->least_run) {
			dedup->report->short_runs += run;
			continue;
		}
		for (; run; run--, i++)
			dedup->choices[dedup->nr++] = (struct choice){ .twin = twins[i] };
	}
}

/* Was the recipe replaced long enough ago? *@ret_newest: a newest version has it. */
static int look_at(struct dedup *dedup, i64 id, bool *ret, bool *ret_newest)
{
	struct rd_sql *sql = dedup->pool->sql;
	unsigned int newer = 0;
	u64 latest = 0;
	int r = rd_sql_begin_read(sql);

	if (r)
		return r;
	r = rd_recipe_latest_refs(sql, id, &latest);
	if (!r && !latest)
		r = rd_recipe_newer(sql, id, dedup->options->older, &newer);
	rd_sql_end_read(sql);
	*ret_newest = latest;
	*ret = !r && !latest && newer >= dedup->options->older;
	/* It has gone meanwhile. */
	return r == -ENOENT ? 0 : r;
}

/* --- reading what is to stay */

/* Where are the homes? Those that are not OWN any more, or have gone, are not used. */
static int find_places(struct dedup *dedup)
{
	struct rd_sql *sql = dedup->pool->sql;
	struct rd_recipe recipe = { .id = 0 };
	unsigned int i;
	int r = rd_sql_begin_read(sql);

	for (i = 0; i < dedup->nr && !r; i++) {
		struct choice *choice = &dedup->choices[i];
		i64 id = recipe_of(choice->twin.home);
		rd_place place;

		if (recipe.id != id) {
			r = rd_recipe_load(sql, id, &recipe);
			recipe.id = r ? 0 : id;
			if (r == -ENOENT || r == -EUCLEAN) {
				r = 0;
				continue;
			}
		}
		place = recipe.map.at[slot_of(choice->twin.home)];
		choice->at = !r && rd_place_kind(place) == RD_OWN ? place : 0;
	}
	rd_sql_end_read(sql);
	return r;
}

static int compare_places(const void *a, const void *b)
{
	const struct choice *x = *(struct choice *const *)a, *y = *(struct choice *const *)b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_raw(const struct rd_area *area, rd_place place)
{
	return !rd_frame_is_packed(rd_place_id(place)) &&
		rd_area_has_frame(area, rd_place_id(place));
}

/* Read the blocks from by_place[@first] on that are in a row. Returns how many there are. */
static unsigned int read_run(struct dedup *dedup, unsigned int first)
{
	struct choice **choices = &dedup->by_place[first];
	const struct rd_area *area = &dedup->pool->area;
	u8 *to = dedup->data + (size_t)first * RD_BLOCK_SIZE;
	unsigned int nr = 1;

	if (is_raw(area, choices[0]->at)) {
		while (first + nr < dedup->nr && choices[nr]->at == choices[nr - 1]->at + 1 &&
		       rd_place_slot(choices[nr]->at))
			nr++;
		if (!rd_area_read(area, to, (size_t)nr * RD_BLOCK_SIZE,
				  rd_place_offset(choices[0]->at)))
			return nr;
	}
	/* A block that cannot be read takes no other with it. */
	if (rd_blocks_read(dedup->blocks, choices[0]->at, to))
		memset(to, 0, RD_BLOCK_SIZE);
	return 1;
}

/* What is read is zeros where a home cannot be read or has gone: no block has such a hash. */
static int read_homes(struct dedup *dedup)
{
	unsigned int i, nr;
	int r;

	r = find_places(dedup);
	if (r)
		return r;
	rd_blocks_forget(dedup->blocks);
	for (i = 0; i < dedup->nr; i++)
		dedup->by_place[i] = &dedup->choices[i];
	qsort(dedup->by_place, dedup->nr, sizeof(*dedup->by_place), compare_places);
	for (i = 0; i < dedup->nr && !r; i += nr) {
		u8 *to = dedup->data + (size_t)i * RD_BLOCK_SIZE;

		nr = 1;
		if (dedup->by_place[i]->at)
			nr = read_run(dedup, i);
		else
			memset(to, 0, RD_BLOCK_SIZE);
		rd_pace(&dedup->pace, (u64)nr * RD_BLOCK_SIZE);
	}
	for (i = 0; i < dedup->nr; i++)
		rd_fp_blocks(dedup->hasher, dedup->data + (size_t)i * RD_BLOCK_SIZE, 1,
			     &dedup->by_place[i]->fp);
	return r;
}

/* --- changing */

static const struct rd_fp *fp_at(struct dedup *dedup, rd_place place)
{
	if (dedup->frame != rd_place_id(place)) {
		dedup->frame = rd_place_id(place);
		rd_area_get_fps(&dedup->pool->area, dedup->frame, 1, dedup->fps);
	}
	return &dedup->fps[rd_place_slot(place)];
}

/* May one more recipe refer to @home? */
static int has_room(struct dedup *dedup, i64 home, i64 source, bool *ret)
{
	unsigned int nr;
	bool has;
	int r = 0;

	*ret = dedup->capped != home;
	if (!*ret)
		return 0;
	r = rd_recipe_count_sources(dedup->pool->sql, home, source, RD_DEDUP_SOURCES, &nr, &has);
	*ret = !r && (has || nr < RD_DEDUP_SOURCES);
	if (!*ret)
		dedup->capped = home;
	return r;
}

/*
 * Is what was found still so? The home is where its content was read, and the block that is
 * given up has the fingerprint of that content. @home: the recipe that was loaded last.
 */
static int check_choice(struct dedup *dedup, const struct choice *choice,
			const struct rd_recipe *source, struct rd_recipe *home, bool *ret)
{
	i64 id = recipe_of(choice->twin.home);
	rd_place was = source->map.at[slot_of(choice->twin.block)];
	bool room = true;
	int r = 0;

	*ret = false;
	if (!choice->at || rd_place_kind(was) != RD_OWN || was == choice->at) {
		dedup->report->refused++;
		return 0;
	}
	if (rd_fp_is_zero(&choice->fp) || !rd_fp_equal(fp_at(dedup, was), &choice->fp)) {
		dedup->report->damaged++;
		return 0;
	}
	if (home->id != id)
		r = rd_recipe_load(dedup->pool->sql, id, home);
	if (r) {
		home->id = 0;
		dedup->report->refused++;
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	}
	*ret = home->map.at[slot_of(choice->twin.home)] == choice->at;
	dedup->report->refused += !*ret;
	if (*ret && id != source->id)
		r = has_room(dedup, id, source->id, &room);
	dedup->report->capped += *ret && !room;
	*ret &= room;
	return r;
}

/* Change the map of one recipe, whose choices are @nr from @choices on. */
static int change_source(struct dedup *dedup, const struct choice *choices, unsigned int nr)
{
	struct rd_sql *sql = dedup->pool->sql;
	struct rd_recipe source, home = { .id = 0 };
	i64 id = recipe_of(choices[0].twin.block);
	struct rd_map map;
	unsigned int i, given_up = 0;
	bool is_cold, good;
	int r;

	r = rd_recipe_is_cold(sql, id, &is_cold);
	if (!r && is_cold)
		r = rd_recipe_load(sql, id, &source);
	if (r || !is_cold) {
		dedup->report->refused += nr;
		return r == -ENOENT ? 0 : r;
	}
	map = source.map;
	for (i = 0; i < nr && !r; i++) {
		r = check_choice(dedup, &choices[i], &source, &home, &good);
		if (r || !good)
			continue;
		map.at[slot_of(choices[i].twin.block)] =
			rd_place_make(RD_REF, recipe_of(choices[i].twin.home),
				      slot_of(choices[i].twin.home));
		given_up++;
	}
	if (!r && given_up)
		r = rd_recipe_change(sql, &source, source.frame, &map);
	if (!r && given_up) {
		dedup->report->changed++;
		dedup->report->given_up += given_up;
		dedup->waiting += given_up;
	}
	return r;
}

static int change_all(struct dedup *dedup)
{
	struct rd_sql *sql = dedup->pool->sql;
	const struct choice *choices = dedup->choices;
	unsigned int i, nr;
	int r;

	r = rd_failpoint("dedup-change");
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	dedup->frame = U64_MAX;
	dedup->capped = 0;
	for (i = 0; i < dedup->nr && !r; i += nr) {
		nr = 1;
		while (i + nr < dedup->nr && recipe_of(choices[i + nr].twin.block) ==
		       recipe_of(choices[i].twin.block))
			nr++;
		r = change_source(dedup, &choices[i], nr);
	}
	return rd_catalog_end(sql, r);
}

static int use_batch(struct dedup *dedup)
{
	int r;

	if (!dedup->nr)
		return 0;
	r = rd_failpoint("dedup-read");
	if (!r)
		r = read_homes(dedup);
	if (!r)
		r = change_all(dedup);
	dedup->nr = 0;
	if (!r && dedup->waiting >= FREE_AFTER) {
		dedup->waiting = 0;
		r = rd_free_queue(dedup->pool);
	}
	rd_sql_pause();
	return r;
}

/* --- a dry run */

static int compare_longest(const void *a, const void *b)
{
	const unsigned int *x = a, *y = b;

	return *x > *y ? -1 : *x < *y;
}

/* What would a newest version save that may be in some pieces? Each run parts it twice. */
static void count_shared(struct dedup *dedup, const struct rd_twin *twins, unsigned int nr)
{
	unsigned int runs[RD_SEG_BLOCKS], nr_runs = 0, i, p, run;

	for (i = 0; i < nr; i += run) {
		run = run_of(twins, i, nr);
		runs[nr_runs++] = run;
	}
	qsort(runs, nr_runs, sizeof(*runs), compare_longest);
	for (p = 0; p < RD_DEDUP_PIECES; p++)
		for (i = 0; i < nr_runs && 2 * i + 3 <= rd_dedup_pieces[p]; i++)
			dedup->report->shared[p] += runs[i];
}

/* --- the pass */

static bool is_late(const struct dedup *dedup)
{
	return dedup->options->until_us && rd_now_us() >= dedup->options->until_us;
}

static int take_recipe(struct dedup *dedup, const struct rd_twin *twins, unsigned int nr)
{
	bool is_old, is_newest;
	int r;

	r = look_at(dedup, recipe_of(twins[0].block), &is_old, &is_newest);
	if (r)
		return r;
	if (is_newest) {
		if (dedup->options->dry_run)
			count_shared(dedup, twins, nr);
		return 0;
	}
	if (!is_old) {
		dedup->report->too_new += nr;
		return 0;
	}
	if (dedup->nr + nr > BATCH)
		r = use_batch(dedup);
	if (r)
		return r;
	choose(dedup, twins, nr);
	if (dedup->options->dry_run) {
		dedup->report->given_up += dedup->nr;
		dedup->nr = 0;
	}
	return 0;
}

static int use_slice(struct dedup *dedup, struct rd_twins *twins)
{
	struct rd_twin found[RD_SEG_BLOCKS];
	unsigned int nr;
	u64 taken, all;
	int r = 0;

	while (!r && !dedup->report->out_of_time) {
		r = rd_twins_take(twins, found, &nr);
		if (r <= 0)
			return r ? r : use_batch(dedup);
		r = take_recipe(dedup, found, nr);
		rd_twins_progress(twins, &taken, &all);
		if (!r)
			r = rd_pool_progress(dedup->pool, "dedup", taken * RD_BLOCK_SIZE,
					     all * RD_BLOCK_SIZE);
		dedup->report->out_of_time = is_late(dedup);
	}
	return r ? r : use_batch(dedup);
}

static int run(struct dedup *dedup)
{
	struct rd_pool *pool = dedup->pool;
	struct rd_twins *twins;
	int r;

	r = rd_twins_new(&twins, pool, dedup->options->temp, dedup->options->dry_run,
			 &dedup->pace);
	if (r)
		return r;
	while (!dedup->report->out_of_time && (r = rd_twins_slice(twins)) > 0) {
		r = use_slice(dedup, twins);
		if (r)
			break;
	}
	rd_twins_count(twins, &dedup->report->found);
	rd_twins_free(twins);
	if (!r && !dedup->options->dry_run)
		r = rd_free_queue(pool);
	return r;
}

int rd_dedup(struct rd_pool *pool, const struct rd_dedup_options *options,
	     struct rd_dedup_report *report)
{
	struct rd_lock lock = RD_LOCK_NONE;
	struct dedup *dedup;
	int r;

	memset(report, 0, sizeof(*report));
	if (!options->dry_run)
		r = rd_pool_lock(pool, &lock, RD_LOCK_DEDUP, 0, true, "the pass over the pool");
	else
		r = 0;
	if (r)
		return r;
	dedup = calloc(1, sizeof(*dedup));
	if (dedup) {
		dedup->pool = pool;
		dedup->options = options;
		dedup->report = report;
		dedup->pace.rate = options->rate;
		dedup->blocks = rd_blocks_new(pool);
		dedup->hasher = rd_hasher_new();
		dedup->data = rd_alloc_direct((size_t)BATCH * RD_BLOCK_SIZE);
		r = dedup->blocks && dedup->hasher && dedup->data ? run(dedup) : -ENOMEM;
		rd_blocks_free(dedup->blocks);
		rd_hasher_free(dedup->hasher);
		free(dedup->data);
	}
	r = dedup ? r : -ENOMEM;
	free(dedup);
	rd_lock_drop(&lock);
	return r;
}
