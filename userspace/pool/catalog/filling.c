// SPDX-License-Identifier: GPL-2.0
/* Frames that a session fills. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "filling.h"
#include "frames.h"
#include "recipes.h"
#include "sql.h"

/* More than a few of a kind say that what comes does not fit, and then they are of no use. */
#define MAX_TAILS	8
/* Fewer slots are not worth a row. */
#define MIN_TAIL	16
/* A frame of fingerprints with more packs is left alone until it has lost some. */
#define MAX_PACKS	224

static int unowned(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	unsigned int i;
	int r = rd_frame_slots(sql, frame, ret);

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		ret->bits[i] = ~ret->bits[i];
	return r;
}

int rd_filling_free_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	struct rd_slots queued;
	unsigned int i;
	int r;

	r = unowned(sql, frame, ret);
	if (!r)
		r = rd_frames_queued_of(sql, frame, &queued);
	for (i = 0; i < RD_SEG_BLOCKS / 64 && !r; i++)
		ret->bits[i] &= ~queued.bits[i];
	return r;
}

/* --- leaving */

/* Queue the slots below @end that nobody has. */
static int queue_unowned(struct rd_sql *sql, u64 frame, unsigned int end)
{
	struct rd_slots slots;
	unsigned int i;
	int r;

	r = unowned(sql, frame, &slots);
	for (i = end; i < RD_SEG_BLOCKS; i++)
		slots.bits[i / 64] &= ~(1ULL << i % 64);
	return r ? r : rd_frames_queue(sql, frame, &slots);
}

static int leave(struct rd_sql *sql, u64 frame)
{
	bool owned;
	int r = rd_frames_is_owned(sql, frame, &owned);

	if (r)
		return r;
	return owned ? queue_unowned(sql, frame, RD_SEG_BLOCKS) :
		rd_frames_queue_whole(sql, frame);
}

int rd_filling_leave(struct rd_sql *sql, u64 frame)
{
	int r = rd_frames_use(sql, frame);

	return r ? r : leave(sql, frame);
}

int rd_filling_leave_all(struct rd_sql *sql, i64 session)
{
	u64 start = 0, len = 0;
	int r;

	while (!(r = rd_frames_reserved(sql, session, start + len, &start, &len))) {
		u64 frame;

		for (frame = start; frame < start + len && !r; frame++)
			r = leave(sql, frame);
		if (r)
			return r;
	}
	return r == -ENOENT ? rd_frames_unreserve_all(sql, session) : r;
}

/* --- tails */

/* Writing destroys what is there: that a tail has it is not proof enough. */
static int check_unused(struct rd_sql *sql, u64 frame, unsigned int next)
{
	struct rd_slots slots;
	int r = rd_filling_free_slots(sql, frame, &slots);

	for (; !r && next < RD_SEG_BLOCKS; next++)
		if (!rd_slots_test(&slots, next))
			r = -EUCLEAN;
	if (r != -EUCLEAN)
		return r;
	rd_err(0, "the catalog lists slots of frame %llu as free and as in use", frame);
	rd_remedy(RD_REMEDY_RECOUNT_FRAMES, NULL, "nothing was written there");
	return r;
}

/* One that has lost all that it had may be on its way to be freed as a whole. */
static const char *const find_pack_tail =
	"SELECT frame, next FROM tail WHERE EXISTS (SELECT 1 FROM slot_owner"
	" WHERE slot_owner.frame = tail.frame AND recipe < 0) ORDER BY next LIMIT 1";
static const char *const find_raw_tail =
	"SELECT frame, next FROM tail WHERE EXISTS (SELECT 1 FROM slot_owner"
	" WHERE slot_owner.frame = tail.frame AND recipe > 0) ORDER BY next LIMIT 1";

static int take_tail(struct rd_sql *sql, const char *find, i64 session, u64 *ret_frame,
		     unsigned int *ret_next)
{
	struct {
		u64 frame, next;
	} tail;
	int r = rd_sql_numbers(sql, &tail, find, "");

	if (r || tail.next >= RD_SEG_BLOCKS)
		return r ? r : -EUCLEAN;
	r = check_unused(sql, tail.frame, tail.next);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM tail WHERE frame = ?", "i", tail.frame);
	if (!r)
		r = rd_frames_reserve_used(sql, session, tail.frame);
	*ret_frame = tail.frame;
	*ret_next = tail.next;
	return r;
}

int rd_filling_take_tail(struct rd_sql *sql, i64 session, u64 *ret_frame, unsigned int *ret_next)
{
	return take_tail(sql, find_pack_tail, session, ret_frame, ret_next);
}

int rd_filling_take_raw_tail(struct rd_sql *sql, i64 session, u64 *ret_frame,
			     unsigned int *ret_next)
{
	return take_tail(sql, find_raw_tail, session, ret_frame, ret_next);
}

/*
 * Count the tails of the kind of @frame. Those of the other kind may stay for ever: in a pool that
 * compresses, raw ones are left by what does not compress, and nothing fills them.
 */
static int count_tails(struct rd_sql *sql, u64 frame, i64 *ret)
{
	return rd_sql_number(sql, ret, "SELECT count(*) FROM tail WHERE"
			     " EXISTS (SELECT 1 FROM slot_owner"
			     "  WHERE slot_owner.frame = tail.frame AND recipe < 0)"
			     " = EXISTS (SELECT 1 FROM slot_owner"
			     "  WHERE slot_owner.frame = ? AND recipe < 0)", "i", (i64)frame);
}

int rd_filling_leave_tail(struct rd_sql *sql, u64 frame, unsigned int next)
{
	bool owned;
	i64 nr;
	int r;

	r = rd_frames_is_owned(sql, frame, &owned);
	if (!r)
		r = count_tails(sql, frame, &nr);
	if (r)
		return r;
	if (!owned || next > RD_SEG_BLOCKS - MIN_TAIL || nr >= MAX_TAILS)
		return rd_filling_leave(sql, frame);
	r = rd_frames_use(sql, frame);
	if (!r)
		r = queue_unowned(sql, frame, next);
	return r ? r : rd_sql_run(sql, "INSERT INTO tail VALUES(?, ?)", "ii", (i64)frame,
				  (i64)next);
}

int rd_filling_drop_tail(struct rd_sql *sql, u64 frame)
{
	return rd_sql_run(sql, "DELETE FROM tail WHERE frame = ?", "i", (i64)frame);
}

int rd_filling_tail_of(struct rd_sql *sql, u64 frame, i64 *ret_next)
{
	return rd_sql_number(sql, ret_next, "SELECT next FROM tail WHERE frame = ?", "i",
			     (i64)frame);
}

/* --- fingerprints */

int rd_filling_take_fps(struct rd_sql *sql, i64 session, u64 *ret_frame,
			struct rd_slots *ret_free)
{
	i64 frame;
	int r;

	r = rd_sql_number(sql, &frame, "SELECT (frame - " RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES) ")"
			  " / 256 AS fps FROM pack GROUP BY fps HAVING count(*) <= "
			  RD_SQL_NUMBER(MAX_PACKS) " AND fps NOT IN (SELECT start FROM reserved)"
			  " AND fps NOT IN (SELECT frame FROM kept) ORDER BY count(*) LIMIT 1", "");
	if (!r)
		r = rd_frames_reserve_used(sql, session, frame);
	if (r)
		return r == -EBUSY ? -ENOENT : r;
	*ret_frame = frame;
	return rd_filling_free_slots(sql, frame, ret_free);
}
