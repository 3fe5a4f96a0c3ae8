// SPDX-License-Identifier: GPL-2.0
/* Whose each frame is. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "pool/data/area.h"
#include "frames.h"
#include "sql.h"

/* Of the frames that are not packed. */
#define ORDINARY	RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES)

int rd_next_frame(struct rd_row *rows, u64 *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_next_extent(struct rd_row *rows, struct rd_extent *ret)
{
	int r = rd_row_next_numbers(rows, ret);

	if (r <= 0)
		return r;
	/* Some that are kept are packed. */
	if (ret->start < 1ULL << 62 && ret->len <= RD_MAX_FRAMES)
		return 1;
	rd_err(0, "the catalog has a row of %llu frames from %llu on, which cannot be",
	       ret->len, ret->start);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, NULL);
	return -EUCLEAN;
}

/* --- free frames */

int rd_frames_free(struct rd_sql *sql, u64 start, u64 len)
{
	i64 other, other_len;
	int r;

	r = rd_sql_run(sql, "DELETE FROM kept WHERE frame >= ?1 AND frame < ?1 + ?2", "ii", start,
		       len);
	if (r)
		return r;
	/* Grow the one that ends here, and swallow the one that begins there. */
	r = rd_sql_number(sql, &other_len, "DELETE FROM extent WHERE start = ? RETURNING len",
			  "i", start + len);
	if (!r)
		len += other_len;
	else if (r != -ENOENT)
		return r;
	r = rd_sql_number(sql, &other,
			  "SELECT start FROM extent WHERE start < ? ORDER BY start DESC LIMIT 1",
			  "i", start);
	if (!r) {
		r = rd_sql_run(sql, "UPDATE extent SET len = len + ? WHERE start = ? AND start + len = ?",
			       "iii", len, other, start);
		if (r || rd_sql_changed(sql))
			return r;
	} else if (r != -ENOENT) {
		return r;
	}
	return rd_sql_run(sql, "INSERT INTO extent VALUES(?, ?)", "ii", start, len);
}

int rd_frames_extents(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT start, len FROM extent", "");
}

int rd_frames_forget_free(struct rd_sql *sql)
{
	return rd_sql_run(sql, "DELETE FROM extent", "");
}

int rd_frames_nr_free(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(sum(len), 0) FROM extent", "");
}

/* The first extent that is long enough, else the longest. */
static int find_extent(struct rd_sql *sql, i64 want, struct rd_extent *ret)
{
	int r = rd_sql_numbers(sql, ret, "SELECT start, len FROM extent ORDER BY len >= ?1 DESC,"
			       " CASE WHEN len >= ?1 THEN start ELSE -len END LIMIT 1", "i", want);

	return r == -ENOENT ? -ENOSPC : r;
}

/* Take frame @at, which is in an extent or is not, out of it. */
static int take_from_extent(struct rd_sql *sql, i64 at)
{
	struct {
		i64 start, end;
	} free;
	int r;

	r = rd_sql_numbers(sql, &free, "SELECT start, start + len FROM extent WHERE start <= ?"
			   " ORDER BY start DESC LIMIT 1", "i", at);
	if (r || at >= free.end)
		return r == -ENOENT ? 0 : r;
	r = rd_sql_run(sql, "DELETE FROM extent WHERE start = ?", "i", free.start);
	if (!r && free.start < at)
		r = rd_sql_run(sql, "INSERT INTO extent VALUES(?, ?)", "ii", free.start,
			       at - free.start);
	if (!r && at + 1 < free.end)
		r = rd_sql_run(sql, "INSERT INTO extent VALUES(?, ?)", "ii", at + 1,
			       free.end - at - 1);
	return r;
}

/* --- reserved frames */

/*
 * No more than leaves what is to be kept, and half of what there is: a command that writes packs,
 * and what does not compress beside them, reserves for each, and in a small pool one would have it
 * all.
 */
