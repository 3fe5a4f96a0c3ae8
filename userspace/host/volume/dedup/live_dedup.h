/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Give back space of a thin volume that is attached, while it is written to.
 *
 * Mode ZEROS is an fstrim from outside: where a whole chunk of the thin pool reads as zeros,
 * the chunk is given back. Nothing depends on anything afterwards. See dedup_zeros.c.
 *
 * Mode POOL: blocks that the newest version has since long are read from the pool, and
 * their chunks are given back. The volume then depends on the pool, which is no backup of it any
 * more. See dedup_pool.c.
 *
 * A volume is worked on in windows of RD_DEDUP_WINDOW bytes. It is stopped between two of them,
 * and goes on there the next time: the file of the attachment has a cursor for each mode.
 */
#ifndef RD_LIVE_DEDUP_H
#define RD_LIVE_DEDUP_H

#include "host/volume/attach/attach.h"

#define RD_DEDUP_WINDOW	(64U << 20)

enum rd_live_dedup_mode {
	RD_LIVE_DEDUP_ZEROS,
	RD_LIVE_DEDUP_POOL,
};

struct rd_live_dedup_options {
	enum rd_live_dedup_mode mode;
	u64 rate;		/* bytes a second to read; 0: any */
	u64 until_us;		/* end at this time of rd_now_us(); 0: when all is done */
	bool dry_run;		/* only check, and say what there is */
	bool thin_only;		/* of a volume that is not thin say nothing: -ENODEV */
	/* The rest is for mode POOL. Blocks younger than so many versions are left alone. */
	unsigned int cold;
	bool force;		/* although it may not be worth it */
	/* Asked the first time, before the volume depends on the pool: 0, or the result. */
	int (*confirm)(void *ctx, const struct rd_attachment *at, u64 bytes);
	void *ctx;
	const struct rd_progress *progress;	/* or NULL */
};

struct rd_live_dedup_report {
	u64 first, bytes;	/* what was looked at; @first: 0 unless it went on */
	/* Bytes in chunks of zeros; in mode POOL: that are read from the pool since now. */
	u64 found;
	u64 estimate;		/* mode POOL: bytes that could be given back, by the catalog */
	u64 compared;		/* the same: bytes */
	u64 in_pool;		/* that are read from the pool in the end */
	u64 cold;		/* mode POOL: what became of the option, see dedup_feedback.c */
	u64 came_home;		/* the same: bytes that have left the pool since the last run */
	char refusal[256];	/* dry run: why a run would be refused without --force; "": not */
	u64 mapped_before, mapped_after;	/* bytes that the volume has in its thin pool */
	u64 pool_used_before, pool_used_after;	/* of the data of that thin pool, by all */
	bool out_of_time;
	bool coming_home;	/* what is not stable on the base yet is copied there */
};

/*
 * In mode POOL the pool of @caller is open for writing. The attachment stays locked. What was done
 * before an error or -EINTR stays done, and @report says so. -ENOPKG: the volume is not tracked, as
 * the module cannot be had.
 */
int rd_live_dedup(const struct rd_caller *caller, struct rd_attachment *at,
		  const struct rd_live_dedup_options *options,
		  struct rd_live_dedup_report *report);

struct rd_live_dedup_undo {
	u64 rate;		/* bytes a second; 0: as fast as it goes */
	const struct rd_progress *progress;	/* or NULL */
};

struct rd_live_dedup_undo_report {
	u64 bytes;		/* that were copied back, or are being copied */
	bool in_background;	/* the user has not waited for the end */
};

/*
 * Copy all blocks of the volume home, and give the lease of its pool up. Its mode is ZEROS from
 * the beginning on. -ENOSPC, and says so: the thin pool has no room for that. -EINTR: it goes
 * on in the background, also after a boot; the next command that brings the volume up does the
 * rest. The pool of @caller is not open.
 */
int rd_live_dedup_undo(const struct rd_caller *caller, struct rd_attachment *at,
		       const struct rd_live_dedup_undo *options,
		       struct rd_live_dedup_undo_report *report);

#endif
