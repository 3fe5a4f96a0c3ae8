/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Take a version of a volume that is attached, while it is written to.
 *
 *	1. clean up what an interrupted command has left
 *	2. hold the volume still for a moment (freeze.h): checkpoint E
 *	3. copy what was dirty then; the version exists, and knows E
 *	4. commit E: the target forgets what was dirty; then let the devices go that
 *	   held the content still
 *
 * After a crash in 2 or 3 there is no version, and the next command aborts checkpoint E:
 * what was dirty is dirty again. After one in 4 the pool has the version of E: once the file
 * of the attachment names that, too, the next command repeats the commit, and before it aborts
 * the checkpoint. After none of them is a segment clean that should be dirty.
 *
 * The target knows the number of the last version, the file of the attachment its uid,
 * and the catalog its tracker. Where these are not of one version, all is read.
 */
#ifndef RD_LIVE_SNAPSHOT_H
#define RD_LIVE_SNAPSHOT_H

#include "host/volume/attach/attach.h"
#include "host/volume/freeze/quiesce.h"
#include "pool/engine/snapshot/snapshot.h"

struct rd_live_options {
	const char *comment;		/* or NULL */
	const char *tags;		/* as in struct rd_snapshot_options */
	const struct rd_compression *compression;	/* or NULL */
	struct rd_rule_change rule;
	bool verify_hits;
	bool full_scan;			/* read all, whatever is dirty */
	u64 cow_bytes;			/* for what is overwritten; 0: by what is dirty */
	unsigned int hook_seconds;	/* for each hook, RD_QUIESCE_SECONDS by default */
};

struct rd_live_report {
	struct rd_snapshot_report snapshot;
	u64 pause_us;		/* that writes to the volume waited */
	/* A file system or a hook could not be let go; the version is fine. That was said. */
	bool undo_failed;
};

/*
 * The pool of @caller is open for writing. The attachment stays locked. -ENOPKG: the
 * volume is not tracked, as the module cannot be had.
 */
int rd_live_snapshot(const struct rd_caller *caller, struct rd_attachment *at,
		     const struct rd_live_options *options, struct rd_live_report *report);

/*
 * Clean up after a snapshot that was interrupted: commit its checkpoint if @pool has the version of
 * it, and the file of the attachment names it, else abort it: clean segments would be taken for
 * those of the version that the file names. *@ret_volume: its id in the catalog; as it was where it
 * has none.
 */
int rd_live_recover(struct rd_pool *pool, const struct rd_attachment *at, i64 *ret_volume);

#endif
