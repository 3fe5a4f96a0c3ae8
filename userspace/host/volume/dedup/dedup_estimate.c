// SPDX-License-Identifier: GPL-2.0
/* May a volume read cold blocks from its pool, and would that be worth it? */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "base/sort.h"
#include "host/volume/attach/dedup_lease.h"
#include "host/volume/attach/safety.h"
#include "host/volume/attach/tenants.h"
#include "dedup_run.h"

/* Less is not worth the dependence: so many percent of what is mapped, and so many bytes. */
#define LEAST_PERCENT	5
#define LEAST_BYTES	(1ULL << 30)

/* Random reads of a block each; in hundredths of the time that the base takes. */
#define READS		1000
#define LEAST_READS	100
#define MOST_TIME	125

struct estimate {
	struct rd_dedup_run *run;
	struct dmr_entry *places;
	u64 chunks;			/* that could be given back */
	u64 nr_seen;			/* blocks in the pool, of which some are sampled */
	struct sample {
		u64 block, place;
	} samples[READS];
	u64 random;
};

/* --- by the catalog */

/* Keep each block that was seen with the same chance. */
static void sample(struct estimate *e, u64 block, u64 place)
{
	u64 at = e->nr_seen++;

	if (at >= READS) {
		/* Knuth's, good enough to choose where to read */
		e->random = e->random * 6364136223846793005ULL + 1442695040888963407ULL;
		at = (e->random >> 20) % e->nr_seen;
	}
	if (at < READS)
		e->samples[at] = (struct sample){ block, place };
}

static bool take_chunk(struct estimate *e, u64 first, const struct dmr_entry *places)
{
	u64 i, unit = e->run->unit;
	bool any = false;

	for (i = 0; i < unit; i++) {
		if (places[i].kind == DMR_BASE)
			return false;
		any |= dmr_entry_in_pool(places[i]);
	}
	for (i = 0; i < unit; i += 16)
		if (dmr_entry_in_pool(places[i]))
			sample(e, first + i, dmr_entry_pool_block(places[i]));
	return any;
}

/* Chunks are counted in windows, as they are given back. */
static int count_window(struct estimate *e, u64 first, u64 nr)
{
	u64 at, segment = first / RD_SEG_BLOCKS, skip = first % RD_SEG_BLOCKS;
	u64 nr_segs = rd_round_up(skip + nr, RD_SEG_BLOCKS) / RD_SEG_BLOCKS;
	int r = rd_dedup_source_read(&e->run->source, segment, nr_segs, e->places);

	for (at = 0; !r && at + e->run->unit <= nr; at += e->run->unit)
		e->chunks += take_chunk(e, first + at, e->places + skip + at);
	return r;
}

static int count(struct estimate *e)
{
	struct rd_dedup_run *run = e->run;
	u64 first, size = rd_dedup_window_blocks(run);
	struct rd_target_status status;
	u64 bytes, already;
	int r = rd_target_status(run->at->device, &status);

	e->places = calloc(RD_DEDUP_WINDOW / RD_BLOCK_SIZE + 2 * RD_SEG_BLOCKS,
			   sizeof(*e->places));
	if (!e->places)
		return -ENOMEM;
	for (first = 0; first < run->nr_blocks && !r; first += size)
		r = count_window(e, first, rd_min(size, run->nr_blocks - first));
	if (r)
		return r;
	bytes = e->chunks * run->unit * RD_BLOCK_SIZE;
	already = status.nr_pool * RD_BLOCK_SIZE;
	run->report->estimate = rd_min(bytes > already ? bytes - already : 0, run->thin.mapped);
	return 0;
}

/* --- what is not worth it */

/* Say why; a dry run leaves that to its report. */
__attribute__((format(printf, 2, 3)))
static int refuse(const struct rd_dedup_run *run, const char *fmt, ...)
{
	char *text = run->report->refusal;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(run->report->refusal), fmt, args);
	va_end(args);
	if (!run->options->dry_run) {
		rd_err(0, "%s", text);
		rd_remedy(RD_REMEDY_DEDUP_ANYWAY, NULL, "nothing was changed");
	}
	return -EINVAL;
}

/* Measure how long the median of the reads takes, in us. */
static int time_reads(const struct estimate *e, const char *path, bool of_pool, u64 *ret_us)
{
	RD_CLOSE int fd = rd_open_direct(path, O_RDONLY, 0);
	static u8 buf[RD_BLOCK_SIZE] __attribute__((aligned(RD_BLOCK_SIZE)));
	u64 i, before, nr = rd_min(e->nr_seen, READS);
	u64 times[READS];
	int r = 0;

	if (fd < 0)
		return rd_err(fd, "cannot open '%s'", path);
	for (i = 0; i < nr && !r; i++) {
		before = rd_now_us();
		r = rd_read_direct(fd, buf, RD_BLOCK_SIZE, RD_BLOCK_SIZE *
				   (of_pool ? e->samples[i].place : e->samples[i].block));
		times[i] = rd_now_us() - before;
	}
	if (r)
		return rd_err(r, "cannot read '%s'", path);
	qsort(times, nr, sizeof(*times), rd_compare_u64);
	*ret_us = times[nr / 2];
	return 0;
}

