/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of live deduplication share: see live_dedup.h. */
#ifndef RD_DEDUP_RUN_H
#define RD_DEDUP_RUN_H

#include "base/pace.h"
#include "host/sys/thin.h"
#include "dedup_source.h"
#include "live_dedup.h"

struct rd_dedup_run {
	struct rd_attachment *at;
	const struct rd_live_dedup_options *options;
	struct rd_live_dedup_report *report;
	struct rd_thin thin;	/* before it */
	u64 nr_blocks;		/* of the volume */
	u64 unit;		/* blocks in a chunk of the thin pool */
	int fd;			/* the volume, as programs see it; past the page cache */
	u8 *buf;		/* of RD_DEDUP_READ bytes; in mode ZEROS */
	struct rd_pace pace;
	bool is_thin;		/* @thin is known */
	bool is_first;		/* no window has ended yet */

	/* In mode POOL: */
	struct rd_pool *pool;
	struct rd_dedup_source source;
	int pool_fd;		/* the device that the table reads, past the page cache */
	struct rd_dedup_reader *reader;
};

/* How much is read at a time. */
#define RD_DEDUP_READ	(1U << 20)

/* Call @window for each window from the cursor on, and move the cursor. */
typedef int rd_dedup_window_fn(struct rd_dedup_run *run, u64 first, u64 nr);
int rd_dedup_windows(struct rd_dedup_run *run, rd_dedup_window_fn *window);

/* Report progress, and whether the user wants to stop: -EINTR. */
int rd_dedup_progress(const struct rd_dedup_run *run, u64 block);

/* Append a range, joined with the last one where it follows it. */
void rd_dedup_add(struct rd_buffer *ranges, u64 first, u64 nr);

/* Give these ranges back (see rd_marks_shed()), and say so where only a part could be. */
int rd_dedup_shed(struct rd_dedup_run *run, const struct rd_buffer *ranges, bool zeroed);

/*
 * Count that the marks of a window were lost, and say whether to try again. Once not,
 * rd_dedup_disturbed() says why, and returns -EBUSY.
 */
bool rd_dedup_try_again(struct rd_dedup_run *run, unsigned int *tries);
int rd_dedup_disturbed(const struct rd_dedup_run *run);

/* --- dedup_feedback.c */

/* Choose from what came home how cold a block must be: run->report->cold. Changes nothing. */
int rd_dedup_choose_cold(struct rd_dedup_run *run);
/* Note that in the attachment, which the caller saves: a run begins. */
void rd_dedup_note_cold(struct rd_dedup_run *run);

/* --- dedup_zeros.c */

int rd_dedup_zeros_check(const struct rd_dedup_run *run);
int rd_dedup_zeros(struct rd_dedup_run *run);

#endif
