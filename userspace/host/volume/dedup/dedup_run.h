/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of live deduplication share: see live_dedup.h. */
#ifndef RD_DEDUP_RUN_H
#define RD_DEDUP_RUN_H

#include "base/lock.h"
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
	struct rd_pace pace;
	bool is_thin;		/* @thin is known */
	bool is_first;		/* no window has ended yet */
	const struct rd_dedup_mode *mode;
	struct rd_dedup_reader *reader;

	/* In mode POOL: */
	struct rd_pool *pool;
	struct rd_dedup_source source;
	struct rd_lock shut;	/* of rd_lease_shut() */
	int pool_fd;		/* the device that the table reads, past the page cache */
};

static inline bool rd_dedup_is_zeros(const struct rd_dedup_run *run)
{
	return run->options->mode == RD_LIVE_DEDUP_ZEROS;
}

/* --- dedup_window.c */

/* How much is read at a time. */
#define RD_DEDUP_READ	(1U << 20)

struct rd_dedup_window {
	struct rd_dedup_run *run;
	u64 first, nr;			/* blocks */
	u64 first_seg;
	unsigned int nr_segs;
	struct dmr_entry *places;	/* of the segments; BASE: leave it alone */
	bool is_again;			/* the marks of the first try were lost */
	bool *away;			/* of @nr: not at home; ZEROS asks after the swap */
	struct rd_buffer chunks;	/* struct dmr_range: to be given back */
	struct rd_buffer swaps;		/* struct dmr_range, with the new places */
};

static inline struct dmr_entry *rd_dedup_place(const struct rd_dedup_window *window, u64 at)
{
	return window->places + (window->first + at - window->first_seg * RD_SEG_BLOCKS);
}

/* Where blocks of a window may lie, and what is before that. */
struct rd_dedup_mode {
	/* Begin a window, with run->shut until its blocks are swapped; or NULL. */
	int (*begin)(struct rd_dedup_run *run);
	/* Find the new places of a window, and choose its chunks: rd_dedup_choose_chunks(). */
	int (*find)(struct rd_dedup_window *window);
	/* Start to read a piece: rd_dedup_reader_start(). */
	void (*read)(struct rd_dedup_run *run, u64 first, u64 nr, struct dmr_entry *places);
	/* @block of the volume is not what is in its new place. May it be left alone? NULL: yes. */
	int (*differs)(const struct rd_dedup_window *window, u64 block);
};

/* Give back what there is in each window from the cursor on, and move the cursor. */
int rd_dedup_windows(struct rd_dedup_run *run, const struct rd_dedup_mode *mode);

/* Whole chunks, so that each is in one window. */
static inline u64 rd_dedup_window_blocks(const struct rd_dedup_run *run)
{
	return RD_DEDUP_WINDOW / RD_BLOCK_SIZE / run->unit * run->unit;
}

/* Ask the target which blocks of the window are away. */
int rd_dedup_find_away(struct rd_dedup_window *window);

/*
 * Choose chunks of which no block would stay home. Other blocks are left alone: they would
 * free nothing.
 */
int rd_dedup_choose_chunks(struct rd_dedup_window *window);

/* --- dedup_feedback.c */

/* Choose from what came home how cold a block must be: run->report->cold. Changes nothing. */
int rd_dedup_choose_cold(struct rd_dedup_run *run);
/* Note that in the attachment, which the caller saves: a run begins. */
void rd_dedup_note_cold(struct rd_dedup_run *run);

/* --- dedup_zeros.c */

int rd_dedup_zeros_check(const struct rd_dedup_run *run);
int rd_dedup_zeros(struct rd_dedup_run *run);

/* --- dedup_estimate.c */

/*
 * Refuse a volume that cannot read its pool, or should not, and find out what would be gained:
 * run->report->estimate. Opens run->source.
 */
int rd_dedup_pool_check(struct rd_dedup_run *run);

/* --- dedup_pool.c */

int rd_dedup_pool(struct rd_dedup_run *run);

#endif
