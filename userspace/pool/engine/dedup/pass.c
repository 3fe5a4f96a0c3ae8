// SPDX-License-Identifier: GPL-2.0
/* The pass over the whole pool: see pass.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/priority.h"
#include "base/sort.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/engine/version/version.h"
#include "pass_parts.h"
#include "twins_filter.h"

/* Blocks that are given up before they are given back. */
#ifdef RD_TEST
#define FREE_AFTER	256
#else
#define FREE_AFTER	((64U << 20) / RD_BLOCK_SIZE)
#endif

const unsigned int rd_pass_pieces[RD_PASS_PIECES] = { 8, 64, 512 };

/* --- choosing */

/* How many of the twins from @first on are in a row at both ends? */
static unsigned int run_of(const struct rd_twin *twins, unsigned int first, unsigned int nr)
{
	unsigned int i = first + 1;

	while (i < nr && twins[i].block == twins[i - 1].block + 1 &&
	       twins[i].keeper == twins[i - 1].keeper + 1 &&
	       rd_block_recipe(twins[i].keeper) == rd_block_recipe(twins[first].keeper))
		i++;
	return i - first;
}

/*
 * There is room for all of a recipe. A slice has only parts of runs, since it is chosen by
 * fingerprint: how long they are is seen when both ends are proven.
 */
static void choose(struct rd_pass *pass, const struct rd_twin *twins, unsigned int nr)
{
	unsigned int i, run;

	for (i = 0; i < nr; i += run) {
		run = run_of(twins, i, nr);
		if (run < pass->options->least_run && pass->slices == 1) {
			pass->report->short_runs += run;
			continue;
		}
		for (; run; run--, i++)
			pass->choices[pass->nr++] = (struct rd_pass_choice){ .twin = twins[i] };
	}
}

enum age {
	AGE_GONE,
	AGE_NEWEST,		/* a newest version has it */
	AGE_TOO_NEW,		/* it was not replaced long enough ago */
	AGE_OLD,
};

static int age_of(struct rd_pass *pass, i64 id, enum age *ret)
{
	struct rd_sql *sql = pass->pool->sql;
	unsigned int newer = 0;
	u64 latest = 0;
	int r = rd_sql_begin_read(sql);

	*ret = AGE_GONE;
	if (r)
		return r;
	r = rd_recipe_latest_refs(sql, id, &latest);
	if (!r && !latest)
		r = rd_recipe_newer(sql, id, pass->options->older, &newer);
	rd_sql_end_read(sql);
	if (!r)
		*ret = latest ? AGE_NEWEST : newer < pass->options->older ? AGE_TOO_NEW : AGE_OLD;
	return r == -ENOENT ? 0 : r;
}

/* --- a dry run */

static int compare_longest(const void *a, const void *b)
{
	return rd_order(*(const unsigned int *)b, *(const unsigned int *)a);
}

/* What would a newest version save that may be in some pieces? Each run parts it twice. */
static void count_shared(struct rd_pass *pass, const struct rd_twin *twins, unsigned int nr)
{
	unsigned int runs[RD_SEG_BLOCKS], nr_runs = 0, i, p, run;

	for (i = 0; i < nr; i += run) {
		run = run_of(twins, i, nr);
		runs[nr_runs++] = run;
	}
	qsort(runs, nr_runs, sizeof(*runs), compare_longest);
	for (p = 0; p < RD_PASS_PIECES; p++)
		for (i = 0; i < nr_runs && 2 * i + 3 <= rd_pass_pieces[p]; i++)
			pass->report->shared[p] += runs[i];
}

/* --- a batch */

static int free_some(struct rd_pass *pass)
{
	if (pass->waiting < FREE_AFTER)
		return 0;
	pass->waiting = 0;
	return rd_free_queue(pass->pool);
}

/* What was chosen and not used is for the next pass. */
static int leave_choices(struct rd_pass *pass)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < pass->nr && !r; i++)
		r = rd_pass_leave(pass, rd_block_recipe(pass->choices[i].twin.block));
	return r;
}

/* What reads is idle; what has locks that others wait for is not. */
static int use_batch(struct rd_pass *pass)
{
	int r, left;

	if (!pass->nr)
		return 0;
	r = rd_failpoint("pass-read");
	if (!r)
		r = rd_pass_read(pass);
	rd_disk_idle(false);
	if (!r)
		r = rd_pass_change(pass);
	left = r ? leave_choices(pass) : 0;
	pass->nr = 0;
	if (!left)
		left = rd_pass_mark_left(pass);
	if (!r || left)
		r = left;
	if (!r)
		r = free_some(pass);
	rd_disk_idle(true);
	rd_sql_pause();
	return r;
}

static int take_old(struct rd_pass *pass, const struct rd_twin *twins, unsigned int nr)
{
	int r = 0;

	if (pass->nr + nr > RD_PASS_BATCH)
		r = use_batch(pass);
	/* If it was stopped, the rest of the slice is left, and this with it. */
	if (r)
		return rd_pass_leave(pass, rd_block_recipe(twins[0].block)) ? -ENOMEM : r;
	choose(pass, twins, nr);
	if (pass->options->dry_run) {
		pass->report->given_up += pass->nr;
		pass->nr = 0;
	}
	return 0;
}

