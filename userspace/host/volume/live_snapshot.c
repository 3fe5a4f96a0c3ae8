// SPDX-License-Identifier: GPL-2.0
/* Take a version of an attached volume: see live_snapshot.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "dedup_lease.h"
#include "freeze.h"
#include "live_snapshot.h"
#include "safety.h"
#include "target.h"
#include "view_pool.h"

struct live {
	struct rd_pool *pool;
	struct rd_attachment *at;
	const struct rd_live_options *options;
	struct rd_freeze freeze;
	struct rd_view_pool reads;	/* from here, the view */
	bool committed;
	bool is_shared;		/* a program writes past the target, or could */
};

/* --- before */

static int newest(struct rd_pool *pool, i64 volume, struct rd_version *ret)
{
	memset(ret, 0, sizeof(*ret));
	return volume ? rd_version_before(pool->sql, volume, INT64_MAX, ret) : -ENOENT;
}

static bool is_its(const struct rd_attachment *at, const struct rd_version *version, u64 epoch)
{
	return !memcmp(version->tracker, at->uuid, sizeof(at->uuid)) && version->epoch == epoch;
}

/*
 * Clean up after an interrupted command: commit its checkpoint if the pool has the version of
 * it, else abort it. @volume: its id in the catalog; 0: it has none.
 */
static int recover(struct rd_pool *pool, const struct rd_attachment *at, i64 volume)
{
	struct rd_target_status status;
	struct rd_version version;
	int r;

	r = rd_freeze_end(at);
	if (!r)
		r = rd_target_status(at->device, &status);
	if (r || !status.has_checkpoint)
		return r;
	r = newest(pool, volume, &version);
	if (r && r != -ENOENT)
		return r;
	if (!r && is_its(at, &version, status.checkpoint))
		return rd_target_commit(at->device, status.checkpoint, version.number);
	return rd_target_abort(at->device, status.checkpoint);
}

/* Return why everything must be read, or NULL. */
static const char *why_all(const struct live *live, const struct rd_target_status *status,
			   const struct rd_version *last)
{
	const struct rd_attachment *at = live->at;

	if (live->options->full_scan)
		return "as requested";
	if (!last->id)
		return "it is the first version";
	if (status->is_lost)
		return "tracking was lost";
	if (memcmp(last->tracker, at->uuid, sizeof(at->uuid)))
		return "the newest version was not made by this target";
	if ((i64)status->version != last->number)
		return "tracking does not continue from the newest version";
	if (!at->version_uid)
		return "another program had the device below it open";
	/* The pool is another one, or a copy of it with other versions. */
	if (at->version_uid != last->uid)
		return "the pool's newest version is not the one that the target knows";
	return live->is_shared ? "another program has the device below it open" : NULL;
}

/* --- copying */

/* Commit the checkpoint: the version exists. */
static int copied(void *ctx, const struct rd_version *version)
{
	struct live *live = ctx;
	int r;

	/*
	 * Writes that bypass the target, during the copy and after it, are in no list: 0 makes
	 * the next snapshot read everything once more.
	 *
	 * Save before the commit: if the commit fails, the target has these segments and more
	 * as dirty. In the other order the previous pool could be taken for this one.
	 */
	live->at->version_uid = live->is_shared ? 0 : version->uid;
	r = rd_attachment_path(live->at->version_pool, live->pool);
	if (!r)
		r = rd_attachment_save(live->at);
	if (!r)
		r = rd_failpoint("live-commit");
	if (!r)
		r = rd_target_commit(live->at->device, live->freeze.epoch, version->number);
	live->committed = !r;
	if (!r)
		r = rd_failpoint("live-committed");
	if (!r)
		r = rd_freeze_end(live->at);
	rd_view_pool_unviewed(&live->reads);
	return r;
}

static int copy(struct live *live, struct rd_snapshot_options *options, i64 base,
		struct rd_snapshot_report *report)
{
	bool all = options->why_full;
	struct rd_buffer ranges = { 0 };
	struct rd_target_status status;
	struct rd_changed changed = { .base = base };
	int r;

	r = rd_target_status(live->at->device, &status);
	if (!r && !all)
		r = rd_target_dirty(live->at->device, "frozen", status.nr_segs, &ranges);
	if (r) {
		rd_buffer_free(&ranges);
		return r;
	}
	changed.nr = ranges.len / sizeof(*changed.ranges);
	changed.ranges = (struct rd_changed_range *)ranges.data;
	options->changed = all ? NULL : &changed;
	options->from = live->freeze.source;
	options->tracker = live->at->uuid;
	options->epoch = live->freeze.epoch;
	options->is_frozen = true;
	/* The copy may also have writes that bypassed the target. */
	options->is_in_use = live->is_shared;
	options->copied = copied;
	options->ctx = live;
	r = rd_snapshot(live->pool, options, report);
	rd_buffer_free(&ranges);
	return r;
}

