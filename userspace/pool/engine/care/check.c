// SPDX-License-Identifier: GPL-2.0
/*
 * Recount what the catalog counts. None of the code that counts is used here:
 * only the format of maps is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pool/catalog/check_counts.h"
#include "pool/catalog/state.h"
#include "pool/engine/journal/journal_life.h"
#include "checker.h"

/* --- the files */

static void is_wrong_file(void *ctx, const char *text)
{
	rd_check_wrong(ctx, "catalog: %s", text);
}

/* Every page, those too that SQLite has no use for; then what is in them. */
static int check_database(struct checker *check, bool *ret_is_good)
{
	u64 page;
	int r;

	r = rd_sql_check_pages(check->sql, &page);
	if (r == -EUCLEAN) {
		if (page)
			rd_check_wrong(check, "page %llu of the catalog is damaged", page);
		else
			rd_check_wrong(check, "the page map of the catalog is damaged");
		rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing else was checked");
		check->report->is_unreadable = true;
		*ret_is_good = false;
		return 0;
	}
	*ret_is_good = true;
	return r ? r : rd_check_file(check->sql, is_wrong_file, check);
}

/* --- what is there twice */

static int check_copies(struct checker *check)
{
	bool good;
	int r;

	if (check->pool->life != RD_LIFE_ONE) {
		rd_check_wrong(check, "%s", rd_life_text(check->pool->life));
		return 0;
	}
	if (rd_area_bad_supers(&check->pool->area, false))
		rd_check_doubt(check, "a superblock of the data area is damaged; the next command that writes replaces it");
	r = rd_journal_verify(check->pool, &good);
	check->copy_is_bad = !r && !good;
	if (check->copy_is_bad)
		rd_check_doubt(check, "the copy of the catalog is damaged");
	return r;
}

/* --- the whole */

/* Believe doubts if nothing has happened since @generation, and no other command works. */
static int settle_doubts(struct checker *check, u64 generation)
{
	const char *text = (const char *)check->doubtful.data;
	size_t at;
	u64 now;
	int r;

	r = rd_state_generation(check->sql, &now);
	if (!r && check->alone)
		r = rd_check_is_alone(check->sql, check->pool->session, &check->alone);
	if (r || check->doubtful.failed)
		return r ? r : -ENOMEM;
	if (!check->alone || now != generation) {
		rd_info("other commands are at work: the data area was not compared with the catalog");
		return 0;
	}
	for (at = 0; at < check->doubtful.len; at += strlen(text + at) + 1)
		rd_check_wrong(check, "%s", text + at);
	if (check->copy_is_bad)
		rd_remedy(RD_REMEDY_RENEW_COPY, NULL, NULL);
	return 0;
}

static void is_wrong_count(void *ctx, const char *what, i64 a, i64 b)
{
	rd_check_wrong(ctx, "%s: %lld, %lld", what, a, b);
}

static int check_catalog(struct checker *check)
{
	int r;

	r = rd_check_is_alone(check->sql, check->pool->session, &check->alone);
	if (!r)
		r = rd_check_recipes(check);
	if (!r)
		r = rd_check_packs(check);
	if (!r)
		r = rd_check_counts(check->sql, check->alone, is_wrong_count, check);
	if (!r)
		r = rd_check_versions(check);
	if (!r)
		r = rd_check_leases(check->sql, is_wrong_count, check);
	if (!r)
		r = rd_check_frame_tables(check);
	return r;
}

static int check_area(struct checker *check)
{
	int r;

	r = rd_check_used(check);
	if (!r && rd_area_can(&check->pool->area, RD_STORE_HOLES))
		r = rd_check_free(check);
	return r ? r : check_copies(check);
}

static int check_contents(struct checker *check)
{
	struct rd_sql *sql = check->sql;
	u64 generation;
	int r;

	r = rd_state_generation(sql, &generation);
	if (!r)
		r = rd_check_begin(sql);
	if (!r)
		r = rd_sql_begin_read(sql);
	if (!r) {
		r = check_catalog(check);
		if (!r && check->with_area)
			r = check_area(check);
		rd_sql_end_read(sql);
	}
	if (!r)
		r = settle_doubts(check, generation);
	return r ? r : rd_check_end(sql);
}

static int check_pool(struct rd_pool *pool, struct rd_check_report *report, bool with_area)
{
	struct checker check = {
		.pool = pool,
		.sql = pool->sql,
		.report = report,
		.with_area = with_area,
	};
	bool is_good = false;
	int r;

	check.hasher = rd_hasher_new();
	if (!check.hasher)
		return -ENOMEM;
	r = check_database(&check, &is_good);
	if (!r && is_good)
		r = check_contents(&check);
	rd_buffer_free(&check.doubtful);
	rd_hasher_free(check.hasher);
	return r;
}

int rd_check_catalog(struct rd_pool *pool, struct rd_check_report *report)
{
	return check_pool(pool, report, false);
}

int rd_check(struct rd_pool *pool, struct rd_check_report *report)
{
	return check_pool(pool, report, true);
}