static int limit(struct rd_sql *sql, u64 nr_frames, u64 *want)
{
	u64 nr, keep;
	i64 pages;
	int r;

	/* Of less than four frames none is kept. */
	if (nr_frames < 4)
		return 0;
	r = rd_sql_number(sql, &pages, "PRAGMA page_count", "");
	if (!r)
		r = rd_frames_nr_free(sql, &nr);
	if (r)
		return r;
	/* A new journal is as long as the catalog at most, and grows to thrice that. */
	keep = rd_min(12 + 3 * (u64)pages / RD_SEG_BLOCKS, nr_frames / 4);
	*want = rd_min(*want, nr > keep ? (nr - keep + 1) / 2 : 0);
	return *want ? 0 : -ENOSPC;
}

/*
 * Writing to a frame destroys what it has, so that an extent has it is not proof enough:
 * no other table may have it.
 */
static int check_unused(struct rd_sql *sql, i64 start, i64 end)
{
	i64 frame;
	int r;

	r = rd_sql_number(sql, &frame, "SELECT frame FROM slot_owner"
			  " WHERE frame >= ?1 AND frame < ?2"
			  " UNION ALL SELECT frame FROM queue WHERE frame >= ?1 AND frame < ?2"
			  " UNION ALL SELECT frame FROM journal_frame"
			  " WHERE frame >= ?1 AND frame < ?2"
			  " UNION ALL SELECT frame FROM kept WHERE frame >= ?1 AND frame < ?2"
			  " UNION ALL SELECT frame FROM packing WHERE frame >= ?1 AND frame < ?2"
			  " UNION ALL SELECT start FROM (SELECT start, len FROM reserved"
			  " WHERE start < ?2 ORDER BY start DESC LIMIT 1) WHERE start + len > ?1"
			  " LIMIT 1", "ii", start, end);
	if (r == -ENOENT)
		return 0;
	if (r)
		return r;
	rd_err(0, "the catalog lists frame %lld as free and as in use", frame);
	rd_remedy(RD_REMEDY_RECOUNT_FRAMES, NULL, "nothing was written there");
	return -EUCLEAN;
}

int rd_frames_reserve(struct rd_sql *sql, i64 session, u64 want, u64 nr_frames, u64 *ret_start,
		      u64 *ret_len)
{
	struct rd_extent free;
	u64 take;
	int r;

	r = limit(sql, nr_frames, &want);
	if (!r)
		r = find_extent(sql, want, &free);
	if (r)
		return r;
	take = rd_min(free.len, want);
	r = check_unused(sql, free.start, free.start + take);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM extent WHERE start = ?", "i", free.start);
	if (!r && take < free.len)
		r = rd_sql_run(sql, "INSERT INTO extent VALUES(?, ?)", "ii", free.start + take,
			       free.len - take);
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO reserved VALUES(?, ?, ?)", "iii", free.start,
			       take, session);
	if (r)
		return r;
	*ret_start = free.start;
	*ret_len = take;
	return 0;
}

/* [@at, @at + @nr) is not reserved any more. */
static int unreserve(struct rd_sql *sql, i64 at, i64 nr)
{
	struct {
		i64 start, end, session;
	} was;
	int r;

	r = rd_sql_numbers(sql, &was, "SELECT start, start + len, session FROM reserved"
			   " WHERE start <= ? ORDER BY start DESC LIMIT 1", "i", at);
	if (r || at + nr > was.end)
		return r && r != -ENOENT ? r : -EUCLEAN;
	r = rd_sql_run(sql, "DELETE FROM reserved WHERE start = ?", "i", was.start);
	if (!r && at > was.start)
		r = rd_sql_run(sql, "INSERT INTO reserved VALUES(?, ?, ?)", "iii", was.start,
			       at - was.start, was.session);
	if (!r && at + nr < was.end)
		r = rd_sql_run(sql, "INSERT INTO reserved VALUES(?, ?, ?)", "iii", at + nr,
			       was.end - at - nr, was.session);
	return r;
}

