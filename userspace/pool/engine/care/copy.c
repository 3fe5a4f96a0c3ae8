// SPDX-License-Identifier: GPL-2.0
/* Copies of frames, brought up to date: see copy.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/pace.h"
#include "base/sort.h"
#include "pool/catalog/recipes.h"
#include "pool/engine/read/blocks.h"
#include "copy.h"

#define MAX_TRIES	5
#define NR_LOST		(1U << 23)

/* A frame of the pool on its way. */
struct item {
	struct rd_copy_choice *choice;
	u32 to;
	unsigned int nr;	/* blocks that are sound */
	struct rd_fp fps[RD_SEG_BLOCKS];	/* of these; zeros: no copy */
	struct rd_fp live[RD_SEG_BLOCKS];	/* of all that recipes have */
};

struct copy {
	struct rd_pool *pool;
	struct rd_pace *pace;
	struct rd_copy_report *report;
	struct rd_copies copies;
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	struct rd_copy_choice *choices;
	size_t nr_choices;
	/*
	 * A bit for each block that was found damaged in the pool, by its fingerprint: it may have
	 * been elsewhere when it was copied. Some others seem to be damaged as well.
	 */
	u64 *lost;
	bool *stays;		/* the copies that may have fingerprints that are lost */
	u32 next_free;
	u8 *data;		/* a frame */
	unsigned int nr;
	struct item items[RD_COPIES_BATCH];
};

/* --- reading */

int rd_copy_live_fps(struct rd_pool *pool, u64 frame, struct rd_fp fps[RD_SEG_BLOCKS],
		     unsigned int *ret_lost)
{
	struct rd_slots live;
	unsigned int i;
	int r = rd_sql_look(pool->sql, rd_frame_live_slots(pool->sql, frame, &live));

	if (r)
		return r;
	rd_area_get_fps(&pool->area, frame, 1, fps);
	*ret_lost = 0;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_slots_test(&live, i))
			memset(&fps[i], 0, sizeof(fps[i]));
		else
			*ret_lost += rd_fp_is_zero(&fps[i]);
	return r;
}

/*
 * Read what lives in a frame: at once, as most of it does mostly, or each block where it is a pack,
 * or a part of it cannot be read. That part is zeros.
 */
static int read_content(struct copy *copy, u64 frame, const struct item *item)
{
	rd_place places[RD_SEG_BLOCKS];
	unsigned int i;
	int r;

	if (!rd_frame_is_packed(frame) &&
	    !rd_area_read(&copy->pool->area, copy->data, RD_SEG_SIZE, rd_frame_offset(frame)))
		return 0;
	memset(copy->data, 0, RD_SEG_SIZE);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		places[i] = rd_fp_is_zero(&item->fps[i]) ? 0 : rd_place_make(RD_OWN, frame, i);
	rd_blocks_forget(copy->blocks);
	r = rd_blocks_read_all(copy->blocks, places, RD_SEG_BLOCKS, copy->data);
	return r < 0 ? r : 0;
}

/* Only what is sound is copied. Returns how many blocks are not. */
static unsigned int leave_damaged(struct copy *copy, struct item *item)
{
	struct rd_fp found[RD_SEG_BLOCKS];
	unsigned int i, nr = 0;

	item->nr = 0;
	rd_fp_blocks(copy->hasher, copy->data, RD_SEG_BLOCKS, found);
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_fp_is_zero(&item->fps[i]))
			continue;
		if (rd_fp_equal(&found[i], &item->fps[i])) {
			item->nr++;
			continue;
		}
		memset(&item->fps[i], 0, sizeof(item->fps[i]));
		nr++;
	}
	return nr;
}

static u64 *lost_bit(const struct copy *copy, const struct rd_fp *fp, u64 *ret_mask)
{
	u32 key;

	memcpy(&key, fp->b, sizeof(key));
	*ret_mask = 1ULL << key % 64;
	return &copy->lost[key % NR_LOST / 64];
}

static void note_lost(struct copy *copy, const struct item *item)
{
	unsigned int slot;
	u64 mask, *bits;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (!rd_fp_equal(&item->live[slot], &item->fps[slot])) {
			bits = lost_bit(copy, &item->live[slot], &mask);
			*bits |= mask;
		}
}

