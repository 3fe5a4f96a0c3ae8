// SPDX-License-Identifier: GPL-2.0
/* Which versions see which blocks: see lives.h. */
#include <errno.h>

#include "base/sort.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/versions.h"
#include "pool/engine/read/resolve.h"
#include "lives.h"

struct lives {
	struct rd_pool *pool;
	struct rd_resolver *resolver;
	rd_live_row_fn *fn;
	void *ctx;
	struct rd_live_row life;
	u64 done, all;		/* of the sizes of all versions together, for progress */
	/* The volume, and the numbers of its versions, in order. */
	i64 volume;
	const i64 *numbers;
	u32 nr;
};

/* How many versions have a number below @number? */
static u32 versions_before(const struct lives *lives, i64 number)
{
	return rd_count_below(lives->nr, i, lives->numbers[i] < number);
}

static int see_life(struct lives *lives, const struct rd_segment_life *life)
{
	u32 from = versions_before(lives, life->born);
	u32 end = versions_before(lives, life->next);

	struct rd_seg_fp fp;
	int r;

	/* Of versions that are being made or deleted. */
	if (from == end)
		return 0;
	lives->life.from = lives->life.base + from;
	lives->life.end = lives->life.base + end;
	r = rd_resolve(lives->resolver, life->recipe, &lives->life.map, &fp);
	return r ? r : lives->fn(lives->ctx, &lives->life);
}

/* --- a volume */

static int list_versions(struct lives *lives, struct rd_buffer *numbers, u64 *ret_bytes)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_version version;
	int r;

	r = rd_versions(lives->pool->sql, &rows, lives->volume);
	while (!r && (r = rd_next_version(rows, &version)) > 0) {
		*ret_bytes += version.size;
		r = rd_buffer_put(numbers, &version.number, sizeof(version.number));
	}
	lives->numbers = (const i64 *)numbers->data;
	lives->nr = numbers->len / sizeof(version.number);
	return r;
}

static int see_rows(struct lives *lives, struct rd_row *rows)
{
	struct rd_segment_life life;
	int r;

	while ((r = rd_next_life(rows, &life)) > 0) {
		r = see_life(lives, &life);
		if (!r)
			r = rd_pool_progress(lives->pool, "count", lives->done, lives->all);
		if (r)
			break;
	}
	return r;
}

static int see_lives(struct lives *lives)
{
	RD_ROW struct rd_row *rows = NULL, *past = NULL;
	int r;

	r = rd_segment_lives(lives->pool->sql, &rows, lives->volume);
	if (!r)
		r = see_rows(lives, rows);
	if (!r)
		r = rd_segment_past_lives(lives->pool->sql, &past, lives->volume);
	return r ? r : see_rows(lives, past);
}

/* A volume is seen at one time: ends of its rows fall only so. */
static int see_volume(struct lives *lives, i64 volume)
{
	RD_BUFFER struct rd_buffer numbers = { 0 };
	u64 bytes = 0;
	int r = rd_sql_begin_read(lives->pool->sql);

	if (r)
		return r;
	lives->volume = volume;
	rd_resolver_forget(lives->resolver);
	r = list_versions(lives, &numbers, &bytes);
	if (!r && lives->nr)
		r = see_lives(lives);
	rd_sql_end_read(lives->pool->sql);
	lives->life.base += lives->nr;
	lives->done += bytes;
	return r;
}

/* --- all */

static int list_volumes(struct lives *lives, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_volume_stats stats;
	i64 id;
	int r;

	r = rd_volume_stats(lives->pool->sql, &rows);
	while (!r && (r = rd_next_volume_stats(rows, &stats)) > 0) {
		lives->all += stats.logical;
		r = rd_volume_find(lives->pool->sql, stats.name, &id);
		rd_buffer_put(ret, &id, sizeof(id));
		if (!r && ret->failed)
			r = -ENOMEM;
	}
	return r;
}

int rd_lives(struct rd_pool *pool, rd_live_row_fn *fn, void *ctx)
{
	/* No version is number 0. */
	struct lives lives = { .pool = pool, .fn = fn, .ctx = ctx, .life.base = 1 };
	RD_BUFFER struct rd_buffer volumes = { 0 };
	size_t i;
	int r;

	lives.resolver = rd_resolver_new(pool->sql);
	r = lives.resolver ? list_volumes(&lives, &volumes) : -ENOMEM;
	for (i = 0; i < volumes.len / sizeof(i64) && !r; i++)
		r = see_volume(&lives, ((const i64 *)volumes.data)[i]);
	rd_resolver_free(lives.resolver);
	return r;
}
