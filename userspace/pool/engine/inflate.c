// SPDX-License-Identifier: GPL-2.0
/* Packs that a device is to read are stored raw: see inflate.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/inject.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/segments.h"
#include "inflate.h"
#include "resolve.h"
#include "rewrite.h"

#define WINDOW		1024		/* segments whose maps are read at a time */
#define FRAMES		(RD_REWRITE_BLOCKS / RD_SEG_BLOCKS)
#define FIRST_LIMIT	4096		/* frames, before doubles are first dropped */

struct inflate {
	struct rd_pool *pool;
	const struct rd_version *version;
	const struct rd_inflate *what;
	struct rd_resolver *resolver;
	bool only_ask;		/* one is enough */
	struct rd_buffer frames;	/* u64, packed ones that the version names */
	size_t limit;		/* of them, before doubles are dropped */
	u64 blocks;		/* that live there */
};

/* --- which frames */

static size_t nr_frames(const struct inflate *in)
{
	return in->frames.len / sizeof(u64);
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void drop_doubles(struct inflate *in)
{
	u64 *frames = (u64 *)in->frames.data;
	size_t i, nr = 0;

	if (!nr_frames(in))
		return;
	qsort(frames, nr_frames(in), sizeof(*frames), compare);
	for (i = 0; i < nr_frames(in); i++)
		if (!nr || frames[nr - 1] != frames[i])
			frames[nr++] = frames[i];
	in->frames.len = nr * sizeof(*frames);
	in->limit = rd_max(2 * nr, FIRST_LIMIT);
}

static int add_recipe(struct inflate *in, i64 recipe)
{
	struct rd_seg_fp fp;
	struct rd_map map;
	u64 last = 0;
	unsigned int i;
	int r;

	r = rd_resolve(in->resolver, recipe, &map, &fp);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		u64 frame = rd_place_id(map.at[i]);

		if (rd_place_kind(map.at[i]) != RD_OWN || !rd_frame_is_packed(frame) ||
		    frame == last)
			continue;
		last = frame;
		rd_buffer_put(&in->frames, &frame, sizeof(frame));
	}
	if (nr_frames(in) > in->limit)
		drop_doubles(in);
	return !r && in->frames.failed ? -ENOMEM : r;
}

static bool is_wanted(const struct inflate *in, u64 segment)
{
	const u8 *wanted = in->what->wanted;

	return !wanted || wanted[segment / 8] >> segment % 8 & 1;
}

static int add_window(struct inflate *in, u64 first, unsigned int nr)
{
	const struct rd_version *version = in->version;
	struct rd_sql *sql = in->pool->sql;
	i64 recipes[WINDOW];
	unsigned int i;
	int r;

	r = rd_sql_begin_read(sql);
	if (r)
		return r;
	rd_resolver_forget(in->resolver);
	r = rd_segments_read(sql, version->volume, version->number, first, nr, recipes);
	for (i = 0; i < nr && !r; i++)
		if (recipes[i] && is_wanted(in, first + i))
			r = add_recipe(in, recipes[i]);
	rd_sql_end_read(sql);
	return r;
}

static int list_frames(struct inflate *in)
{
	u64 first = in->what->first, end = rd_nr_segs(in->version->size);
	int r = 0;

	if (in->what->end)
		end = rd_min(end, in->what->end);
	in->frames.len = 0;
	in->limit = FIRST_LIMIT;
	for (; first < end && !r && !(in->only_ask && in->frames.len); first += WINDOW)
		r = add_window(in, first, rd_min(WINDOW, end - first));
	drop_doubles(in);
	return r;
}

static int count_blocks(struct inflate *in)
{
	const u64 *frames = (const u64 *)in->frames.data;
	unsigned int live;
	size_t i;
	int r = 0;

	in->blocks = 0;
	for (i = 0; i < nr_frames(in) && !r; i++) {
		r = rd_pack_live(in->pool->sql, frames[i], &live);
		in->blocks += live;
	}
	return r;
}

/* --- room */

static int tell_full(void)
{
	rd_err(0, "the pool is full: a device can read only what is not compressed, and that takes more room");
	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
	rd_remedy(RD_REMEDY_GROW, NULL, NULL);
	return -ENOSPC;
}

static int check_room(const struct inflate *in)
{
	struct rd_pool *pool = in->pool;
	u64 free, keep = 0;
	int r;

	r = rd_frames_nr_free(pool->sql, &free);
	if (!r && !in->what->may_fill_up)
		r = rd_frames_to_keep(pool->sql, pool->area.super.nr_frames, &keep);
	if (r)
		return r;
	return free < keep + nr_frames(in) ? tell_full() : 0;
}

