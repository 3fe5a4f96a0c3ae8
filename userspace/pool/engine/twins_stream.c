// SPDX-License-Identifier: GPL-2.0
/*
 * All blocks that recipes own, in the order in which they are on the disk: see twins.h.
 *
 * A window is some frames of a group: which recipes have their slots is read in one short
 * transaction, and their fingerprints are one read.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/pace.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "twins_parts.h"

#define MAX_SPAN	64

/* Who has the slots of a frame. */
struct frame {
	bool any;
	rd_block_id blocks[RD_SEG_BLOCKS];	/* 0: nobody; recipes have numbers from 1 on */
	u32 lives[RD_SEG_BLOCKS];
};

struct stream {
	struct rd_pool *pool;
	struct rd_pace *pace;
	u64 until_us;
	struct rd_twins_counts *counts;
	u64 next;			/* frame; U64_MAX: there is none */
	u64 done, all;			/* frames */
	/* The recipe that was asked for last, and how long it lives. */
	struct rd_recipe recipe;
	u32 lives;
	/* The window. */
	u64 first;
	unsigned int span;
	struct frame frames[MAX_SPAN];
	struct rd_fp (*fps)[RD_SEG_BLOCKS];
};

static int load_recipe(struct stream *stream, i64 id)
{
	struct rd_sql *sql = stream->pool->sql;
	i64 last = 0;
	u64 latest;
	int r;

	if (stream->recipe.id == id)
		return 0;
	stream->recipe.id = 0;
	r = rd_recipe_latest_refs(sql, id, &latest);
	if (!r && !latest)
		r = rd_recipe_last_seen(sql, id, &last);
	/* No row of a version, no time: it goes soon. */
	if (r == -ENOENT)
		r = 0;
	stream->lives = latest ? RD_LIVES_NEWEST :
		last < 0 ? 0 : rd_min(last, RD_LIVES_NEWEST - 1);
	if (!r)
		r = rd_recipe_load(sql, id, &stream->recipe);
	if (r)
		stream->recipe.id = 0;
	return r;
}

static int add_owner(struct stream *stream, u64 frame, i64 id)
{
	struct frame *to = &stream->frames[frame - stream->first];
	unsigned int i;
	int r;

	r = load_recipe(stream, id);
	/* One that cannot be read keeps what it has. */
	if (r)
		return r == -EUCLEAN || r == -ENOENT ? 0 : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = stream->recipe.map.at[i];

		if (rd_place_kind(place) != RD_OWN || rd_place_id(place) != frame)
			continue;
		to->any = true;
		to->blocks[rd_place_slot(place)] = rd_block_id_make(id, i);
		to->lives[rd_place_slot(place)] = stream->lives;
	}
	return 0;
}

static bool fits(const struct stream *stream, u64 frame)
{
	return frame - stream->first < MAX_SPAN &&
		frame / RD_GROUP_FRAMES == stream->first / RD_GROUP_FRAMES;
}

static int find_window(struct stream *stream)
{
	RD_ROW struct rd_row *rows = NULL;
	u64 frame, last = U64_MAX;
	i64 owner;
	int r;

	stream->span = 0;
	stream->recipe.id = 0;
	r = rd_owners(stream->pool->sql, &rows, stream->next);
	stream->next = U64_MAX;
	while (!r && (r = rd_next_owner(rows, &frame, &owner)) > 0) {
		r = 0;
		if (!rd_area_has_frame(&stream->pool->area, frame) || rd_owner_is_pack(owner))
			continue;
		if (!stream->span)
			stream->first = frame;
		if (!fits(stream, frame)) {
			stream->next = frame;
			break;
		}
		while (stream->span <= frame - stream->first)
			stream->frames[stream->span++] = (struct frame){ .any = false };
		stream->done += frame != last;
		last = frame;
		r = add_owner(stream, frame, owner);
	}
	return r;
}

static int emit_block(struct stream *stream, const struct frame *frame, unsigned int slot,
		      const struct rd_fp *fp, rd_twin_emit_fn *emit, void *ctx)
{
	struct rd_twin_entry entry = {
		.lives = frame->lives[slot],
		.block = frame->blocks[slot],
	};

	stream->counts->blocks++;
	stream->counts->newest += entry.lives == RD_LIVES_NEWEST;
	if (rd_fp_is_zero(fp)) {
		stream->counts->unreadable++;
		return 0;
	}
	memcpy(entry.key, fp->b, sizeof(entry.key));
	return emit(ctx, &entry);
}

static int emit_window(struct stream *stream, rd_twin_emit_fn *emit, void *ctx)
{
	unsigned int i, slot;
	int r = 0;

	/* Fingerprints that cannot be read are zeros. */
	rd_area_get_fps(&stream->pool->area, stream->first, stream->span, stream->fps[0]);
	rd_pace(stream->pace, stream->span * RD_FPS_SIZE);
	for (i = 0; i < stream->span; i++)
		for (slot = 0; slot < RD_SEG_BLOCKS && stream->frames[i].any && !r; slot++)
			if (stream->frames[i].blocks[slot])
				r = emit_block(stream, &stream->frames[i], slot,
					       &stream->fps[i][slot], emit, ctx);
	return r;
}

static int run(struct stream *stream, rd_twin_emit_fn *emit, void *ctx)
{
	int r = 0;

	while (!r && stream->next != U64_MAX) {
		r = rd_sql_begin_read(stream->pool->sql);
		if (r)
			return r;
		r = find_window(stream);
		rd_sql_end_read(stream->pool->sql);
		if (!r && stream->span)
			r = emit_window(stream, emit, ctx);
		if (!r)
			r = rd_twins_check(stream->pool, stream->until_us);
		if (!r)
			r = rd_pool_progress(stream->pool, "find", stream->done << RD_SEG_SHIFT,
					     rd_max(stream->all, stream->done) << RD_SEG_SHIFT);
	}
	return r;
}

int rd_twins_stream(struct rd_pool *pool, rd_twin_emit_fn *emit, void *ctx,
		    struct rd_pace *pace, u64 until_us, struct rd_twins_counts *counts)
{
	RD_FREE struct stream *stream = calloc(1, sizeof(*stream));
	int r;

	if (!stream)
		return -ENOMEM;
	stream->pool = pool;
	stream->pace = pace;
	stream->until_us = until_us;
	stream->counts = counts;
	stream->fps = rd_alloc_direct(MAX_SPAN * RD_FPS_SIZE);
	if (!stream->fps)
		return -ENOMEM;
	r = rd_frames_with_fps(pool->sql, &stream->all);
	if (!r)
		r = run(stream, emit, ctx);
	free(stream->fps);
	return r;
}
