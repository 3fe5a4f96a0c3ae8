// SPDX-License-Identifier: GPL-2.0
/* The frames that belong to the journal. */
#include <errno.h>

#include "base/log.h"
#include "frames.h"
#include "journal_frames.h"
#include "sql.h"

int rd_journal_frame_insert(struct rd_sql *sql, u64 journal, u64 frame)
{
	return rd_sql_run(sql, "INSERT INTO journal_frame VALUES(?, ?)", "ii", (i64)frame,
			  (i64)journal);
}

int rd_journal_frame_note(struct rd_sql *sql, u64 journal, u64 frame)
{
	return rd_sql_run(sql, "INSERT OR IGNORE INTO journal_frame VALUES(?, ?)", "ii",
			  (i64)frame, (i64)journal);
}

int rd_journal_frames_forget(struct rd_sql *sql)
{
	return rd_sql_run(sql, "DELETE FROM journal_frame", "");
}

int rd_journal_frame_take(struct rd_sql *sql, i64 session, u64 journal, u64 *ret_frame)
{
	u64 len;
	int r;

	r = rd_frames_reserve(sql, session, 1, 0, ret_frame, &len);
	if (r == -ENOSPC)
		rd_err(0, "the pool is full: no frame is free for the copy of the catalog");
	if (!r)
		r = rd_frames_use(sql, *ret_frame);
	if (!r)
		r = rd_journal_frame_insert(sql, journal, *ret_frame);
	return r;
}

int rd_journal_frame_return(struct rd_sql *sql, u64 frame)
{
	int r = rd_sql_run(sql, "DELETE FROM journal_frame WHERE frame = ?", "i", (i64)frame);

	return r ? r : rd_frames_free(sql, frame, 1);
}

int rd_journal_frames_queue(struct rd_sql *sql, u64 journal, bool others)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT frame FROM journal_frame WHERE (journal <> ?) = ?",
		       "ii", (i64)journal, (i64)others);
	while (!r && (r = rd_row_next(row)) > 0)
		r = rd_frames_queue_whole(sql, rd_row_i64(row, 0));
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM journal_frame WHERE (journal <> ?) = ?", "ii",
			       (i64)journal, (i64)others);
	return r;
}

int rd_journal_frames_count(struct rd_sql *sql, u64 journal, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM journal_frame WHERE journal = ?", "i",
			  (i64)journal);
}

int rd_journal_frames_list(struct rd_sql *sql, u64 journal, struct rd_buffer *frames)
{
	RD_ROW struct rd_row *row = NULL;
	u64 frame;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT frame FROM journal_frame WHERE journal = ?", "i",
		       (i64)journal);
	while (!r && (r = rd_row_next(row)) > 0) {
		frame = rd_row_i64(row, 0);
		r = rd_buffer_put(frames, &frame, sizeof(frame));
	}
	return r;
}