/* --- doing it */

static int rewrite_all(struct inflate *in)
{
	const struct rd_rewrite_options options = { .may_fill_up = in->what->may_fill_up };
	const u64 *frames = (const u64 *)in->frames.data;
	size_t i, nr = nr_frames(in);
	int r = 0;

	for (i = 0; i < nr && !r; i += FRAMES) {
		r = rd_pool_progress(in->pool, "decompress", i * in->blocks / nr * RD_BLOCK_SIZE,
				     in->blocks * RD_BLOCK_SIZE);
		if (!r)
			r = rd_failpoint("inflate");
		if (!r)
			r = rd_rewrite(in->pool, frames + i, rd_min(FRAMES, nr - i), &options);
	}
	return r > 0 ? tell_full() : r;
}

/* Is a frame listed again that was written anew? Only damage stays behind. */
static bool is_stuck(const struct inflate *in, const struct rd_buffer *before)
{
	const u64 *frames = (const u64 *)in->frames.data;
	size_t i;

	for (i = 0; i < nr_frames(in) && before->len; i++)
		if (bsearch(&frames[i], before->data, before->len / sizeof(u64), sizeof(u64),
			    compare))
			return true;
	return false;
}

static int tell_damage(const struct inflate *in)
{
	rd_err(0, "version %lld has damaged blocks, which no device can be given",
	       (long long)in->version->number);
	rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
	return -EBADMSG;
}

/* Reverse deduplication may move blocks to other packs meanwhile, so look again. */
static int inflate(struct inflate *in, u64 *ret_bytes)
{
	struct rd_buffer before = { 0 };
	int r = list_frames(in);

	while (!r && in->frames.len) {
		r = is_stuck(in, &before) ? tell_damage(in) : count_blocks(in);
		if (!r)
			r = check_room(in);
		if (!r)
			rd_info("%llu MiB are compressed, and are stored raw for the device",
				rd_round_up(in->blocks, 256) >> 8);
		if (!r)
			r = rewrite_all(in);
		if (r)
			break;
		*ret_bytes += in->blocks * RD_BLOCK_SIZE;
		rd_buffer_free(&before);
		before = in->frames;
		in->frames = (struct rd_buffer){ 0 };
		r = list_frames(in);
	}
	rd_buffer_free(&before);
	return r;
}

static int set_up(struct inflate *in)
{
	in->resolver = rd_resolver_new(in->pool->sql);
	return in->resolver ? 0 : -ENOMEM;
}

static void tear_down(struct inflate *in)
{
	rd_resolver_free(in->resolver);
	rd_buffer_free(&in->frames);
}

/* Most pools have no packs at all. */
static bool has_packs(struct rd_pool *pool)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;

	return rd_packs(pool->sql, &rows, 0) || rd_next_pack(rows, &pack);
}

int rd_inflate(struct rd_pool *pool, const struct rd_version *version,
	       const struct rd_inflate *what, u64 *ret_bytes)
{
	struct inflate in = { .pool = pool, .version = version, .what = what };
	int r;

	*ret_bytes = 0;
	if (!has_packs(pool))
		return 0;
	r = set_up(&in);
	if (!r)
		r = inflate(&in, ret_bytes);
	tear_down(&in);
	return r;
}

/* List packed frames of @version: all, or one if there is any. */
static int look(struct rd_pool *pool, const struct rd_version *version, bool only_ask,
		bool *ret_any, u64 *ret_blocks)
{
	static const struct rd_inflate all;
	struct inflate in = {
		.pool = pool, .version = version, .what = &all, .only_ask = only_ask,
	};
	int r;

	*ret_any = false;
	*ret_blocks = 0;
	if (!has_packs(pool))
		return 0;
	r = set_up(&in);
	if (!r)
		r = list_frames(&in);
	if (!r)
		r = count_blocks(&in);
	*ret_any = in.frames.len;
	*ret_blocks = in.blocks;
	tear_down(&in);
	return r;
}

int rd_version_is_packed(struct rd_pool *pool, const struct rd_version *version, bool *ret)
{
	u64 blocks;

	return look(pool, version, true, ret, &blocks);
}

int rd_inflate_estimate(struct rd_pool *pool, const struct rd_version *version, u64 *ret_bytes)
{
	bool any;
	int r = look(pool, version, false, &any, ret_bytes);

	*ret_bytes *= RD_BLOCK_SIZE;
	return r;
}
