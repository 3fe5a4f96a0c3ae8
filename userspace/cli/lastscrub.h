/* SPDX-License-Identifier: GPL-2.0 */
/*
 * When all of a pool was last read, by scrub or by repair, and what was damaged then:
 * the file last-scrub beside the catalog, for metrics. It is
 *
 *	versions N
 *	fingerprints N
 *	catalog N
 *
 * and as old as that. It is not flushed: what a crash takes is said again next time.
 */
#ifndef CTL_LASTSCRUB_H
#define CTL_LASTSCRUB_H

#include "cli.h"

struct ctl_last_scrub {
	u64 time;
	u64 versions, fingerprints;	/* that are damaged */
	u64 wrong;			/* in the catalog, and between it and the data area */
};

/* Without it all else is as it is, so a failure is told and no more. */
void ctl_last_scrub_write(const struct ctl *ctl, const struct ctl_last_scrub *scrub);

/* False: it is not known. */
bool ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret);

#endif
