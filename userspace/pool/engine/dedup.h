/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pass over the whole pool: old versions give up each block that any newest version has, or
 * another old one, of whatever volume.
 *
 * Reverse deduplication sees one volume when a version is made. It does not see what other
 * volumes have, what came back, or content that only old versions have, more than once. The
 * pass finds all of it (twins.h), and is right at any moment, beside any other command:
 *
 *	1. find		no lock is held, and what is found is a hint
 *	2. read		the block that is to stay is read and hashed before another one is given
 *			up for it: a block that is damaged takes no sound one with it
 *	3. change	a transaction looks everything up again, and lets old recipes refer
 *	4. free		what they had is queued and given back as ever (free.c)
 *
 * A kill leaves recipes that are changed or not; the next pass finds the others again.
 */
#ifndef RD_DEDUP_H
#define RD_DEDUP_H

#include "twins.h"

/* At most so many recipes refer to one, so that its deletion stays short. */
#ifdef RD_TEST
#define RD_DEDUP_SOURCES	8
#else
#define RD_DEDUP_SOURCES	4096
#endif

struct rd_dedup_options {
	const char *temp;	/* a directory */
	unsigned int older;	/* how many versions there must be that replace a segment */
	unsigned int least_run;	/* blocks */
	u64 rate;		/* bytes a second that are read and written; 0: any */
	u64 until_us;		/* end by then; 0: whenever */
	bool dry_run;
};

/* In how many pieces newest versions might be, for what they would save. */
#define RD_DEDUP_PIECES	3
extern const unsigned int rd_dedup_pieces[RD_DEDUP_PIECES];

struct rd_dedup_report {
	struct rd_twins_counts found;
	u64 short_runs;		/* blocks in runs that are too short */
	u64 too_new;		/* of recipes that were not replaced long enough ago */
	u64 changed;		/* recipes */
	u64 given_up;		/* blocks; in a dry run, those that would be */
	u64 refused;		/* it was not as it had been found, or another command has it */
	u64 capped;		/* their home has RD_DEDUP_SOURCES sources */
	u64 damaged;		/* their home is not what it should be */
	u64 shared[RD_DEDUP_PIECES];	/* dry run: blocks that newest versions might share */
	bool out_of_time;
};

/*
 * Run a pass. The pool is open for deleting, and for a dry run for reading. -EBUSY: another pass
 * runs. What was done before an error is in *@report, and stays.
 */
int rd_dedup(struct rd_pool *pool, const struct rd_dedup_options *options,
	     struct rd_dedup_report *report);

#endif
