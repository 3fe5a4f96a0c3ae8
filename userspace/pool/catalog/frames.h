/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who has which frame: the tables extent, reserved, packing, here and queue of
 * the catalog. A frame is
 *
 *	free		in an extent
 *	reserved	a session may write to it
 *	used		some of its slots are recipes'
 *	the journal's
 *
 * and slots that lost their recipe are in the queue until they are given back.
 * All of it happens in the caller's transaction.
 */
#ifndef RD_FRAMES_H
#define RD_FRAMES_H

#include "pool/data/map.h"
#include "sql.h"

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

/*
 * Take up to @want frames in a row, as many as there are, for @session, and leave
 * @keep for others. -ENOSPC: there are no more than these. -EUCLEAN, after a word:
 * somebody has what is said to be free.
 */
int rd_frames_reserve(struct rd_sql *sql, i64 session, u64 want, u64 keep, u64 *ret_start,
		      u64 *ret_len);

/*
 * How many are kept of @nr_frames for what gives frames back: for the journal to
 * grow until a new one is begun, for that one, and for compaction.
 */
int rd_frames_to_keep(struct rd_sql *sql, u64 nr_frames, u64 *ret);

/* Frame @frame, which is reserved, is a recipe's now. */
int rd_frames_use(struct rd_sql *sql, u64 frame);

/* These are reserved and were never written to: they are free again. */
int rd_frames_return(struct rd_sql *sql, u64 start, u64 len);

/*
 * @session is over. What it had reserved has perhaps been written to: it goes
 * to the queue.
 */
int rd_frames_release(struct rd_sql *sql, i64 session);

/*
 * Keep what is in frame @frame for another state of the pool (see adopt.h): it is not given
 * out or filled, and nothing of it is given back that is not in use in this state.
 */
int rd_frames_keep(struct rd_sql *sql, u64 frame);

/* No recipe has these slots any more; there may be none. */
int rd_frames_queue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots);
int rd_frames_queue_whole(struct rd_sql *sql, u64 frame);

/* How many slots are in the queue. */
int rd_frames_queued(struct rd_sql *sql, u64 *ret);

/* Nothing is in these, nor queued: they are free. */
int rd_frames_free(struct rd_sql *sql, u64 start, u64 len);

#endif
