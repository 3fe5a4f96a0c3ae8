/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Turn an attached volume back to an earlier version, at once: its table points into the
 * pool, and blocks are copied home in the background.
 *
 *	1. the lease: blocks of the version are not freed
 *	2. suspend; begin; set, for all that may differ; hydrate; end; resume
 *
 * If a crash interrupts the batch between begin and end the target refuses to be resumed,
 * and the batch is sent again: by the guard of the command, by the next command, or when
 * the volume is attached at boot. The lease says which version it was.
 */
#ifndef RD_ROLLBACK_H
#define RD_ROLLBACK_H

#include "host/volume/device/attachment.h"

struct rd_rollback_options {
	/*
	 * A version that differs from the volume only where that is dirty now: set only
	 * segments that differ between the two versions or are dirty. NULL: set all.
	 */
	const struct rd_version *base;
	u64 rate_mib;		/* to copy home, a second; 0: as fast as it goes */
	/* The program that finishes it if the command dies: see struct rd_pause. */
	char *const *repeat;
};

struct rd_rollback_report {
	u64 pause_us;
	u64 nr_segs;		/* that were set */
};

/* -EBUSY, and says so: the last roll-back is still being copied back. */
int rd_rollback_check(const struct rd_attachment *at);

int rd_rollback(struct rd_pool *pool, struct rd_attachment *at,
		const struct rd_version *version, const struct rd_rollback_options *options,
		struct rd_rollback_report *report);

/*
 * Finish an interrupted roll-back, after which the device could not be resumed. -ENOENT,
 * without a word: there is none.
 */
int rd_rollback_repeat(struct rd_pool *pool, struct rd_attachment *at);

#endif