/* May the copy @i have content that is damaged in the pool, wherever that is? */
static bool has_lost(struct copy *copy, u32 i)
{
	const struct rd_fp *fps = rd_copies_fps(&copy->copies, i);
	unsigned int slot;
	u64 mask;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (!rd_fp_is_zero(&fps[slot]) && *lost_bit(copy, &fps[slot], &mask) & mask)
			return true;
	return copy->stays[i];
}

/*
 * Read what recipes have of @frame, and find how many blocks of it are damaged. No lock keeps
 * others from freeing it meanwhile: where they did, other fingerprints live by then.
 */
static int read_frame(struct copy *copy, u64 frame, struct item *item, unsigned int *ret_damaged)
{
	struct rd_fp now[RD_SEG_BLOCKS];
	unsigned int lost, lost_now, tries;
	int r = rd_copy_live_fps(copy->pool, frame, item->live, &lost);

	for (tries = 0; !r && tries < MAX_TRIES; tries++) {
		memcpy(item->fps, item->live, sizeof(item->fps));
		item->nr = 0;
		*ret_damaged = lost;
		if (!rd_is_zero(item->live, sizeof(item->live))) {
			r = rd_failpoint("copies-content");
			if (!r)
				r = read_content(copy, frame, item);
			if (r)
				break;
			*ret_damaged += leave_damaged(copy, item);
		}
		if (!*ret_damaged)
			break;
		r = rd_copy_live_fps(copy->pool, frame, now, &lost_now);
		if (r || (lost == lost_now && !memcmp(now, item->live, sizeof(now))))
			break;
		memcpy(item->live, now, sizeof(now));
		lost = lost_now;
	}
	if (!r && *ret_damaged)
		note_lost(copy, item);
	/* Behind it: what was looked up before a sleep may be another one by then. */
	rd_pace(copy->pace, item->nr * RD_BLOCK_SIZE);
	return r;
}

/* --- what is there */

static struct rd_copy_choice *find_choice(struct copy *copy, u64 frame)
{
	size_t low = rd_count_below(copy->nr_choices, i, copy->choices[i].frame < frame);

	return low < copy->nr_choices && copy->choices[low].frame == frame ?
		&copy->choices[low] : NULL;
}

/* Unless it has what is damaged in the pool. @replaced: its frame has a newer one. */
static int drop(struct copy *copy, u32 i, bool replaced)
{
	if (has_lost(copy, i)) {
		copy->report->kept++;
		return 0;
	}
	copy->report->dropped += !replaced;
	return rd_copies_drop(&copy->copies, i);
}

/* May the copy @i have what is damaged in the pool? Which fingerprints are lost is not known. */
static bool has_damaged(struct copy *copy, u32 i, const struct item *item, unsigned int damaged)
{
	const struct rd_fp *fps = rd_copies_fps(&copy->copies, i);
	unsigned int slot;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++) {
		if (rd_fp_equal(&item->live[slot], &item->fps[slot]))
			continue;
		if (rd_fp_equal(&item->live[slot], &fps[slot]))
			return true;
		damaged--;
	}
	return damaged;
}

/* What lives counts most; of two that have as much of it, one has less that is dead. */
static unsigned int count_agreeing(struct copy *copy, u32 i, const struct rd_fp *live)
{
	const struct rd_fp *fps = rd_copies_fps(&copy->copies, i);
	unsigned int slot, nr = 0;

	for (slot = 0; slot < RD_SEG_BLOCKS; slot++)
		if (rd_fp_equal(&fps[slot], &live[slot]))
			nr += rd_fp_is_zero(&live[slot]) ? 1 : RD_SEG_BLOCKS + 1;
	return nr;
}

/* A crash has left both, the older one and that which replaces it, in any order. */
static int choose_newer(struct copy *copy, struct rd_copy_choice *choice, u32 i)
{
	struct rd_fp *live = copy->items[0].live;	/* no batch has begun */
	unsigned int lost;
	int r = rd_copy_live_fps(copy->pool, choice->frame, live, &lost);

	if (!r && count_agreeing(copy, i, live) > count_agreeing(copy, choice->at, live))
		choice->at = i;
	return r;
}

