/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Frames that a session fills with packs, or with raw blocks of many segments, bit by bit:
 * reserved, and in use. The session writes only to slots that nobody has and that are not in
 * the queue. When it leaves a frame, what nobody has there is queued: it may have been written
 * to.
 *
 * The table tail has frames that sessions have left with room behind a slot, to which nothing
 * was written. The next session goes on there; else each snapshot, however small, would take
 * a frame of its own.
 *
 * The caller is in a transaction.
 */
#ifndef RD_FILLING_H
#define RD_FILLING_H

#include "pool/data/slots.h"
#include "db.h"

/*
 * Reserve the frame of packs with the longest tail for @session, or the one of raw blocks; both
 * are not mixed. -ENOENT: there is none.
 */
int rd_filling_take_tail(struct rd_sql *sql, i64 session, u64 *ret_frame, unsigned int *ret_next);
int rd_filling_take_raw_tail(struct rd_sql *sql, i64 session, u64 *ret_frame,
			     unsigned int *ret_next);

/* Leave @frame, to which nothing was written from slot @next on. */
int rd_filling_leave_tail(struct rd_sql *sql, u64 frame, unsigned int next);

/* Fill @frame no further: it is to be emptied. */
int rd_filling_drop_tail(struct rd_sql *sql, u64 frame);

/* The slot from which on nothing was written to @frame. -ENOENT: it has no tail. */
int rd_filling_tail_of(struct rd_sql *sql, u64 frame, i64 *ret_next);

/*
 * Reserve the frame that has the fingerprints of the fewest packs, if it has room, and say
 * which slots of it may be written to. -ENOENT: there is none.
 */
int rd_filling_take_fps(struct rd_sql *sql, i64 session, u64 *ret_frame,
			struct rd_slots *ret_free);

/* Leave @frame. */
int rd_filling_leave(struct rd_sql *sql, u64 frame);

/* Leave all that @session has reserved. */
int rd_filling_leave_all(struct rd_sql *sql, i64 session);

/* Find the slots of @frame that nobody has and that are not in the queue. */
int rd_filling_free_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret);

#endif
