/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table journal_frame: the frames of the journal, and of a new journal that is being
 * begun. A frame is noted here before anything is written to it: a crash leaves no written
 * frame without a table. The caller is in a transaction.
 */
#ifndef RD_JOURNAL_FRAMES_H
#define RD_JOURNAL_FRAMES_H

#include "base/buffer.h"
#include "db.h"

/* Note that @frame, which is in no other table, belongs to @journal. */
int rd_journal_frame_insert(struct rd_sql *sql, u64 journal, u64 frame);

/* Note the same of a frame of a journal that is read, which may have been noted before. */
int rd_journal_frame_note(struct rd_sql *sql, u64 journal, u64 frame);
/* Forget the frames of all journals. */
int rd_journal_frames_forget(struct rd_sql *sql);
/* Give a free frame to @journal. -ENOSPC, after a message: no frame is free. */
int rd_journal_frame_take(struct rd_sql *sql, i64 session, u64 journal, u64 *ret_frame);

/* Take @frame, to which nothing was written, from its journal, and free it. */
int rd_journal_frame_return(struct rd_sql *sql, u64 frame);

/* Queue the frames of @journal, or those of all journals but @journal. */
int rd_journal_frames_queue(struct rd_sql *sql, u64 journal, bool others);

int rd_journal_frames_count(struct rd_sql *sql, u64 journal, u64 *ret);

/* Append the frames of @journal to @frames, a u64 each. */
int rd_journal_frames_list(struct rd_sql *sql, u64 journal, struct rd_buffer *frames);

#endif
