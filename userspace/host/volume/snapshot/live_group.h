/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Take versions of several attached volumes, all of one moment: as live_snapshot.h, but
 *
 *	1. for each volume, by name: take its lock, clean up
 *	2. hold all of them still under one pause (freeze.h): a checkpoint each
 *	3. copy one after the other; one transaction of the pool makes all versions exist, each
 *	   with its epoch, and with the name of the group as a tag (snapshot_group.h)
 *	4. commit each checkpoint
 *
 * What a crash leaves is that of live_snapshot.h, for each volume by itself: none of the versions
 * exists before that transaction, and the next command on a volume aborts its checkpoint; all
 * exist after it, and that command ends what of 4 was not done.
 */
#ifndef RD_LIVE_GROUP_H
#define RD_LIVE_GROUP_H

#include "live_snapshot.h"

struct rd_live_group {
	const char *name;		/* a tag that no version in the pool has */
	struct rd_attachment *const *ats;
	struct rd_live_report *reports;	/* of each */
	unsigned int nr;
};

/*
 * As rd_live_snapshot(). On failure none of the versions exists, or, if it failed later, all do.
 * -EEXIST: a version has that tag, or a volume is there twice. -EXDEV: blocks of one lie in
 * another pool.
 */
int rd_live_group(const struct rd_caller *caller, const struct rd_live_group *group,
		  const struct rd_live_options *options);

#endif
