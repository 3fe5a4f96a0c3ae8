/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Have an attached volume be an earlier version, at once: its table points into the
 * pool, and blocks are copied home behind.
 *
 *	1. the lease: what the version has is not given back
 *	2. suspend; begin; set, for all that may differ; end; resume
 *	3. hydrate
 *
 * What is between begin and end is there as a whole or the device says that it is
 * not, and is not resumed: then the batch is sent again, by the process that guards
 * the command, by the next one, or by attach at boot. Which version it was the lease
 * says.
 */
#ifndef RD_ROLLBACK_H
#define RD_ROLLBACK_H

#include "pool/engine/lease.h"
#include "attachment.h"

struct rd_rollback_options {
	/*
	 * The volume was that when what is dirty now began: only what differs between
	 * the two and what is dirty is set. NULL: all of it.
	 */
	const struct rd_version *base;
	u64 rate_mib;		/* to copy home, a second; 0: as fast as it goes */
	/* What resumes the device should the command die: see guard.h. */
	char *const *repeat;
};

struct rd_rollback_report {
	u64 pause_us;
	u64 nr_segs;		/* that were set */
};

/* -EBUSY, and that is said: it is not home from the one before. */
int rd_rollback_check(const struct rd_attachment *at);

int rd_rollback(struct rd_pool *pool, struct rd_attachment *at,
		const struct rd_version *version, const struct rd_rollback_options *options,
		struct rd_rollback_report *report);

/*
 * A roll-back that was not finished: the device cannot be resumed. 0: it is done now;
 * -ENOENT, without a word: there is none.
 */
int rd_rollback_repeat(struct rd_pool *pool, struct rd_attachment *at);

#endif