/* Is there a copy at @i? *@ret_choice: NULL, if its frame was not chosen. */
static bool look_at(struct copy *copy, u32 i, u64 *ret_frame, struct rd_copy_choice **ret_choice)
{
	unsigned int blocks;

	*ret_frame = rd_copies_frame(&copy->copies, i, &blocks);
	*ret_choice = *ret_frame == U64_MAX ? NULL : find_choice(copy, *ret_frame);
	return *ret_frame != U64_MAX;
}

/* Find the copies of the frames that were chosen. */
static int find_copies(struct copy *copy)
{
	struct rd_copy_choice *choice;
	u64 frame;
	u32 i;
	int r = 0;

	for (i = 0; i < copy->copies.nr_frames && !r; i++) {
		if (!look_at(copy, i, &frame, &choice) || !choice)
			continue;
		if (choice->at == RD_COPY_NOWHERE)
			choice->at = i;
		else
			r = choose_newer(copy, choice, i);
	}
	return r;
}

/* Is the copy of a frame there, and still that of all that it has? */
static int is_current(struct copy *copy, const struct rd_copy_choice *choice, struct rd_fp *live,
		      bool *ret)
{
	unsigned int lost;
	int r = rd_copy_live_fps(copy->pool, choice->frame, live, &lost);

	*ret = !r && choice->at != RD_COPY_NOWHERE &&
		!memcmp(rd_copies_fps(&copy->copies, choice->at), live, RD_FPS_SIZE);
	return r;
}

/* Read a frame that was not chosen: the pool has to be able to do without its copy @i. */
static int read_unwanted(struct copy *copy, u32 i, u64 frame)
{
	struct item *item = &copy->items[0];
	unsigned int damaged;
	int r = read_frame(copy, frame, item, &damaged);

	if (!r)
		copy->stays[i] = has_damaged(copy, i, item, damaged);
	return r;
}

/*
 * Find what is damaged in the pool, before any copy goes: of frames that have a copy which may go,
 * and of those that are to get one. Their blocks may have been where others are now.
 */
static int find_lost(struct copy *copy)
{
	u32 i, nr = copy->copies.nr_frames;
	struct rd_copy_choice *choice;
	unsigned int damaged;
	bool current;
	u64 frame;
	size_t at;
	int r = 0;

	for (at = 0; at < copy->nr_choices && !r; at++) {
		r = is_current(copy, &copy->choices[at], copy->items[0].live, &current);
		if (!r && !current)
			r = read_frame(copy, copy->choices[at].frame, &copy->items[0], &damaged);
		if (!r)
			r = rd_pool_progress(copy->pool, "read", at << RD_SEG_SHIFT,
					     (u64)(copy->nr_choices + nr) << RD_SEG_SHIFT);
	}
	for (i = 0; i < nr && !r; i++) {
		if (look_at(copy, i, &frame, &choice) && !choice)
			r = read_unwanted(copy, i, frame);
		if (!r)
			r = rd_pool_progress(copy->pool, "read", (at + i) << RD_SEG_SHIFT,
					     (u64)(copy->nr_choices + nr) << RD_SEG_SHIFT);
	}
	return r;
}

/* Drop copies of frames that were not chosen, and second ones. */
static int drop_others(struct copy *copy)
{
	struct rd_copy_choice *choice;
	u64 frame;
	u32 i;
	int r = 0;

	for (i = 0; i < copy->copies.nr_frames && !r; i++)
		if (look_at(copy, i, &frame, &choice) && !(choice && choice->at == i))
			r = drop(copy, i, false);
	return r ? r : rd_copies_sync(&copy->copies);
}

/* -ENOSPC: there is no free frame. */
static int find_free(struct copy *copy, u32 *ret)
{
	unsigned int blocks;

	for (; copy->next_free < copy->copies.nr_frames; copy->next_free++)
		if (rd_copies_frame(&copy->copies, copy->next_free, &blocks) == U64_MAX) {
			*ret = copy->next_free++;
			return 0;
		}
	return rd_err(-ENOSPC, "the device of the copies is too small");
}

/* --- writing */

