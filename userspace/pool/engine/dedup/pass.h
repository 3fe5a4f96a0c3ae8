/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pass over the whole pool: old versions give up each block that any newest version has, or
 * another old one, of whatever volume.
 *
 * Reverse deduplication sees one volume when a version is made. It does not see what other
 * volumes have, what came back, or content that only old versions have, more than once. The
 * pass finds all of it, and is right at any moment, beside any other command:
 *
 *	1. find		what is there twice, and which of the two is to stay, the keeper: twins.h.
 *			No lock is held, and all of it is a hint
 *	2. prove	the fingerprints of both segments, by those of the segments as a whole
 *			that the catalog has: both blocks are the same. A recipe never gets other
 *			content, but its number may be another one's some day
 *	3. read		the keeper: a block that is damaged takes no sound one with it
 *	4. change	a transaction looks at both recipes again: they have the content that was
 *			proven, and the keeper is OWN where it was read. Then the other one refers
 *			to it
 *	5. free		what the other one had is queued, and given back as ever: free.c
 *
 * A kill leaves recipes that are changed or not; the next pass finds the others again.
 *
 * The first pass compares all that the pool has with all. Later ones compare what is fresh
 * (pool/catalog/fresh.h) with all: they read all fingerprints, and use those of fresh content.
 * What a pass leaves stays fresh. One that is stopped, or has no more time, leaves the rest.
 *
 *	pass		what is chosen, and the order of all
 *	pass_fresh	which pass it is, and what it leaves
 *	pass_read	steps 2 and 3
 *	pass_change	step 4
 */
#ifndef RD_PASS_H
#define RD_PASS_H

#include "twins.h"

/* At most so many recipes refer to one, so that its deletion stays short. */
#ifdef RD_TEST
#define RD_PASS_SOURCES	8
#else
#define RD_PASS_SOURCES	4096
#endif

struct rd_pass_options {
	const char *temp;	/* a directory */
	unsigned int older;	/* how many versions there must be that replace a segment */
	unsigned int least_run;	/* blocks */
	u64 rate;		/* bytes a second that are read and written; 0: any */
	u64 until_us;		/* end by then; 0: whenever */
	bool dry_run;
};

/* In how many pieces newest versions might be, for what they would save. */
#define RD_PASS_PIECES	3
extern const unsigned int rd_pass_pieces[RD_PASS_PIECES];

struct rd_pass_report {
	bool all;		/* all was compared, and not only what is fresh */
	struct rd_twins_counts found;
	u64 short_runs;		/* blocks in runs that are too short */
	u64 too_new;		/* of recipes that were not replaced long enough ago */
	u64 changed;		/* recipes */
	u64 given_up;		/* blocks; in a dry run, those that would be */
	u64 refused;		/* it was not as it had been found */
	u64 capped;		/* the keeper has RD_PASS_SOURCES sources */
	u64 damaged;		/* the keeper is not what it should be */
	u64 shared[RD_PASS_PIECES];	/* dry run: blocks that newest versions might share */
	bool out_of_time;
};

/*
 * Run a pass. The pool is open for writing, and for a dry run for reading. -EBUSY: another pass
 * runs. What was done before an error is in *@report, and stays.
 */
int rd_pass_run(struct rd_pool *pool, const struct rd_pass_options *options,
		struct rd_pass_report *report);

#endif
