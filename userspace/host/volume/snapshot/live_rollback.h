/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Roll an attached volume back (rollback.h), and keep what it is now as a version
 * (live_snapshot.h). The version is locked until the pool is closed: what it has tells
 * which segments differ, so it must not be deleted meanwhile.
 */
#ifndef RD_LIVE_ROLLBACK_H
#define RD_LIVE_ROLLBACK_H

#include "host/volume/attach/rollback.h"
#include "live_snapshot.h"

struct rd_live_rollback_options {
	/* How to keep what the volume is now; NULL: it is lost. */
	const struct rd_live_options *keep;
	/* See struct rd_rollback_options. */
	char *const *repeat;
};

struct rd_live_rollback_report {
	struct rd_live_report kept;	/* version id 0: nothing was kept */
	struct rd_rollback_report rollback;
};

/*
 * Bring the volume up, and check that it can be rolled back. -EBUSY: it is mounted, which
 * @force ignores, or is not home from the roll-back before; -ENOPKG: it is not tracked.
 */
int rd_live_rollback_begin(const struct rd_caller *caller, struct rd_attachment *at, bool force);

/*
 * After rd_live_rollback_begin(), with @version locked. On failure the volume is as it
 * was, or see rd_rollback().
 */
int rd_live_rollback(const struct rd_caller *caller, struct rd_attachment *at,
		     const struct rd_version *version,
		     const struct rd_live_rollback_options *options,
		     struct rd_live_rollback_report *report);

#endif
