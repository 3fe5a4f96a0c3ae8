// SPDX-License-Identifier: GPL-2.0
/*
 * What a pass does not look at again, and what it leaves: see pass.h and pool/catalog/fresh.h.
 *
 * A kill at any moment leaves recipes fresh that need not be, and never the other way: what is left
 * is noted first, then what is closed, and recipes are forgotten last. A repair beside the pass
 * removes the row, as fingerprints may have been wrong: then it is not written again.
 */
#include <errno.h>

#include "base/inject.h"
#include "pass_parts.h"
#include "twins_filter.h"

/* With a larger part of the pool fresh, comparing all costs little more. Tests have small pools. */
#ifdef RD_TEST
#define FRESH_PART	1
#else
#define FRESH_PART	4
#endif
/* Rows of a transaction. */
#define ROWS		1024

/* --- which pass it is */

static void begin_all(struct rd_pass *pass, unsigned int slices)
{
	struct rd_fresh_pass *row = &pass->row;

	pass->report->all = true;
	/* One that looks at all goes on: what has come since then is fresh. */
	if (slices > 1 && row->slices == slices && row->slice) {
		row->least_run = rd_max(row->least_run, pass->options->least_run);
		return;
	}
	row->number++;
	row->slices = slices;
	row->slice = 0;
	row->least_run = pass->options->least_run;
}

static void begin_fresh(struct rd_pass *pass)
{
	struct rd_fresh_pass *row = &pass->row;

	row->number++;
	row->slices = 1;
	row->slice = 0;
	row->least_run = rd_max(row->closed, pass->options->least_run);
}

/* @many: all is compared; @before: the row, if a pass over what is fresh was begun in vain. */
static int begin_in(struct rd_pass *pass, unsigned int slices, bool many,
		    const struct rd_fresh_pass *before)
{
	struct rd_sql *sql = pass->pool->sql;
	int r = rd_fresh_pass(sql, &pass->row);

	if (r == -ENOENT) {
		pass->row = (struct rd_fresh_pass){ .number = 0 };
		r = 0;
	} else if (before) {
		/* Slices that are done are done, and what is fresh since then stays so. */
		pass->row = *before;
	}
	if (r)
		return r;
	if (many || !pass->row.closed || pass->options->least_run < pass->row.closed)
		begin_all(pass, slices);
	else
		begin_fresh(pass);
	pass->row.reads_places = true;
	return rd_fresh_set_pass(sql, &pass->row);
}

static int begin(struct rd_pass *pass, unsigned int slices, bool many,
		 const struct rd_fresh_pass *before)
{
	return rd_catalog_do(pass->pool->sql, begin_in(pass, slices, many, before));
}

int rd_pass_begin(struct rd_pass *pass, unsigned int slices, struct rd_twins_filter **ret)
{
	struct rd_fresh_pass before = { 0 };
	u64 fresh = 0, recipes = 0;
	int r = rd_fresh_pass(pass->pool->sql, &before);

	*ret = NULL;
	if (!r || r == -ENOENT)
		r = rd_fresh_count(pass->pool->sql, &fresh, &recipes);
	if (!r)
		r = begin(pass, slices, fresh > recipes / FRESH_PART, NULL);
	if (r || pass->report->all)
		return r;
	r = rd_twins_filter_new(ret, pass->pool, &pass->pace, pass->options->until_us);
	return r == -E2BIG ? begin(pass, slices, true, &before) : r;
}

int rd_pass_read_places(struct rd_pass *pass, bool reads_places)
{
	struct rd_sql *sql = pass->pool->sql;

	if (pass->options->dry_run || pass->row.reads_places == reads_places)
		return 0;
	pass->row.reads_places = reads_places;
	return rd_catalog_do(sql, rd_fresh_set_reads_places(sql, reads_places));
}

/* --- what is left */

int rd_pass_leave(struct rd_pass *pass, i64 recipe)
{
	return rd_buffer_put(&pass->left, &recipe, sizeof(recipe));
}

static int mark_some(struct rd_sql *sql, const i64 *ids, size_t nr)
{
	size_t i;
	int r = rd_sql_begin(sql);

	if (r)
		return r;
	for (i = 0; i < nr && !r; i++)
		r = rd_fresh_mark(sql, ids[i], false);
	return rd_catalog_end(sql, r);
}

/* Note what was left; without @all only if that is worth a transaction. */
static int mark_left(struct rd_pass *pass, bool all)
{
	size_t nr = pass->left.len / sizeof(i64), i;
	int r = 0;

	if (!all && nr < ROWS)
		return 0;
	for (i = 0; i < nr && !r; i += ROWS)
		r = mark_some(pass->pool->sql, (const i64 *)pass->left.data + i,
			      rd_min(ROWS, nr - i));
	pass->left.len = 0;
	return r;
}

int rd_pass_mark_left(struct rd_pass *pass)
{
	return mark_left(pass, false);
}

/* --- the end */

/* What cannot be read was not compared with what is fresh. */
static bool saw_all(const struct rd_pass *pass)
{
	return !pass->report->found.unreadable && !pass->report->found.passed_by;
}

static int set_row(struct rd_pass *pass)
{
	struct rd_sql *sql = pass->pool->sql;

	return rd_catalog_do(sql, rd_fresh_update_pass(sql, &pass->row));
}

int rd_pass_end_slice(struct rd_pass *pass)
{
	int r = rd_failpoint("pass-slice");

	if (!r)
		r = mark_left(pass, true);
	pass->row.slice++;
	/* Another pass would not know that this one did not see all. */
	if (r || !saw_all(pass))
		return r;
	r = set_row(pass);
	return r == -ENOENT ? 0 : r;
}

static int clear_some(struct rd_pass *pass, i64 *last)
{
	return rd_fresh_clear(pass->pool->sql, pass->row.number, ROWS, last);
}

/* The rows that are older than the pass, in short transactions. */
static int clear(struct rd_pass *pass)
{
	struct rd_sql *sql = pass->pool->sql;
	i64 last = 0;
	int r;

	do {
		r = rd_failpoint("pass-clear");
		if (!r)
			r = rd_catalog_do(sql, clear_some(pass, &last));
		if (!r)
			rd_sql_pause();
	} while (!r);
	return r == -ENOENT ? 0 : r;
}

int rd_pass_end(struct rd_pass *pass)
{
	int r = 0;

	if (pass->row.slice < pass->row.slices)
		return rd_pass_read_places(pass, false);
	pass->row.reads_places = false;
	pass->row.slices = 0;
	pass->row.slice = 0;
	if (saw_all(pass))
		pass->row.closed = pass->row.least_run;
	r = set_row(pass);
	if (!r && saw_all(pass))
		r = clear(pass);
	return r == -ENOENT ? 0 : r;
}