/* Clean up if no version was made, or if it was and the commit failed. */
static void give_up(struct live *live, i64 volume)
{
	if (live->committed)
		return;
	rd_freeze_check(&live->freeze);
	recover(live->pool, live->at, volume);
}

/* Hold the volume still. What its view reads in a pool stays there until the copy is done. */
static int freeze(struct live *live, const struct rd_caller *caller,
		  const struct rd_target_status *status)
{
	const struct rd_freeze_options options = {
		.dir = live->pool->path,
		.cow_bytes = live->options->cow_bytes,
		.hook_seconds = live->options->hook_seconds,
	};
	int r = 0;

	/* Zeros alone are in no pool. */
	if (!rd_target_is_home(status) && !live->at->is_zeros)
		r = rd_view_pool_open(&live->reads, caller, live->at);
	if (!r)
		r = rd_freeze_begin(&live->freeze, live->at, &options);
	if (!r)
		rd_view_pool_viewed(&live->reads);
	return r;
}

static int find_volume(struct live *live, i64 *ret_volume, struct rd_version *ret_last)
{
	int r;

	*ret_volume = 0;
	r = rd_volume_find(live->pool->sql, live->at->volume, ret_volume);
	if (r && r != -ENOENT)
		return r;
	r = recover(live->pool, live->at, *ret_volume);
	if (r)
		return r;
	r = newest(live->pool, *ret_volume, ret_last);
	return r == -ENOENT ? 0 : r;
}

static int take(struct live *live, const struct rd_caller *caller,
		struct rd_snapshot_report *report)
{
	const struct rd_live_options *options = live->options;
	struct rd_snapshot_options snapshot = {
		.volume = live->at->volume,
		.comment = options->comment,
		.compression = options->compression,
		.rule = options->rule,
		.verify_hits = options->verify_hits,
		.tags = options->tags,
	};
	struct rd_target_status status;
	struct rd_version last;
	i64 volume;
	int r;

	r = find_volume(live, &volume, &last);
	/* It can take long: not while the volume is frozen. */
	if (!r)
		r = rd_snapshot_prepare(live->pool, live->at->volume, &options->rule);
	if (!r)
		r = rd_target_status(live->at->device, &status);
	if (r)
		return r;
	live->is_shared = rd_block_is_open(live->at->base);
	if (live->is_shared)
		rd_warn("a program has '%s' open ('fuser -v' shows which) and should use '/dev/mapper/%s': its writes are not tracked",
			live->at->base, live->at->device);
	snapshot.why_full = why_all(live, &status, &last);
	r = freeze(live, caller, &status);
	if (r)
		return r;
	r = rd_failpoint("live-frozen");
	if (!r)
		r = copy(live, &snapshot, last.number, report);
	if (r)
		give_up(live, report->version.volume);
	return r;
}

/*
 * What the volume has in the pool, the new version has as well: let it hold that, so that older
 * ones can go. A crash before leaves older ones held until the next snapshot.
 */
static void move_lease(const struct live *live, const struct rd_version *version)
{
	if (rd_is_pool_of(live->pool, live->at) &&
	    rd_lease_move(live->pool, live->at, version))
		rd_warn("the pool goes on keeping what older versions of '%s' have, for its device",
			live->at->volume);
}

int rd_live_snapshot(const struct rd_caller *caller, struct rd_attachment *at,
		     const struct rd_live_options *options, struct rd_live_report *report)
{
	struct live live = {
		.pool = caller->pool,
		.at = at,
		.options = options,
		.reads = RD_VIEW_POOL_NONE,
	};
	int r, closed;

	memset(report, 0, sizeof(*report));
	r = rd_volume_track(caller, at);
	if (!r)
		r = rd_check_pool_apart(live.pool, at);
	if (!r)
		r = take(&live, caller, &report->snapshot);
	closed = rd_view_pool_close(&live.reads);
	r = r ? r : closed;
	if (!r)
		move_lease(&live, &report->snapshot.version);
	report->pause_us = live.freeze.pause_us;
	report->undo_failed = !r && live.freeze.undo_failed;
	return r;
}
