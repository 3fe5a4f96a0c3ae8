/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result of the last scrub or repair that read a whole pool, for metrics: the file
 * last-scrub beside the catalog, whose time is that of the scrub. It is
 *
 *	versions N
 *	fingerprints N
 *	catalog N
 *
 * and is not flushed: the next scrub writes it again.
 */
#ifndef CTL_LASTSCRUB_H
#define CTL_LASTSCRUB_H

#include "cli.h"

struct ctl_last_scrub {
	u64 time;
	u64 versions, fingerprints;	/* that are damaged */
	u64 wrong;			/* in the catalog, and between it and the data area */
};

/* Write it. A failure is printed and does no other harm. */
void ctl_last_scrub_write(const struct ctl *ctl, const struct ctl_last_scrub *scrub);

/* Read it. False: there is none. */
bool ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret);

#endif