int rd_frames_use(struct rd_sql *sql, u64 frame)
{
	return unreserve(sql, frame, 1);
}

int rd_frames_return(struct rd_sql *sql, u64 start, u64 len)
{
	int r = unreserve(sql, start, len);

	return r ? r : rd_frames_free(sql, start, len);
}

int rd_frames_reserve_used(struct rd_sql *sql, i64 session, u64 frame)
{
	i64 nr;
	int r;

	r = rd_sql_number(sql, &nr, "SELECT (SELECT count(*) FROM kept WHERE frame = ?1)"
			  " + (SELECT count(*) FROM (SELECT start, len FROM reserved"
			  " WHERE start <= ?1 ORDER BY start DESC LIMIT 1) WHERE start + len > ?1)",
			  "i", (i64)frame);
	if (r || nr)
		return r ? r : -EBUSY;
	return rd_sql_run(sql, "INSERT INTO reserved VALUES(?, 1, ?)", "ii", (i64)frame, session);
}

int rd_frames_is_reserved(struct rd_sql *sql, u64 frame, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM (SELECT start, len FROM reserved"
			  " WHERE start <= ?1 ORDER BY start DESC LIMIT 1)"
			  " WHERE start + len > ?1", "i", (i64)frame);
}

/* --- kept frames */

int rd_frames_keep(struct rd_sql *sql, u64 frame)
{
	i64 at = frame;
	int r;

	r = take_from_extent(sql, at);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM queue WHERE frame = ?", "i", at);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM packing WHERE frame = ?", "i", at);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM tail WHERE frame = ?", "i", at);
	return r ? r : rd_sql_run(sql, "INSERT OR IGNORE INTO kept VALUES(?)", "i", at);
}

int rd_frames_keep_all(struct rd_sql *sql, struct rd_row *rows)
{
	u64 frame;
	int r;

	while ((r = rd_next_frame(rows, &frame)) > 0) {
		r = rd_frames_keep(sql, frame);
		if (r)
			return r;
	}
	return r;
}

int rd_frames_kept(struct rd_sql *sql, struct rd_row **ret, u64 nr_frames)
{
	return rd_sql_ask(sql, ret, "SELECT frame FROM kept WHERE frame >= 0 AND frame < ?", "i",
			  (i64)nr_frames);
}

/* What a kept frame lost is looked for when nothing is kept any more. */
int rd_frames_is_kept(struct rd_sql *sql, u64 frame, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM kept WHERE frame = ?", "i", (i64)frame);
}

int rd_frames_nr_kept(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM kept", "");
}

int rd_frames_unkeep_journal(struct rd_sql *sql)
{
	return rd_sql_run(sql, "DELETE FROM kept WHERE frame IN (SELECT frame FROM journal_frame)",
			  "");
}

int rd_frames_unkeep(struct rd_sql *sql, u64 *ret_frame)
{
	return rd_sql_get(sql, ret_frame, "DELETE FROM kept WHERE frame ="
			  " (SELECT min(frame) FROM kept) RETURNING frame", "");
}

/* --- the queue */

int rd_frames_queue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots)
{
	struct rd_slots sum = *slots, old;
	struct rd_row *row;
	unsigned int i;
	bool kept;
	int r;

	r = rd_frames_is_kept(sql, frame, &kept);
	if (r || kept || rd_slots_are_none(slots))
		return r;
	r = rd_sql_ask(sql, &row, "SELECT slots FROM queue WHERE frame = ?", "i", (i64)frame);
	if (r)
		return r;
	r = rd_row_next(row);
	if (r > 0 && !rd_row_copy(row, 0, &old, sizeof(old)))
		r = -EUCLEAN;
	for (i = 0; r > 0 && i < RD_SEG_BLOCKS / 64; i++)
		sum.bits[i] |= old.bits[i];
	rd_row_done(row);
	if (r < 0)
		return r;
	return rd_sql_run(sql, "INSERT OR REPLACE INTO queue VALUES(?, ?)", "ib", (i64)frame,
			  &sum, sizeof(sum));
}

