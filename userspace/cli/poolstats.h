/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much is in the pool, as stats and metrics tell it.
 */
#ifndef CTL_POOLSTATS_H
#define CTL_POOLSTATS_H

#include "cli.h"

/*
 *	logical	the sizes of versions together
 *	held	versions that are deleted, and that a device still reads
 *	data	the blocks that are kept for all of them, each once
 *	waiting	frames with space that is still to be given back
 */
struct ctl_pool_stats {
	u64 volumes, versions, logical, held, held_logical, data, catalog;
	u64 frames, frames_free, waiting;
};

/* From time to consistent: of the newest version. */
struct ctl_volume_stats {
	char name[CTL_NAME_MAX + 1];
	u64 versions, logical, latest, time, read, changed, stored, consistent;
	u64 inconsistent;	/* versions that are not */
};

/* As of one moment. @volumes becomes an array of struct ctl_volume_stats. */
int ctl_pool_stats(struct ctl *ctl, struct ctl_pool_stats *ret, struct rd_buffer *volumes);

#endif
