// SPDX-License-Identifier: GPL-2.0
/*
 * How long a block must not have been written before it is given to the pool.
 *
 * The user names a number of versions. A volume of which much comes home again between two runs
 * was given away too early: its writes pay for that, and its thin pool wins nothing. So the number
 * is doubled as long as that is so, and halved again, down to the user's, once hardly anything
 * comes home.
 *
 * What comes home is the difference of two counts of the target: the blocks in the pool when the
 * last run had ended, and those now. In between only writes and discards change it: a snapshot
 * moves no block, and rd_live_dedup_undo() makes a new beginning of all this. Blocks that were
 * copied home with a message to the target are mistaken for written ones: the next run corrects
 * that.
 */
#include "host/volume/device/target.h"
#include "dedup_run.h"

/* Percent of the blocks in the pool */
#define TOO_MANY	5
#define FEW		1

#define MOST_COLD	1024

static u64 adapt(u64 cold, u64 set, u64 blocks, u64 came_home)
{
	if (came_home * 100 > blocks * TOO_MANY)
		return rd_min(cold * 2, rd_max(set, MOST_COLD));
	if (came_home * 100 < blocks * FEW)
		return rd_max(cold / 2, set);
	return cold;
}

int rd_dedup_choose_cold(struct rd_dedup_run *run)
{
	const struct rd_attachment *at = run->at;
	u64 before = at->dedup_in_pool, set = run->options->cold;
	struct rd_target_status status;
	int r = rd_target_status(at->device, &status);

	if (r)
		return r;
	run->report->came_home = RD_BLOCK_SIZE *
		(before > status.nr_pool ? before - status.nr_pool : 0);
	/* With 0 the user wants all that the pool has, once. */
	run->report->cold = set ? rd_max(set, at->dedup_cold) : 0;
	/* A run that goes on where the last one was cut short keeps what that one had. */
	if (set && before && !at->pool_cursor)
		run->report->cold = adapt(run->report->cold, set, before,
					  run->report->came_home / RD_BLOCK_SIZE);
	return 0;
}

void rd_dedup_note_cold(struct rd_dedup_run *run)
{
	u64 set = run->options->cold;

	/* Until it has ended, a run says nothing about what comes home. */
	run->at->dedup_in_pool = 0;
	if (set)
		run->at->dedup_cold = run->report->cold > set ? run->report->cold : 0;
}
