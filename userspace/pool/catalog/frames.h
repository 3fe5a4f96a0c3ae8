/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose each frame is: the tables extent, reserved, packing, kept and queue of the catalog.
 * A frame is
 *
 *	free		in an extent
 *	reserved	a session may write to it
 *	used		recipes have some of its slots (owners.h)
 *	the journal's
 *	kept		for another state of the pool: see rd_frames_keep()
 *
 * Slots that lost their recipe are in the queue until they are given back. The frame that
 * compaction fills next is a used one, and in the table packing.
 *
 * All of it happens in the caller's transaction.
 */
#ifndef RD_FRAMES_H
#define RD_FRAMES_H

#include "pool/data/map.h"
#include "db.h"

struct rd_slots {
	u64 bits[RD_SEG_BLOCKS / 64];
};

static inline void rd_slots_set(struct rd_slots *slots, unsigned int slot)
{
	slots->bits[slot / 64] |= 1ULL << slot % 64;
}

static inline bool rd_slots_test(const struct rd_slots *slots, unsigned int slot)
{
	return slots->bits[slot / 64] >> slot % 64 & 1;
}

static inline bool rd_slots_are_none(const struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		if (slots->bits[i])
			return false;
	return true;
}

/* Rows that are a frame each; or some frames in a row. */
int rd_next_frame(struct rd_row *rows, u64 *ret);

struct rd_extent {
	u64 start, len;
};

int rd_next_extent(struct rd_row *rows, struct rd_extent *ret);

/*
 * Reserve up to @want frames in a row, as many as there are, for @session, and leave
 * @keep for others. -ENOSPC: there are no more than these. -EUCLEAN, after a word: a frame
 * that is said to be free is in use.
 */
int rd_frames_reserve(struct rd_sql *sql, i64 session, u64 want, u64 keep, u64 *ret_start,
		      u64 *ret_len);

/*
 * Say how many of @nr_frames are kept for what gives frames back: for the journal to
 * grow until a new one is begun, for that one, and for compaction.
 */
int rd_frames_to_keep(struct rd_sql *sql, u64 nr_frames, u64 *ret);

/* Make frame @frame, which is reserved, one that recipes use. */
int rd_frames_use(struct rd_sql *sql, u64 frame);

/* Free frames that are reserved and were never written to. */
int rd_frames_return(struct rd_sql *sql, u64 start, u64 len);

/*
 * Queue what @session, which is over, had reserved: it has perhaps been written to.
 */
int rd_frames_release(struct rd_sql *sql, i64 session);

/* --- free frames */

/* Free frames that have nothing in them, nor in the queue. */
int rd_frames_free(struct rd_sql *sql, u64 start, u64 len);

/* Ask for what is free: rd_next_extent(). */
int rd_frames_extents(struct rd_sql *sql, struct rd_row **ret);

/* Of a catalog that is made anew: nothing is free until rd_frames_free() is told so. */
int rd_frames_forget_free(struct rd_sql *sql);

int rd_frames_nr_free(struct rd_sql *sql, u64 *ret);

/* --- the queue */

/* Queue slots that no recipe has any more; there may be none. */
int rd_frames_queue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots);
int rd_frames_queue_whole(struct rd_sql *sql, u64 frame);

/* How many slots are in the queue; how many frames are; which slots of @frame. */
int rd_frames_queued(struct rd_sql *sql, u64 *ret);
int rd_frames_nr_queued(struct rd_sql *sql, u64 *ret);
int rd_frames_queued_of(struct rd_sql *sql, u64 frame, struct rd_slots *ret);

/* --- frames that are kept */

/*
 * Keep what is in frame @frame for another state of the pool (see adopt.h): it is not given
 * out or filled, and nothing of it is given back that is not in use in this state.
 */
int rd_frames_keep(struct rd_sql *sql, u64 frame);

int rd_frames_is_kept(struct rd_sql *sql, u64 frame, bool *ret);
int rd_frames_nr_kept(struct rd_sql *sql, u64 *ret);

/* Stop keeping the first of them. -ENOENT: none is kept. */
int rd_frames_unkeep(struct rd_sql *sql, u64 *ret_frame);

/* --- the frame that compaction fills */

/* The slot that is next. -ENOENT: there is no such frame; the second: it is not @frame. */
int rd_packing_find(struct rd_sql *sql, u64 *ret_frame, unsigned int *ret_next);
int rd_packing_next(struct rd_sql *sql, u64 frame, i64 *ret_next);

/* None is, and then @frame is, from slot @next on. */
int rd_packing_end(struct rd_sql *sql);
int rd_packing_begin(struct rd_sql *sql, u64 frame, unsigned int next);

/* --- whose frames are */

/* Ask for frames that recipes or the journal have, in order: rd_next_named(). */
int rd_frames_named(struct rd_sql *sql, struct rd_row **ret);
int rd_next_named(struct rd_row *rows, u64 *ret_frame, bool *ret_by_recipes);

/* Ask for these, and frames that the queue has: rd_next_frame(). */
int rd_frames_not_free(struct rd_sql *sql, struct rd_row **ret);

/* How many frames the pool has, by what the catalog says: each is in one of its tables. */
int rd_frames_nr_known(struct rd_sql *sql, i64 *ret);

/* A frame in the queue: these slots are given back, and @live others are recipes'. */
struct rd_queued {
	u64 frame;
	struct rd_slots slots;
	unsigned int live;
};

/* Read the first frames of the queue, up to @max, in order. */
int rd_frames_read_queue(struct rd_sql *sql, struct rd_queued *queued, unsigned int max,
			 unsigned int *ret_nr);
/* These slots have been given back: others of the frame may have been queued since. */
int rd_frames_unqueue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots);
/* All of the frame has been given back: it is free. */
int rd_frames_unqueue_whole(struct rd_sql *sql, u64 frame);
/* Does compaction fill @frame? */
bool rd_frames_is_packing(struct rd_sql *sql, u64 frame);

/* The first frames from @from on that @session has reserved. -ENOENT. */
int rd_frames_reserved(struct rd_sql *sql, i64 session, u64 from, u64 *ret_start,
		       u64 *ret_len);
/* Does a recipe have a slot of @frame? */
int rd_frames_is_owned(struct rd_sql *sql, u64 frame, bool *ret);

#endif
