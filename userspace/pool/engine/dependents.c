// SPDX-License-Identifier: GPL-2.0
/*
 * How many volumes and versions need a frame: see dependents.h.
 *
 * The rows of a volume come from the last to the first, so the versions that see them are
 * intervals with falling ends. Of each frame only the lowest start of what was counted is kept:
 * the next interval adds what is before it. So each row is looked at once, and a recipe of many
 * versions counts at once; and a recipe comes behind the younger ones that it refers to, which
 * the resolver remembers. Numbers of versions go on from one volume to the next, so that a start
 * in an earlier volume is before all that is in this one.
 *
 * What is counted is 12 bytes a frame. A pool with more than SLICE frames is counted slice by
 * slice, each of which looks at all rows.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/versions.h"
#include "dependents.h"
#include "resolve.h"

#ifdef RD_TEST
#define SLICE	8
#else
#define SLICE	(1U << 20)	/* 12 MiB, for 2 TiB */
#endif

struct seen {
	struct rd_dependents nr;
	u32 start;		/* of what was counted; 0: nothing was */
};

struct count {
	struct rd_pool *pool;
	struct rd_resolver *resolver;
	struct seen *seen;	/* of frames from @first on */
	u64 first;
	u64 next_slice;		/* the lowest frame behind the slice; U64_MAX: none */
	u64 done, all;		/* of the sizes of all versions together, for progress */
	/* The volume: the numbers of its versions, in order, and the number of the first of all. */
	i64 volume;
	const i64 *numbers;
	u32 nr, base;
	/* The pack that was looked up last. */
	struct rd_pack pack;
};

/* --- a row */

