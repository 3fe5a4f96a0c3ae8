// SPDX-License-Identifier: GPL-2.0
/*
 * Give back chunks of a thin volume that read as zeros, as fstrim would from within.
 *
 *	0. is_zeros is in the file of the attachment; the volume has a table
 *	then for each window:
 *	1. watch: mark its blocks. A write to a block removes its mark
 *	2. read it, and find whole chunks of zeros
 *	3. alias: their blocks that still have a mark are zeros by the metadata, stable. The
 *	   base has them as zeros, too
 *	4. shed: the target discards chunks of which no block is home; then their blocks are home
 *	   again, since the base reads as zeros there
 *
 * In the end all is home: see dedup_home.h, also for what a kill leaves.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/inject.h"
#include "base/log.h"
#include "host/sys/sysfs.h"
#include "host/volume/attach/stack.h"
#include "dedup_read.h"
#include "dedup_run.h"

/* --- reading */

/*
 * Count the sectors that were ever read from the disk of the thin pool. Where a read adds none,
 * the thin pool has nothing there to give back. U64_MAX: that is not counted.
 */
static u64 count_reads(const struct rd_dedup_run *run)
{
	char file[80], line[200];
	u64 sectors;
	dev_t disk = run->thin.pool_data;

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/queue/iostats", major(disk),
		 minor(disk));
	rd_sysfs_line(file, line, sizeof(line));
	if (strcmp(line, "1"))
		return U64_MAX;
	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/stat", major(disk), minor(disk));
	rd_sysfs_line(file, line, sizeof(line));
	return sscanf(line, "%*u %*u %llu", &sectors) == 1 ? sectors : U64_MAX;
}

static void read_volume(struct rd_dedup_run *run, u64 first, u64 nr, struct dmr_entry *places)
{
	u64 i, before = count_reads(run);

	/* One piece at a time, all of which has been read behind this. */
	rd_dedup_reader_start(run->reader, first, nr, places);
	if (before == U64_MAX || count_reads(run) != before)
		return;
	for (i = 0; i < nr; i++)
		places[i].kind = DMR_BASE;
}

static int find(struct rd_dedup_window *window)
{
	u64 i;

	for (i = 0; i < window->nr; i++)
		*rd_dedup_place(window, i) = (struct dmr_entry){ .kind = DMR_ZERO };
	return rd_dedup_choose_chunks(window);
}

static const struct rd_dedup_mode mode_zeros = {
	.find = find,
	.read = read_volume,
};

/* --- */

int rd_dedup_zeros_check(const struct rd_dedup_run *run)
{
	if (run->thin.zeroes)
		return 0;
	rd_err(0, "the thin pool of '%s' does not zero new chunks: what is given back could read as old data",
	       run->at->volume);
	rd_hint("nothing was changed; 'lvchange -Zy GROUP/POOL' makes it zero them");
	return -EOPNOTSUPP;
}

/* A table with a pool has its pool's name in the attachment, and stays. */
static int add_table(struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(run->at->device, &devices);

	if (r || strcmp(devices.pool, "-"))
		return r;
	run->at->is_zeros = true;
	r = rd_attachment_save(run->at);
	if (!r)
		r = rd_stack_add_table(run->at);
	return r ? r : rd_failpoint("dedup-table");
}

int rd_dedup_zeros(struct rd_dedup_run *run)
{
	int r = add_table(run);

	return r ? r : rd_dedup_windows(run, &mode_zeros);
}