static int take_recipe(struct rd_pass *pass, const struct rd_twin *twins, unsigned int nr)
{
	enum age age;
	int r = age_of(pass, rd_block_recipe(twins[0].block), &age);

	if (!r && age == AGE_OLD)
		return take_old(pass, twins, nr);
	if (!r && age == AGE_NEWEST && pass->options->dry_run)
		count_shared(pass, twins, nr);
	if (!r && age == AGE_TOO_NEW) {
		pass->report->too_new += nr;
		r = pass->options->dry_run ? 0 :
			rd_pass_leave(pass, rd_block_recipe(twins[0].block));
	}
	return r ? r : rd_pass_mark_left(pass);
}

/* --- the pass */

static bool is_late(const struct rd_pass *pass)
{
	return pass->options->until_us && rd_now_us() >= pass->options->until_us;
}

static int use_slice(struct rd_pass *pass, struct rd_twins *twins)
{
	struct rd_twin found[RD_SEG_BLOCKS];
	unsigned int nr;
	u64 taken, all;
	int r = 0;

	while (!r) {
		r = rd_twins_take(twins, found, &nr);
		if (r <= 0)
			return r ? r : use_batch(pass);
		r = take_recipe(pass, found, nr);
		rd_twins_progress(twins, &taken, &all);
		if (!r)
			r = rd_pool_progress(pass->pool, "dedup", taken * RD_BLOCK_SIZE,
					     all * RD_BLOCK_SIZE);
		if (!r && is_late(pass))
			r = -ETIMEDOUT;
	}
	return r;
}

/* There is no time for the rest of the slice: what was chosen already is used. */
static int leave_rest(struct rd_pass *pass, struct rd_twins *twins)
{
	struct rd_twin found[RD_SEG_BLOCKS];
	unsigned int nr;
	int r = use_batch(pass);

	if (r || pass->options->dry_run)
		return r;
	pass->pace.rate = 0;
	while (!r && (r = rd_twins_take(twins, found, &nr)) > 0) {
		r = rd_pass_leave(pass, rd_block_recipe(found[0].block));
		if (!r)
			r = rd_pass_mark_left(pass);
	}
	return r;
}

/* 1: done; 0: there is none left; -ETIMEDOUT, -EINTR: stopped. */
static int run_slice(struct rd_pass *pass, struct rd_twins *twins)
{
	int stopped = 0, r;

	r = rd_pass_read_places(pass, true);
	if (!r)
		r = rd_twins_slice(twins);
	if (r <= 0)
		return r;
	r = rd_pass_read_places(pass, false);
	if (!r)
		r = use_slice(pass, twins);
	if ((r == -ETIMEDOUT && is_late(pass)) || r == -EINTR) {
		stopped = r;
		r = leave_rest(pass, twins);
	}
	rd_twins_count(twins, &pass->report->found);
	if (!r && !pass->options->dry_run)
		r = rd_pass_end_slice(pass);
	return r ? r : stopped ? stopped : 1;
}

/* Choose what is compared. */
static int make_twins(struct rd_pass *pass, struct rd_twins **ret)
{
	struct rd_twins_options options = {
		.temp = pass->options->temp,
		.all = pass->options->dry_run,
		.pace = &pass->pace,
		.until_us = pass->options->until_us,
	};
	int r;

	r = rd_twins_slices(pass->pool, &options.slices);
	if (r)
		return r;
	pass->slices = options.slices;
	if (pass->options->dry_run) {
		pass->report->all = true;
	} else {
		r = rd_pass_begin(pass, options.slices, &options.filter);
		options.slices = pass->row.slices;
		pass->slices = options.slices;
		options.slice = pass->row.slice;
	}
	if (!r)
		r = rd_twins_new(ret, pass->pool, &options);
	if (r)
		rd_twins_filter_free(options.filter);
	return r;
}

static int run_slices(struct rd_pass *pass)
{
	struct rd_twins *twins = NULL;
	int r;

	r = make_twins(pass, &twins);
	if (r)
		return r;
	do
		r = run_slice(pass, twins);
	while (r > 0);
	rd_twins_count(twins, &pass->report->found);
	rd_twins_free(twins);
	return r;
}

static int run(struct rd_pass *pass)
{
	int r, end;

	rd_disk_idle(true);
	r = run_slices(pass);
	rd_disk_idle(false);
	/* A disk may have that error, too. */
	pass->report->out_of_time = r == -ETIMEDOUT && is_late(pass);
	if (r && !pass->report->out_of_time && r != -EINTR)
		return r;
	end = pass->options->dry_run ? 0 : rd_pass_end(pass);
	/* Also what a pass that was killed has left. */
	if (!end && !pass->options->dry_run)
		end = rd_free_queue(pass->pool);
	return end ? end : r == -EINTR ? r : 0;
}

int rd_pass_run(struct rd_pool *pool, const struct rd_pass_options *options,
		struct rd_pass_report *report)
{
	struct rd_lock lock = RD_LOCK_NONE;
	struct rd_pass *pass;
	int r = 0;

	memset(report, 0, sizeof(*report));
	if (!options->dry_run)
		r = rd_pool_lock(pool, &lock, RD_LOCK_PASS, 0, true, "the pass over the pool");
	if (r)
		return r;
	pass = calloc(1, sizeof(*pass));
	if (pass) {
		pass->pool = pool;
		pass->options = options;
		pass->report = report;
		pass->pace.rate = options->rate;
		r = rd_pass_read_begin(pass);
		if (!r)
			r = run(pass);
		rd_pass_read_free(pass);
	} else {
		r = -ENOMEM;
	}
	if (pass)
		rd_buffer_free(&pass->left);
	free(pass);
	rd_lock_drop(&lock);
	return r;
}
