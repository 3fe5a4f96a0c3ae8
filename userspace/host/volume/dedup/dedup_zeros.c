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
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/sysfs.h"
#include "host/volume/attach/stack.h"
#include "host/volume/device/marks.h"
#include "pool/data/fp.h"
#include "dedup_run.h"

struct zeros {
	struct rd_dedup_run *run;
	u64 first, nr;		/* blocks of the window */
	bool *is_zero;		/* for each of them */
	struct rd_buffer chunks;	/* struct dmr_range: whole chunks of zeros */
};

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

static void look(struct zeros *zeros, u64 at, u64 nr)
{
	u64 i;

	for (i = 0; i < nr; i++)
		zeros->is_zero[at + i] =
			rd_is_zero(zeros->run->buf + i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
}

static int read_window(struct zeros *zeros)
{
	struct rd_dedup_run *run = zeros->run;
	size_t most = rd_pace_at_once(&run->pace, RD_DEDUP_READ) / RD_BLOCK_SIZE;
	u64 at, nr, before;
	int r = 0;

	memset(zeros->is_zero, 0, zeros->nr * sizeof(*zeros->is_zero));
	for (at = 0; at < zeros->nr && !r; at += nr) {
		nr = rd_min(most, zeros->nr - at);
		before = count_reads(run);
		r = rd_read_direct(run->fd, run->buf, nr * RD_BLOCK_SIZE,
				   (zeros->first + at) * RD_BLOCK_SIZE);
		if (r)
			return rd_err(r, "cannot read '%s' at offset %llu", run->at->device,
				      (zeros->first + at) * RD_BLOCK_SIZE);
		if (before == U64_MAX || count_reads(run) != before)
			look(zeros, at, nr);
		rd_pace(&run->pace, nr * RD_BLOCK_SIZE);
		r = rd_dedup_progress(run, zeros->first + at + nr);
	}
	return r;
}

static bool is_zero(const struct zeros *zeros, u64 at)
{
	u64 i;

	for (i = 0; i < zeros->run->unit; i++)
		if (!zeros->is_zero[at + i])
			return false;
	return true;
}

static int choose_chunks(struct zeros *zeros)
{
	u64 at, unit = zeros->run->unit;

	zeros->chunks.len = 0;
	for (at = 0; at + unit <= zeros->nr; at += unit)
		if (is_zero(zeros, at))
			rd_dedup_add(&zeros->chunks, zeros->first + at, unit);
	return zeros->chunks.failed ? -ENOMEM : 0;
}

/* --- giving back */

static void count_found(const struct zeros *zeros)
{
	const struct dmr_range *chunk;

	rd_each(chunk, &zeros->chunks)
		zeros->run->report->found += chunk->len * RD_BLOCK_SIZE;
}

/* -ESTALE: another program has set marks, or the volume was suspended. */
static int alias_chunks(struct zeros *zeros)
{
	const char *device = zeros->run->at->device;
	struct dmr_range window = { .first = zeros->first, .len = zeros->nr };
	const struct rd_buffer all = { .data = (u8 *)&window, .len = sizeof(window) };
	u64 token;
	int r = rd_marks_token(&token);

	if (!r)
		r = rd_marks_set(device, token, &all);
	if (!r)
		r = rd_failpoint("dedup-marked");
	if (!r)
		r = read_window(zeros);
	if (!r)
		r = choose_chunks(zeros);
	if (!r && zeros->chunks.len)
		r = rd_marks_alias(device, token, &zeros->chunks);
	return r;
}

static int do_window(struct zeros *zeros)
{
	unsigned int tries = 0;
	int r;

	do {
		r = alias_chunks(zeros);
	} while (r == -ESTALE && rd_dedup_try_again(zeros->run, &tries));
	if (r == -ESTALE)
		return rd_dedup_disturbed(zeros->run);
	if (r || !zeros->chunks.len)
		return r;
	count_found(zeros);
	r = rd_failpoint("dedup-aliased");
	if (!r)
		r = rd_dedup_shed(zeros->run, &zeros->chunks, true);
	return r ? r : rd_failpoint("dedup-shed");
}

static int window(struct rd_dedup_run *run, u64 first, u64 nr)
{
	struct zeros zeros = {
		.run = run,
		.first = first,
		.nr = nr,
		.is_zero = calloc(nr, sizeof(bool)),
	};
	int r = zeros.is_zero ? do_window(&zeros) : -ENOMEM;

	rd_buffer_free(&zeros.chunks);
	free(zeros.is_zero);
	return r;
}

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

	if (r)
		return r;
	r = rd_dedup_windows(run, window);
	rd_marks_clear(run->at->device);
	return r;
}