int rd_frames_queue_whole(struct rd_sql *sql, u64 frame)
{
	struct rd_slots all;
	bool kept;
	int r;

	r = rd_frames_is_kept(sql, frame, &kept);
	if (r || kept)
		return r;
	memset(&all, 0xff, sizeof(all));
	return rd_sql_run(sql, "INSERT OR REPLACE INTO queue VALUES(?, ?)", "ib", (i64)frame,
			  &all, sizeof(all));
}

int rd_frames_queued(struct rd_sql *sql, u64 *ret)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_slots slots;
	int r;

	*ret = 0;
	r = rd_sql_ask(sql, &row, "SELECT slots FROM queue WHERE frame < " ORDINARY, "");
	while (!r && (r = rd_row_next(row)) > 0) {
		if (!rd_row_copy(row, 0, &slots, sizeof(slots)))
			return -EUCLEAN;
		*ret += rd_slots_count(&slots);
		r = 0;
	}
	return r;
}

int rd_frames_nr_queued(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM queue", "");
}

int rd_frames_queued_of(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_sql_ask(sql, &row, "SELECT slots FROM queue WHERE frame = ?", "i", (i64)frame);
	if (!r)
		r = rd_row_next(row);
	if (r > 0)
		rd_row_copy(row, 0, ret, sizeof(*ret));
	return r < 0 ? r : 0;
}

int rd_frames_unreserve_all(struct rd_sql *sql, i64 session)
{
	return rd_sql_run(sql, "DELETE FROM reserved WHERE session = ?", "i", session);
}

/* --- the frame that compaction fills */

int rd_packing_find(struct rd_sql *sql, u64 *ret_frame, unsigned int *ret_next)
{
	i64 packing[2];
	int r = rd_sql_numbers(sql, &packing, "SELECT frame, next FROM packing", "");

	if (!r) {
		*ret_frame = packing[0];
		*ret_next = packing[1];
	}
	return r;
}

int rd_packing_next(struct rd_sql *sql, u64 frame, i64 *ret_next)
{
	return rd_sql_number(sql, ret_next, "SELECT next FROM packing WHERE frame = ?", "i",
			     (i64)frame);
}

int rd_packing_end(struct rd_sql *sql)
{
	return rd_sql_run(sql, "DELETE FROM packing", "");
}

int rd_packing_begin(struct rd_sql *sql, u64 frame, unsigned int next)
{
	return rd_sql_run(sql, "INSERT INTO packing VALUES(?, ?)", "ii", (i64)frame, (i64)next);
}

/* --- whose frames are */

int rd_frames_named(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT frame, 1 FROM slot_owner WHERE frame < " ORDINARY
			  " GROUP BY frame UNION"
			  " SELECT frame, 0 FROM journal_frame ORDER BY frame", "");
}

int rd_next_named(struct rd_row *rows, u64 *ret_frame, bool *ret_by_recipes)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	*ret_frame = rd_row_i64(rows, 0);
	*ret_by_recipes = rd_row_i64(rows, 1);
	return 1;
}

int rd_frames_not_free(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT frame FROM slot_owner WHERE frame < " ORDINARY
			  " UNION SELECT frame FROM journal_frame"
			  " UNION SELECT frame FROM queue WHERE frame < " ORDINARY, "");
}

int rd_frames_nr_known(struct rd_sql *sql, i64 *ret)
{
	return rd_sql_number(sql, ret, "SELECT max(last) FROM"
			     " (SELECT max(start + len) AS last FROM extent"
			     " UNION ALL SELECT max(start + len) FROM reserved"
			     " UNION ALL SELECT max(frame) + 1 FROM slot_owner"
			     " WHERE frame < " ORDINARY
			     " UNION ALL SELECT max(frame) + 1 FROM queue WHERE frame < " ORDINARY
			     " UNION ALL SELECT max(frame) + 1 FROM kept"
			     " UNION ALL SELECT max(frame) + 1 FROM packing"
			     " UNION ALL SELECT max(frame) + 1 FROM journal_frame)", "");
}

