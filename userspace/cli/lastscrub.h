/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result of the last scrub or repair that read a whole pool, for metrics and status: the
 * file last-scrub beside the catalog, whose time is that of the scrub; and last-check, the same
 * of the last check, which reads no content. They are
 *
 *	versions N
 *	fingerprints N
 *	catalog N
 *
 * An empty file last-dedup has the time at which a pass last came to its end.
 *
 * The file scrub-part is there while a pool is read in parts:
 *
 *	next N		frame
 *	read N		bytes, of all parts
 *	of N		bytes that lived when the first one began
 *	since N		when that was
 */
#ifndef CTL_LASTSCRUB_H
#define CTL_LASTSCRUB_H

#include "cli.h"

struct ctl_last_scrub {
	u64 time;
	u64 versions, fingerprints;	/* that are damaged */
	u64 wrong;			/* in the catalog, and between it and the data area */
};

struct ctl_scrub_part {
	u64 next, read, all, since;
};

/* How much of the pool was read: it may have grown since. */
static inline unsigned int ctl_scrub_part_percent(const struct ctl_scrub_part *part)
{
	return part->all ? rd_min(part->read * 100 / part->all, 99) : 99;
}

/* Read where a scrub in parts goes on; zeros: it begins anew. */
void ctl_scrub_part_read(const struct ctl *ctl, struct ctl_scrub_part *ret);
/* Write it; zeros: forget it. A failure is printed: the next part reads the same once more. */
void ctl_scrub_part_write(const struct ctl *ctl, const struct ctl_scrub_part *part);

/* Write it. A failure is printed and does no other harm. */
void ctl_last_scrub_write(const struct ctl *ctl, const struct ctl_last_scrub *scrub);
/* The same of a check, without a word: anybody who can read the pool may check it. */
void ctl_last_check_write(const struct ctl *ctl, u64 nr_wrong);

/* Read it. Where there is none, all of it is CTL_UNKNOWN. */
void ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret);
void ctl_last_check_read(const struct ctl *ctl, struct ctl_last_scrub *ret);
/* Was one read, and had it found damage? */
bool ctl_last_found_damage(const struct ctl_last_scrub *last);

/* The same of a pass that came to its end. A failure is printed and does no other harm. */
void ctl_last_dedup_write(const struct ctl *ctl);
u64 ctl_last_dedup_read(const struct ctl *ctl);

#endif
