// SPDX-License-Identifier: GPL-2.0
/*
 * How many volumes and versions need a frame: see dependents.h.
 *
 * Of each frame only the lowest start of what was counted is kept: the next interval adds what is
 * before it (see lives.h). So each row is looked at once, and a recipe of many versions counts at
 * once. A start in an earlier volume is before all that is in this one.
 *
 * What is counted is 12 bytes a frame. A pool with more than SLICE frames is counted slice by
 * slice, each of which looks at all rows.
 */
#include <errno.h>

#include "pool/catalog/packs.h"
#include "dependents.h"
#include "lives.h"

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
	struct seen *seen;	/* of frames from @first on */
	u64 first;
	u64 next_slice;		/* the lowest frame behind the slice; U64_MAX: none */
	u32 base;		/* the first version of the volume */
	struct rd_pack pack;	/* that was looked up last, in the same volume */
};

/* --- a row */

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

static int see_life(void *ctx, const struct rd_live_row *life)
{
	struct count *count = ctx;
	u64 frame, last = U64_MAX;
	unsigned int i;
	int r = 0;

	/* Another transaction may find a pack elsewhere. */
	if (count->base != life->base)
		count->pack.frame = 0;
	count->base = life->base;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		frame = rd_place_id(life->map.at[i]);
		/* Blocks of one frame are mostly in a row. */
		if (rd_place_kind(life->map.at[i]) != RD_OWN || frame == last)
			continue;
		last = frame;
		if (rd_frame_is_packed(frame))
			r = see_pack(count, frame, life->from, life->end);
		else
			see(count, frame, life->from, life->end);
	}
	return r;
}

/* --- all */

static int count_slice(struct count *count, rd_dependents_fn *fn, void *ctx)
{
	size_t i;
	int r;

	memset(count->seen, 0, SLICE * sizeof(*count->seen));
	count->base = 0;
	count->next_slice = U64_MAX;
	r = rd_lives(count->pool, see_life, count);
	for (i = 0; i < SLICE && !r; i++)
		if (count->seen[i].nr.versions)
			r = fn(ctx, count->first + i, &count->seen[i].nr);
	return r;
}

int rd_dependents_count(struct rd_pool *pool, rd_dependents_fn *fn, void *ctx)
{
	struct count count = { .pool = pool };
	int r = 0;

	count.seen = malloc(SLICE * sizeof(*count.seen));
	if (!count.seen)
		return -ENOMEM;
	while (!r && count.first != U64_MAX) {
		r = count_slice(&count, fn, ctx);
		count.first = count.next_slice;
	}
	free(count.seen);
	return r;
}
