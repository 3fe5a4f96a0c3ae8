// SPDX-License-Identifier: GPL-2.0
/*
 * All of a pool as packs, or raw: see recompress.h.
 *
 * Frames are written anew a few at a time, with the lock of those who free, so snapshots and
 * all that reads go on meanwhile. What they took is given back every now and then.
 */
#include <errno.h>

#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/engine/space/choices.h"
#include "pool/engine/space/hold.h"
#include "pool/engine/space/lease.h"
#include "pool/engine/space/rewrite.h"
#include "pool/engine/version/version.h"
#include "recompress.h"

#define FRAMES		(RD_REWRITE_BLOCKS / RD_SEG_BLOCKS)
/* How many frames are written anew before what they took is given back. */
#define FREE_AFTER	256

struct run {
	struct rd_pool *pool;
	struct rd_rewrite_options options;
	u64 next, last;		/* frames that may have something to convert */
	u64 done, total;	/* blocks */
	bool is_full;
};

/* The next frames, and how many blocks live there. */
static int list_frames(struct run *run, u64 frames[FRAMES], unsigned int *ret_nr)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_sql *sql = run->pool->sql;
	unsigned int live;
	u64 frame;
	int r;

	*ret_nr = 0;
	r = rd_frames_owned(sql, &rows, run->next, run->last, FRAMES);
	while (!r && (r = rd_next_frame(rows, &frame)) > 0) {
		frames[(*ret_nr)++] = frame;
		run->next = frame + 1;
		r = rd_frames_count_live(sql, frame, &live);
		run->done += live;
	}
	return r;
}

static int convert_some(struct run *run, unsigned int *ret_nr)
{
	struct rd_pool *pool = run->pool;
	struct rd_lock lock = RD_LOCK_NONE;
	u64 frames[FRAMES];
	int r;

	*ret_nr = 0;
	r = rd_pool_lock(pool, &lock, RD_LOCK_FREE, 0, true, "the queue of slots to free");
	if (r)
		return r;
	r = list_frames(run, frames, ret_nr);
	if (!r && *ret_nr)
		r = rd_rewrite(pool, frames, *ret_nr, &run->options);
	run->is_full = r > 0;
	rd_lock_drop(&lock);
	return r > 0 ? 0 : r;
}

static int convert_all(struct run *run)
{
	unsigned int nr = 1, waiting = 0;
	int r = 0;

	while (!r && nr && !run->is_full) {
		r = convert_some(run, &nr);
		waiting += nr;
		if (!r && waiting >= FREE_AFTER) {
			r = rd_free_queue(run->pool);
			waiting = 0;
		}
		if (!r)
			r = rd_pool_progress(run->pool, "convert", run->done * RD_BLOCK_SIZE,
					     rd_max(run->total, run->done) * RD_BLOCK_SIZE);
		rd_sql_pause();
	}
	return r;
}

static int tell_full(void)
{
	rd_err(0, "the pool is full: what was not converted stays as it was");
	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, NULL);
	rd_remedy(RD_REMEDY_GROW, NULL, NULL);
	return -ENOSPC;
}

/* What a device names that cannot be moved would be stored twice. */
static int check_devices(struct rd_pool *pool)
{
	struct rd_lease_ops *ops = pool->lease_ops;
	struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_lease_list(pool->sql, NULL, &leases);

	rd_each(lease, &leases)
		if (!r && !rd_lease_is_hold(lease) && ops && ops->is_fixed &&
		    ops->is_fixed(ops, lease))
			r = -EBUSY;
	rd_buffer_free(&leases);
	if (r == -EBUSY) {
		rd_err(0, "a device that reads the pool is down, or is being copied: what it reads would be stored twice");
		rd_hint("nothing was changed; once it is up, or the copy is done, repeat the command");
	}
	return r;
}

int rd_recompress(struct rd_pool *pool, struct rd_compression compression,
		  struct rd_recompress_report *report)
{
	bool packs = compression.codec;
	struct run run = {
		.pool = pool,
		.options = { .compression = compression, .only_packs = packs },
		.next = packs ? 0 : RD_PACKED_FRAMES,
		.last = packs ? RD_PACKED_FRAMES - 1 : INT64_MAX,
	};
	int r;

	r = rd_blocks_owned(pool->sql, &run.total);
	report->bytes_before = run.total * RD_BLOCK_SIZE;
	if (!r)
		r = check_devices(pool);
	if (!r)
		r = rd_packs_choose(pool, compression);
	if (!r)
		r = convert_all(&run);
	if (!r)
		r = rd_free_queue(pool);
	if (!r)
		r = rd_blocks_owned(pool->sql, &run.total);
	report->bytes_after = run.total * RD_BLOCK_SIZE;
	return !r && run.is_full ? tell_full() : r;
}