int rd_frames_free_new(struct rd_sql *sql, u64 nr_frames)
{
	i64 known;
	int r;

	r = rd_frames_nr_known(sql, &known);
	if (r || (u64)known >= nr_frames)
		return r;
	return rd_frames_free(sql, known, nr_frames - known);
}

int rd_frames_read_queue(struct rd_sql *sql, u64 first, struct rd_queued *queued,
			 unsigned int max, unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	*ret_nr = 0;
	r = rd_sql_ask(sql, &row, "SELECT frame, slots, (SELECT coalesce(sum(n), 0)"
		       " FROM slot_owner WHERE slot_owner.frame = queue.frame)"
		       " + EXISTS (SELECT 1 FROM (SELECT start, len FROM reserved"
		       " WHERE start <= queue.frame ORDER BY start DESC LIMIT 1)"
		       " WHERE start + len > queue.frame),"
		       " EXISTS (SELECT 1 FROM pack WHERE pack.frame BETWEEN " ORDINARY
		       " + 256 * queue.frame AND " ORDINARY " + 256 * queue.frame + 255)"
		       " FROM queue WHERE frame >= ?1 AND frame >= " ORDINARY " = ?1 >= " ORDINARY
		       " ORDER BY frame LIMIT ?2", "ii", (i64)first, (i64)max);
	while (!r && (r = rd_row_next(row)) > 0) {
		struct rd_queued *next = &queued[(*ret_nr)++];

		next->frame = rd_row_i64(row, 0);
		next->live = rd_row_i64(row, 2);
		next->has_fps = rd_row_i64(row, 3);
		if (!rd_row_copy(row, 1, &next->slots, sizeof(next->slots)))
			return rd_err(-EUCLEAN, "the queue of slots to free is damaged");
		r = 0;
	}
	return r;
}

int rd_frames_unqueue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_slots left;
	unsigned int i;
	int r;

	r = rd_sql_ask(sql, &row, "DELETE FROM queue WHERE frame = ? RETURNING slots", "i",
		       (i64)frame);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r;
	if (!rd_row_copy(row, 0, &left, sizeof(left)))
		return -EUCLEAN;
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		left.bits[i] &= ~slots->bits[i];
	rd_row_done(row);
	row = NULL;
	return rd_slots_are_none(&left) ? 0 : rd_frames_queue(sql, frame, &left);
}

int rd_frames_unqueue_whole(struct rd_sql *sql, u64 frame)
{
	int r;

	r = rd_sql_run(sql, "DELETE FROM queue WHERE frame = ?", "i", (i64)frame);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM packing WHERE frame = ?", "i", (i64)frame);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM tail WHERE frame = ?", "i", (i64)frame);
	return r ? r : rd_frames_free(sql, frame, 1);
}

bool rd_frames_is_packing(struct rd_sql *sql, u64 frame)
{
	i64 one;

	return !rd_sql_number(sql, &one, "SELECT 1 FROM packing WHERE frame = ?", "i",
			      (i64)frame);
}

int rd_frames_reserved(struct rd_sql *sql, i64 session, u64 from, u64 *ret_start,
		       u64 *ret_len)
{
	struct rd_extent extent;
	int r = rd_sql_numbers(sql, &extent, "SELECT start, len FROM reserved WHERE session = ?"
			       " AND start >= ? ORDER BY start LIMIT 1", "ii", session, (i64)from);

	if (!r) {
		*ret_start = extent.start;
		*ret_len = extent.len;
	}
	return r;
}

int rd_frames_count_live(struct rd_sql *sql, u64 frame, unsigned int *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(sum(n), 0) FROM slot_owner WHERE frame = ?",
			  "i", (i64)frame);
}

int rd_frames_is_owned(struct rd_sql *sql, u64 frame, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM slot_owner WHERE frame = ?", "i",
			  (i64)frame);
}