/* How many versions have a number below @number? */
static u32 versions_before(const struct count *count, i64 number)
{
	u32 low = 0, high = count->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (count->numbers[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The versions @from up to @end need @frame. */
static void see(struct count *count, u64 frame, u32 from, u32 end)
{
	struct seen *seen;

	if (frame < count->first)
		return;
	if (frame - count->first >= SLICE) {
		count->next_slice = rd_min(count->next_slice, frame);
		return;
	}
	seen = &count->seen[frame - count->first];
	if (seen->start < count->base) {
		seen->nr.volumes++;
		seen->start = end;
	}
	end = rd_min(end, seen->start);
	if (from < end)
		seen->nr.versions += end - from;
	seen->start = rd_min(seen->start, from);
}

static int see_pack(struct count *count, u64 packed, u32 from, u32 end)
{
	u64 frame, last;
	int r;

	if (count->pack.frame != packed) {
		count->pack.frame = 0;
		r = rd_pack_find(count->pool->sql, packed, &count->pack);
		/* It is damaged, as check says. */
		if (r)
			return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	}
	frame = count->pack.place / RD_SEG_BLOCKS;
	last = (count->pack.place + count->pack.blocks - 1) / RD_SEG_BLOCKS;
	for (; frame <= last; frame++)
		see(count, frame, from, end);
	return 0;
}

static int see_recipe(struct count *count, i64 recipe, u32 from, u32 end)
{
	u64 frame, last = U64_MAX;
	struct rd_seg_fp fp;
	struct rd_map map;
	unsigned int i;
	int r;

	r = rd_resolve(count->resolver, recipe, &map, &fp);
	if (r)
		return r;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		frame = rd_place_id(map.at[i]);
		/* Blocks of one frame are mostly in a row. */
		if (rd_place_kind(map.at[i]) != RD_OWN || frame == last)
			continue;
		last = frame;
		if (rd_frame_is_packed(frame))
			r = see_pack(count, frame, from, end);
		else
			see(count, frame, from, end);
	}
	return r;
}

static int see_life(struct count *count, const struct rd_segment_life *life)
{
	u32 from = versions_before(count, life->born);
	u32 end = versions_before(count, life->next);

	/* Of versions that are being made or deleted. */
	if (from == end)
		return 0;
	return see_recipe(count, life->recipe, count->base + from, count->base + end);
}

/* --- a volume */

static int list_versions(struct count *count, struct rd_buffer *numbers, u64 *ret_bytes)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_version version;
	int r;

	r = rd_versions(count->pool->sql, &rows, count->volume);
	while (!r && (r = rd_next_version(rows, &version)) > 0) {
		rd_buffer_put(numbers, &version.number, sizeof(version.number));
		*ret_bytes += version.size;
		r = numbers->failed ? -ENOMEM : 0;
	}
	count->numbers = (const i64 *)numbers->data;
	count->nr = numbers->len / sizeof(version.number);
	return r;
}

static int see_rows(struct count *count, struct rd_row *rows)
{
	struct rd_segment_life life;
	int r;

	while ((r = rd_next_life(rows, &life)) > 0) {
		r = see_life(count, &life);
		if (!r)
			r = rd_pool_progress(count->pool, "count", count->done, count->all);
		if (r)
			break;
	}
	return r;
}

static int see_lives(struct count *count)
{
	RD_ROW struct rd_row *rows = NULL, *past = NULL;
	int r;

	r = rd_segment_lives(count->pool->sql, &rows, count->volume);
	if (!r)
		r = see_rows(count, rows);
	if (!r)
		r = rd_segment_past_lives(count->pool->sql, &past, count->volume);
	return r ? r : see_rows(count, past);
}

/* A volume is seen at one time: ends of its rows fall only so. */
static int see_volume(struct count *count, i64 volume)
{
	struct rd_buffer numbers = { 0 };
	u64 bytes = 0;
	int r = rd_sql_begin_read(count->pool->sql);

	if (r)
		return r;
	count->volume = volume;
	count->pack.frame = 0;
	rd_resolver_forget(count->resolver);
	r = list_versions(count, &numbers, &bytes);
	if (!r && count->nr)
		r = see_lives(count);
	rd_sql_end_read(count->pool->sql);
	count->base += count->nr;
	count->done += bytes;
	rd_buffer_free(&numbers);
	return r;
}

/* --- all */

static int list_volumes(struct count *count, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_volume_stats stats;
	i64 id;
	int r;

	r = rd_volume_stats(count->pool->sql, &rows);
	while (!r && (r = rd_next_volume_stats(rows, &stats)) > 0) {
		count->all += stats.logical;
		r = rd_volume_find(count->pool->sql, stats.name, &id);
		rd_buffer_put(ret, &id, sizeof(id));
		if (!r && ret->failed)
			r = -ENOMEM;
	}
	return r;
}

static int count_slice(struct count *count, const struct rd_buffer *volumes,
		       rd_dependents_fn *fn, void *ctx)
{
	size_t i, nr = volumes->len / sizeof(i64);
	int r = 0;

	memset(count->seen, 0, SLICE * sizeof(*count->seen));
	/* No start is 0. */
	count->base = 1;
	count->done = 0;
	count->next_slice = U64_MAX;
	for (i = 0; i < nr && !r; i++)
		r = see_volume(count, ((const i64 *)volumes->data)[i]);
	for (i = 0; i < SLICE && !r; i++) {
		if (!count->seen[i].nr.versions)
			continue;
		r = fn(ctx, count->first + i, &count->seen[i].nr);
		if (!r)
			r = rd_pool_progress(count->pool, "count", count->done, count->all);
	}
	return r;
}

int rd_dependents_count(struct rd_pool *pool, rd_dependents_fn *fn, void *ctx)
{
	struct count count = { .pool = pool };
	struct rd_buffer volumes = { 0 };
	int r;

	count.resolver = rd_resolver_new(pool->sql);
	count.seen = malloc(SLICE * sizeof(*count.seen));
	r = count.resolver && count.seen ? list_volumes(&count, &volumes) : -ENOMEM;
	while (!r && count.first != U64_MAX) {
		r = count_slice(&count, &volumes, fn, ctx);
		count.first = count.next_slice;
	}
	rd_buffer_free(&volumes);
	rd_resolver_free(count.resolver);
	free(count.seen);
	return r;
}
