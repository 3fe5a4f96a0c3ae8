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
#include "base/inject.h"
#include "base/pace.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "twins_filter.h"
#include "twins_parts.h"

#ifdef RD_TEST
#define MAX_SPAN	8
#else
#define MAX_SPAN	RD_GROUP_FRAMES
#endif

/* Who has the slots of a frame. */
struct frame {
	bool any;
	rd_block_id blocks[RD_SEG_BLOCKS];	/* 0: nobody; recipes have numbers from 1 on */
	u32 lives[RD_SEG_BLOCKS];
};

struct stream {
	const struct rd_twins_stream *what;
	struct rd_pool *pool;
	struct rd_twins_counts *counts;
	u64 next;			/* frame; U64_MAX: there is none */
	u64 done, all;			/* frames */
	/* The recipe that was asked for last, and how long it lives. */
	struct rd_recipe recipe;
	u32 lives;
	/* The window. */
	u64 first;
	unsigned int span;
	bool has_fps;
	bool cut_keys;			/* a test wants to see different blocks with the same key */
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

static unsigned int max_span(const struct stream *stream)
{
	return rd_pace_at_once(stream->what->pace, MAX_SPAN * RD_FPS_SIZE) / RD_FPS_SIZE;
}

static bool fits(const struct stream *stream, u64 frame)
{
	return frame - stream->first < max_span(stream) &&
		frame / RD_GROUP_FRAMES == stream->first / RD_GROUP_FRAMES;
}

static int find_frames(struct stream *stream)
{
	RD_ROW struct rd_row *rows = NULL;
	u64 frame, slots;
	int r;

	stream->span = 0;
	r = rd_frames_filled(stream->pool->sql, &rows, stream->next, max_span(stream));
	stream->next = U64_MAX;
	while (!r && (r = rd_next_filled(rows, &frame, &slots)) > 0) {
		r = 0;
		stream->next = frame + 1;
		if (!rd_area_has_frame(&stream->pool->area, frame))
			continue;
		if (!stream->span)
			stream->first = frame;
		if (!fits(stream, frame)) {
			stream->next = frame;
			return 0;
		}
		while (stream->span <= frame - stream->first)
			stream->frames[stream->span++] = (struct frame){ .any = false };
		stream->frames[frame - stream->first].any = true;
		stream->done++;
	}
	return r;
}

static bool is_hit(const struct stream *stream, const struct rd_fp fps[RD_SEG_BLOCKS])
{
	unsigned int slot;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (rd_twins_filter_has(stream->what->filter, &fps[slot]))
			return true;
	return false;
}

static int add_owners(struct stream *stream, u64 frame)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 owner;
	int r = rd_frame_recipes(stream->pool->sql, &rows, frame);

	while (!r && (r = rd_next_id(rows, &owner)) > 0)
		r = rd_owner_is_pack(owner) ? 0 : add_owner(stream, frame, owner);
	return r;
}

/* With a filter, most frames have nothing that is in it, and their owners are not looked up. */
static int add_hits(struct stream *stream)
{
	unsigned int i;
	int r = 0;

	stream->recipe.id = 0;
	for (i = 0; i < stream->span && !r; i++) {
		if (!stream->frames[i].any)
			continue;
		stream->frames[i].any = false;
		/* What cannot be read counts as such. */
		if (!stream->has_fps || is_hit(stream, stream->fps[i]))
			r = add_owners(stream, stream->first + i);
	}
	return r;
}

/* A slot that gets another owner behind the read gets a fresh one. */
static int find_window(struct stream *stream)
{
	struct rd_sql *sql = stream->pool->sql;
	int r = rd_sql_look(sql, find_frames(stream));

	if (r || !stream->span)
		return r;
	stream->has_fps = stream->what->filter &&
		!rd_area_read_fps(&stream->pool->area, stream->first, stream->span,
				  stream->fps[0]);
	return rd_sql_look(sql, add_hits(stream));
}

/* --- what is there */

static int emit_block(struct stream *stream, const struct frame *frame, unsigned int slot,
		      const struct rd_fp *fp)
{
	const struct rd_twins_stream *what = stream->what;
	struct rd_twin_entry entry = {
		.lives = frame->lives[slot],
		.block = frame->blocks[slot],
	};

	if (what->filter && !rd_fp_is_zero(fp) && !rd_twins_filter_has(what->filter, fp))
		return 0;
	stream->counts->blocks++;
	stream->counts->newest += entry.lives == RD_LIVES_NEWEST;
	if (rd_fp_is_zero(fp)) {
		stream->counts->unreadable++;
		return 0;
	}
	memcpy(entry.key, fp->b, stream->cut_keys ? 1 : sizeof(entry.key));
	return what->emit(what->ctx, &entry);
}

static int emit_window(struct stream *stream)
{
	unsigned int i, slot;
	int r = 0;

	/* Fingerprints that cannot be read are zeros. */
	if (!stream->has_fps)
		rd_area_get_fps(&stream->pool->area, stream->first, stream->span, stream->fps[0]);
	rd_pace(stream->what->pace, stream->span * RD_FPS_SIZE);
	for (i = 0; i < stream->span; i++)
		for (slot = 0; slot < RD_SEG_BLOCKS && stream->frames[i].any && !r; slot++)
			if (stream->frames[i].blocks[slot])
				r = emit_block(stream, &stream->frames[i], slot,
					       &stream->fps[i][slot]);
	return r;
}

static int run(struct stream *stream)
{
	struct rd_pool *pool = stream->pool;
	int r = 0;

	while (!r && stream->next != U64_MAX) {
		r = rd_failpoint("twins-read");
		if (r)
			break;
		r = find_window(stream);
		if (!r && stream->span)
			r = emit_window(stream);
		if (!r)
			r = rd_twins_check(pool, stream->what->until_us);
		if (!r)
			r = rd_pool_progress(pool, "find", stream->done << RD_SEG_SHIFT,
					     rd_max(stream->all, stream->done) << RD_SEG_SHIFT);
	}
	return r;
}

int rd_twins_stream(const struct rd_twins_stream *what)
{
	RD_FREE struct stream *stream = calloc(1, sizeof(*stream));
	int r;

	if (!stream)
		return -ENOMEM;
	stream->what = what;
	stream->pool = what->pool;
	stream->counts = what->counts;
	stream->cut_keys = rd_failpoint("twins-key");
	stream->fps = rd_alloc_direct(MAX_SPAN * RD_FPS_SIZE);
	if (!stream->fps)
		return -ENOMEM;
	r = rd_frames_with_fps(what->pool->sql, &stream->all);
	if (!r)
		r = run(stream);
	free(stream->fps);
	return r;
}