static int check_speed(const struct estimate *e)
{
	RD_FREE char *data = rd_path_in(e->run->pool->path, "data");
	struct rd_dedup_run *run = e->run;
	u64 base_us = 0, pool_us = 0;
	int r;

	if (e->nr_seen < LEAST_READS)
		return 0;
	r = data ? time_reads(e, run->at->base, false, &base_us) : -ENOMEM;
	if (!r)
		r = time_reads(e, data, true, &pool_us);
	if (r || pool_us * 100 <= rd_max(base_us, 1) * MOST_TIME)
		return r;
	return refuse(run, "the pool is slower than '%s': a read of 4 KiB takes %llu us, and %llu us there",
		      run->at->volume, base_us, pool_us);
}

static int check_device(const struct rd_dedup_run *run)
{
	if (rd_area_can(&run->pool->area, RD_STORE_KERNEL_READS))
		return 0;
	if (rd_area_can(&run->pool->area, RD_STORE_FENCED))
		return refuse(run, "the pool is in RADOS, so that each read would cross the network");
	return refuse(run, "the data of the pool are a file, so that each read would pass a loop device and a file system");
}

static int check_gain(const struct rd_dedup_run *run)
{
	u64 gain = run->report->estimate;
	u64 least = rd_max(run->thin.mapped / 100 * LEAST_PERCENT, LEAST_BYTES);

	if (gain >= least)
		return 0;
	return refuse(run, "'%s' would give back %llu MiB of %llu MiB, which is not worth that it depends on the pool",
		      run->at->volume, gain >> 20, run->thin.mapped >> 20);
}

/* --- */

static int check_worth(const struct estimate *e)
{
	int r = check_gain(e->run);

	if (!r)
		r = check_device(e->run);
	return r ? r : check_speed(e);
}

/* What was once agreed to is not asked again. */
static int check_consent(const struct estimate *e)
{
	struct rd_dedup_run *run = e->run;
	const struct rd_live_dedup_options *options = run->options;
	int r = 0;

	if (run->at->dedup_pool)
		return 0;
	if (!options->force)
		r = check_worth(e);
	if (options->dry_run)
		return run->report->refusal[0] ? 0 : r;
	if (!r && options->confirm)
		r = options->confirm(options->ctx, run->at, run->report->estimate);
	return r;
}

/* Refuse another pool than the one that blocks lie in, or lay in when they were agreed to. */
static int check_same_pool(const struct rd_dedup_run *run)
{
	struct rd_target_status status;
	int r = rd_target_status(run->at->device, &status);

	if (!r)
		r = rd_check_pool_apart(run->pool, run->at);
	if (r || rd_is_pool_of(run->pool, run->at) || (!run->at->dedup_pool && !status.nr_pool))
		return r;
	rd_err(0, "blocks of '%s' lie in another pool, '%s'", run->at->volume, run->at->pool);
	rd_remedy(RD_REMEDY_RECALL, run->at->volume, "nothing was changed");
	return -EXDEV;
}

/*
 * Refuse a volume that reads another version than the newest from the pool, as a roll-back
 * leaves it whose blocks do not come home: its lease must stay. The next snapshot reads all of
 * that, and moves the lease on.
 */
static int check_lease(const struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	bool names_pool = false, has;
	int r = rd_target_devices(run->at->device, &devices);

	if (!r && strcmp(devices.pool, "-"))
		r = rd_device_names_pool(run->at->device, &names_pool);
	if (r || !names_pool)
		return r;
	r = rd_has_lease(run->pool, run->at, &run->source.version, &has);
	if (r || has)
		return r;
	rd_err(0, "'%s' reads blocks of an older version than its newest from the pool",
	       run->at->volume);
	rd_remedy(RD_REMEDY_TAKE_SNAPSHOT, run->at->volume, "nothing was changed;");
	return -EINVAL;
}

int rd_dedup_pool_check(struct rd_dedup_run *run)
{
	RD_FREE struct estimate *e = calloc(1, sizeof(*e));
	int r = check_same_pool(run);

	if (!e)
		return -ENOMEM;
	e->run = run;
	e->random = rd_now_us();
	if (!r)
		r = rd_dedup_choose_cold(run);
	if (!r)
		r = rd_dedup_source_open(&run->source, run->pool, run->at, run->nr_blocks,
					 run->report->cold);
	if (!r)
		r = check_lease(run);
	if (!r)
		r = count(e);
	free(e->places);
	return r ? r : check_consent(e);
}