static int write_content(struct copy *copy, const struct item *item)
{
	unsigned int i, first;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (rd_fp_is_zero(&item->fps[i]))
			continue;
		for (first = i; i < RD_SEG_BLOCKS && !rd_fp_is_zero(&item->fps[i]); i++)
			;
		r = rd_copies_write(&copy->copies, item->to, first, i - first,
				    copy->data + (size_t)first * RD_BLOCK_SIZE);
	}
	rd_pace(copy->pace, item->nr * RD_BLOCK_SIZE);
	copy->report->copied += item->nr;
	return r;
}

static int enter_all(struct copy *copy)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < copy->nr && !r; i++)
		r = rd_copies_write_fps(&copy->copies, copy->items[i].to, copy->items[i].fps);
	if (!r)
		r = rd_copies_sync(&copy->copies);
	for (i = 0; i < copy->nr && !r; i++)
		r = rd_copies_enter(&copy->copies, copy->items[i].to, copy->items[i].choice->frame,
				    copy->items[i].nr);
	return r ? r : rd_copies_sync(&copy->copies);
}

/* Drop what was replaced: then it is free for others. */
static int drop_older(struct copy *copy)
{
	unsigned int i, blocks;
	int r = 0;

	for (i = 0; i < copy->nr && !r; i++)
		if (copy->items[i].choice->at != RD_COPY_NOWHERE)
			r = drop(copy, copy->items[i].choice->at, true);
	if (!r)
		r = rd_copies_sync(&copy->copies);
	for (i = 0; i < copy->nr && !r; i++) {
		u32 at = copy->items[i].choice->at;

		if (at == RD_COPY_NOWHERE ||
		    rd_copies_frame(&copy->copies, at, &blocks) != U64_MAX)
			continue;
		rd_copies_punch(&copy->copies, at);
		copy->next_free = rd_min(copy->next_free, at);
	}
	return r;
}

/* The content of the batch is written. */
static int end_batch(struct copy *copy)
{
	int r;

	if (!copy->nr)
		return 0;
	r = rd_copies_sync(&copy->copies);
	if (!r)
		r = rd_failpoint("copies-enter");
	if (!r)
		r = enter_all(copy);
	if (!r)
		r = rd_failpoint("copies-drop");
	if (!r)
		r = drop_older(copy);
	copy->nr = 0;
	return r;
}

/* Copy a frame whose copy is not there, or is another one by now. */
static int copy_frame(struct copy *copy, struct rd_copy_choice *choice)
{
	struct item *item = &copy->items[copy->nr];
	unsigned int damaged;
	bool current;
	int r;

	item->choice = choice;
	r = is_current(copy, choice, item->live, &current);
	if (r || current)
		return r;
	r = read_frame(copy, choice->frame, item, &damaged);
	if (r)
		return r;
	copy->report->damaged += damaged;
	/* The copy may have what the pool has lost. */
	if (!item->nr || (damaged && choice->at != RD_COPY_NOWHERE))
		return 0;
	r = find_free(copy, &item->to);
	if (!r)
		r = write_content(copy, item);
	if (!r && ++copy->nr == RD_COPIES_BATCH)
		r = end_batch(copy);
	return r;
}

static int copy_all(struct copy *copy)
{
	size_t i;
	int r = 0, ended;

	for (i = 0; i < copy->nr_choices && !r; i++) {
		r = copy_frame(copy, &copy->choices[i]);
		if (!r)
			r = rd_pool_progress(copy->pool, "copy", i << RD_SEG_SHIFT,
					     (u64)copy->nr_choices << RD_SEG_SHIFT);
	}
	/* No room for more is no error of what is there. */
	ended = !r || r == -ENOSPC || r == -EINTR ? end_batch(copy) : 0;
	return r ? r : ended;
}

/* Give back what was dropped, now or by a command that died since. */
static void punch_free(struct copy *copy)
{
	unsigned int blocks;
	u64 bytes, end;
	bool is_device;
	u32 i;

	if (copy->copies.is_device || rd_size_of(copy->copies.fd, &bytes, &is_device))
		return;
	end = rd_min(copy->copies.nr_frames, rd_frames_in(bytes) + 1);
	for (i = 0; i < end; i++)
		if (rd_copies_frame(&copy->copies, i, &blocks) == U64_MAX)
			rd_copies_punch(&copy->copies, i);
}

/* --- all */

