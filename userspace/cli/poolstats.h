/* SPDX-License-Identifier: GPL-2.0 */
/* How much is in the pool, for stats and metrics. */
#ifndef CTL_POOLSTATS_H
#define CTL_POOLSTATS_H

#include "lastscrub.h"

/*
 *	logical	sum of the sizes of all versions
 *	held	deleted versions that a device still reads
 *	unique	size of the different blocks of all of them
 *	data	what these take: blocks as they are, and packs
 *	packed	what packs take of that, with the fingerprints of their blocks
 *	dead	what blocks that no version has any more take in packs, in proportion
 *	fps	fingerprints of blocks that are stored as they are
 *	journal	the copy of the catalog in the data area
 *	queued	space that is still to be freed, but for packs
 *	waiting	frames whose space is still to be freed
 *	limit	free frames, in bytes: what the pool itself allows to be added
 *	avail	what the file system of a sparse data area has left; unknown on a device
 *	free	the smaller one of both
 *	size	what all frames have room for
 *	copies	what is there a second time, on another disk; unknown: no copies are there
 *	recipes	contents of segments
 *	fresh	of these, those that the next pass over the pool compares with all: what no
 *		pass has seen, and what the last one left
 *	deduped	when a pass last came to its end
 */
struct ctl_pool_stats {
	u64 volumes, versions, logical, held, held_logical, unique, data, catalog;
	u64 packed, dead, fps, journal, queued;
	u64 frames, frames_free, waiting;
	u64 size, limit, avail, free, copies, recipes, fresh, deduped;
	bool in_rados;
	struct ctl_last_scrub check, scrub;
	struct ctl_scrub_part part;	/* of a scrub in parts; zeros: there is none */
	bool copies_beside;	/* they were forced onto a disk on which the data are */
	struct rd_compression compression;	/* of what is new */
	struct rd_rule rule;		/* the same, in volumes without a rule */
};

struct ctl_volume_stats {
	char name[CTL_NAME_MAX + 1];
	struct rd_volume_stats row;	/* without the name */
	u64 elsewhere;		/* time of the newest that another pool has, if one has any */
	/* Of the last boot for trial, maybe of a version that is gone; unknown: there was none. */
	u64 boot_time, boot_passed, boot_number;
};

/* Read all of it at one moment. @volumes becomes an array of struct ctl_volume_stats. */
int ctl_pool_stats(struct ctl *ctl, struct ctl_pool_stats *ret, struct rd_buffer *volumes);

/* Say how much can still be stored: "15.3 GiB on the file system (pool limit: 251.0 GiB more)". */
#define CTL_FREE_TEXT	100
/* Say on which disk the copies are. */
const char *ctl_copies_place(const struct ctl_pool_stats *stats);

const char *ctl_free_print(char text[CTL_FREE_TEXT], const struct ctl_pool_stats *stats);

/* Say how new content is stored, as --compression does. */
#define CTL_COMPRESSION_TEXT	16
const char *ctl_compression_print(char text[CTL_COMPRESSION_TEXT],
				  struct rd_compression compression);

/* Add the members that say how much can still be stored. */
void ctl_json_free(struct ctl *ctl, const struct ctl_pool_stats *stats);

#endif
