// SPDX-License-Identifier: GPL-2.0
/* What fresh recipes have: see twins_filter.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/direct.h"
#include "base/pace.h"
#include "base/sort.h"
#include "pool/catalog/fresh.h"
#include "pool/catalog/recipes.h"
#include "twins_filter.h"
#include "twins_parts.h"

/*
 * 16 MiB of bits for as many blocks, 64 GiB: one of 40 other blocks passes then. With less there
 * are 32 bits a block, and one of 5000 passes. Tests come to more than fits.
 */
#ifdef RD_TEST
#define MAX_KEYS	2048U
#else
#define MAX_KEYS	(16U << 20)
#endif
#define MAX_BYTES	(16U << 20)
#define MIN_BYTES	(64U << 10)
#define BYTES_PER_KEY	4
/* Their numbers are in memory. */
#define MAX_RECIPES	(256U << 10)

#define WINDOW		64	/* recipes of a transaction */
#define MAX_SPAN	64	/* frames of which fingerprints are one read */

struct reading {
	struct rd_pool *pool;
	struct rd_pace *pace;
	struct rd_twins_filter *filter;
	unsigned int nr;
	rd_place places[WINDOW * RD_SEG_BLOCKS];
	struct rd_recipe recipe;
	/* The fingerprints that were read last. */
	u64 first;
	unsigned int span;
	struct rd_fp (*fps)[RD_SEG_BLOCKS];
};

void rd_twins_filter_free(struct rd_twins_filter *filter)
{
	if (!filter)
		return;
	free(filter->bits);
	free(filter);
}

static int make_filter(struct rd_twins_filter **ret, u64 recipes)
{
	struct rd_twins_filter *filter = calloc(1, sizeof(*filter));
	u64 bytes = MIN_BYTES;

	if (!filter)
		return -ENOMEM;
	while (bytes < MAX_BYTES && bytes < recipes * RD_SEG_BLOCKS * BYTES_PER_KEY)
		bytes *= 2;
	filter->mask = bytes * 8 - 1;
	filter->bits = calloc(1, bytes);
	*ret = filter;
	return filter->bits ? 0 : -ENOMEM;
}

static void add(struct rd_twins_filter *filter, const struct rd_fp *fp)
{
	unsigned int i;
	u64 hash[2], bit;

	memcpy(hash, fp->b, sizeof(hash));
	for (i = 0; i < RD_TWINS_FILTER_HASHES; i++) {
		bit = rd_twins_filter_bit(filter, hash, i);
		filter->bits[bit / 64] |= 1ULL << bit % 64;
	}
	filter->keys++;
}

/* --- where they are */

static int find_recipes(struct rd_pool *pool, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 id;
	int r = rd_fresh_recipes(pool->sql, &rows);

	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		rd_buffer_put(ret, &id, sizeof(id));
		r = ret->failed ? -ENOMEM : ret->len > MAX_RECIPES * sizeof(id) ? -E2BIG : 0;
	}
	return r;
}

static int add_places(struct reading *reading, i64 id)
{
	unsigned int i;
	int r = rd_recipe_load(reading->pool->sql, id, &reading->recipe);

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++)
		if (rd_place_kind(reading->recipe.map.at[i]) == RD_OWN)
			reading->places[reading->nr++] = reading->recipe.map.at[i];
	/* One that has gone has nothing, and one that cannot be read keeps what it has. */
	return r == -ENOENT || r == -EUCLEAN ? 0 : r;
}

static int find_places(struct reading *reading, const i64 *ids, unsigned int nr)
{
	unsigned int i;
	int r = rd_sql_begin_read(reading->pool->sql);

	reading->nr = 0;
	if (r)
		return r;
	for (i = 0; i < nr && !r; i++)
		r = add_places(reading, ids[i]);
	rd_sql_end_read(reading->pool->sql);
	qsort(reading->places, reading->nr, sizeof(*reading->places), rd_compare_u64);
	return r;
}

/* --- what is there */

/* Read the fingerprints of the frame of place @i, and of those behind it that are needed next. */
static void read_fps(struct reading *reading, unsigned int i)
{
	u64 first = rd_place_id(reading->places[i]), last = first, frame;

	for (; i < reading->nr; i++) {
		frame = rd_place_id(reading->places[i]);
		if (frame > last + 1 || frame - first >= MAX_SPAN ||
		    frame / RD_GROUP_FRAMES != first / RD_GROUP_FRAMES)
			break;
		last = frame;
	}
	reading->first = first;
	reading->span = last - first + 1;
	rd_area_get_fps(&reading->pool->area, first, reading->span, reading->fps[0]);
	rd_pace(reading->pace, reading->span * RD_FPS_SIZE);
}

static int add_window(struct reading *reading)
{
	struct rd_twins_filter *filter = reading->filter;
	const struct rd_fp *fp;
	unsigned int i;
	u64 frame;

	reading->span = 0;
	for (i = 0; i < reading->nr; i++) {
		frame = rd_place_id(reading->places[i]);
		if (!rd_area_has_frame(&reading->pool->area, frame))
			continue;
		if (frame - reading->first >= reading->span)
			read_fps(reading, i);
		fp = &reading->fps[frame - reading->first][rd_place_slot(reading->places[i])];
		if (rd_fp_is_zero(fp))
			filter->unreadable++;
		else
			add(filter, fp);
	}
	return filter->keys > MAX_KEYS ? -E2BIG : 0;
}

static int add_all(struct reading *reading, const i64 *ids, size_t nr, u64 until_us)
{
	size_t i;
	int r = 0;

	for (i = 0; i < nr && !r; i += WINDOW) {
		r = find_places(reading, ids + i, rd_min(WINDOW, nr - i));
		if (!r)
			r = add_window(reading);
		if (!r)
			r = rd_twins_check(reading->pool, until_us);
	}
	return r;
}

int rd_twins_filter_new(struct rd_twins_filter **ret, struct rd_pool *pool, struct rd_pace *pace,
			u64 until_us)
{
	RD_FREE struct reading *reading = calloc(1, sizeof(*reading));
	struct rd_buffer ids = { 0 };
	size_t nr = 0;
	int r = reading ? find_recipes(pool, &ids) : -ENOMEM;

	*ret = NULL;
	nr = ids.len / sizeof(i64);
	if (!r)
		r = make_filter(ret, nr);
	if (!r) {
		reading->pool = pool;
		reading->pace = pace;
		reading->filter = *ret;
		reading->fps = rd_alloc_direct(MAX_SPAN * RD_FPS_SIZE);
		r = reading->fps ? add_all(reading, (const i64 *)ids.data, nr, until_us) : -ENOMEM;
		free(reading->fps);
	}
	rd_buffer_free(&ids);
	if (r) {
		rd_twins_filter_free(*ret);
		*ret = NULL;
	}
	return r;
}
