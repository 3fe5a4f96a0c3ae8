/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table journal_frame: the frames of the journal, and of one that is being begun. A
 * frame is noted before anything is written there, so that a crash leaves none that
 * belongs to no table. All of it happens in the caller's transaction.
 */
#ifndef RD_JOURNAL_FRAMES_H
#define RD_JOURNAL_FRAMES_H

#include "base/buffer.h"
#include "db.h"

/* Make frame @frame, which is free, one of @journal's. -ENOSPC, after a message. */
int rd_journal_frame_take(struct rd_sql *sql, i64 session, u64 journal, u64 *ret_frame);

/* Free frame @frame, to which nothing was written. */
int rd_journal_frame_return(struct rd_sql *sql, u64 frame);

/* Queue the frames of @journal, or of all journals but it. */
int rd_journal_frames_queue(struct rd_sql *sql, u64 journal, bool others);

int rd_journal_frames_count(struct rd_sql *sql, u64 journal, u64 *ret);

/* Append the frames of @journal to @frames, a u64 each. */
int rd_journal_frames_list(struct rd_sql *sql, u64 journal, struct rd_buffer *frames);

#endif