static int update(struct copy *copy, u64 max)
{
	u32 nr = copy->copies.nr_frames;
	/* A copy that another one replaces is there as long as that is not. */
	u64 room = nr > 2 * RD_COPIES_BATCH ? nr - RD_COPIES_BATCH : nr / 2;
	u64 frames, blocks;
	int r;

	copy->blocks = rd_blocks_new(copy->pool);
	copy->hasher = rd_hasher_new();
	copy->data = rd_alloc_direct(RD_SEG_SIZE);
	copy->lost = calloc(1, NR_LOST / 8);
	copy->stays = calloc(nr, sizeof(*copy->stays));
	if (!copy->blocks || !copy->hasher || !copy->data || !copy->lost || !copy->stays)
		return -ENOMEM;
	r = rd_copy_choose(copy->pool, room, max, &copy->choices, &copy->nr_choices);
	rd_copies_count(&copy->copies, &frames, &blocks);
	if (!r)
		r = find_copies(copy);
	if (!r && frames)
		r = find_lost(copy);
	if (!r)
		r = drop_others(copy);
	if (!r)
		punch_free(copy);
	if (!r)
		r = copy_all(copy);
	rd_copies_count(&copy->copies, &copy->report->frames, &copy->report->blocks);
	return r;
}

int rd_copy_update(struct rd_pool *pool, u64 max, struct rd_pace *pace,
		   struct rd_copy_report *report)
{
	RD_FREE struct copy *copy = calloc(1, sizeof(*copy));
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	memset(report, 0, sizeof(*report));
	if (!copy)
		return -ENOMEM;
	copy->pool = pool;
	copy->pace = pace;
	copy->report = report;
	r = rd_pool_lock(pool, &lock, RD_LOCK_PASS, 0, true, "the copies");
	if (!r) {
		r = rd_copies_open(&copy->copies, pool->path, pool->area.super.uuid, true);
		if (r)
			rd_err(0, "the copies were not brought up to date");
		else
			r = update(copy, max);
		rd_copies_close(&copy->copies);
	}
	rd_lock_drop(&lock);
	rd_blocks_free(copy->blocks);
	rd_hasher_free(copy->hasher);
	free(copy->data);
	free(copy->lost);
	free(copy->stays);
	free(copy->choices);
	return r;
}

/* --- making and removing them */

static int make(struct rd_pool *pool, const char *path)
{
	RD_FREE char *link = rd_path_in(pool->path, "copies");
	RD_FREE char *target = NULL;
	int r;

	if (!link)
		return -ENOMEM;
	r = rd_copies_format(path, pool->area.super.uuid);
	if (r)
		return r;
	/* An absolute path stays as it is: the target of a link in /dev may change. */
	target = path[0] == '/' ? strdup(path) : realpath(path, NULL);
	if (!target || symlink(target, link))
		return rd_err(-errno, "cannot make '%s'", link);
	return rd_sync_directory(pool->path);
}

int rd_copy_make(struct rd_pool *pool, const char *path)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r = rd_pool_lock(pool, &lock, RD_LOCK_PASS, 0, true, "the copies");

	if (!r)
		r = make(pool, path);
	rd_lock_drop(&lock);
	return r;
}

/* A file that they are in goes as well; of a device only what says that it has them. */
int rd_copy_remove(struct rd_pool *pool)
{
	RD_FREE char *path = rd_path_in(pool->path, "copies");
	RD_FREE char *target = NULL;
	struct rd_lock lock = RD_LOCK_NONE;
	struct rd_copies copies;
	int r;

	if (!path)
		return -ENOMEM;
	r = rd_pool_lock(pool, &lock, RD_LOCK_PASS, 0, true, "the copies");
	if (r)
		return r;
	target = realpath(path, NULL);
	r = rd_copies_open(&copies, pool->path, pool->area.super.uuid, true);
	if (!r) {
		r = rd_copies_erase(&copies);
		if (!r && !copies.is_device && target && unlink(target))
			r = rd_err(-errno, "cannot remove '%s'", target);
		rd_copies_close(&copies);
	} else {
		/* Where they cannot be used, which was said, only the link goes. */
		r = r == -ENOMEM ? r : 0;
	}
	if (!r && unlink(path) && errno != ENOENT)
		r = rd_err(-errno, "cannot remove '%s'", path);
	rd_lock_drop(&lock);
	return r;
}
