// SPDX-License-Identifier: GPL-2.0
/* Take a version of an attached volume: see live_snapshot.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/volume/attach/dedup_lease.h"
#include "host/volume/attach/safety.h"
#include "host/volume/device/target.h"
#include "live_parts.h"

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

int rd_live_recover(struct rd_pool *pool, const struct rd_attachment *at, i64 *ret_volume)
{
	struct rd_target_status status;
	struct rd_version version;
	int r;

	/* The volume may be new to the pool. */
	r = rd_volume_find(pool->sql, at->volume, ret_volume);
	if (!r || r == -ENOENT)
		r = rd_freeze_end(at);
	if (!r)
		r = rd_target_status(at->device, &status);
	if (r || !status.has_checkpoint)
		return r;
	r = newest(pool, *ret_volume, &version);
	if (r && r != -ENOENT)
		return r;
	if (!r && is_its(at, &version, status.checkpoint) && at->version_uid == version.uid)
		return rd_target_commit(at->device, status.checkpoint, version.number);
	return rd_target_abort(at->device, status.checkpoint);
}

/* Return why everything must be read, or NULL. */
static const char *why_all(const struct rd_live *live, const struct rd_target_status *status)
{
	const struct rd_attachment *at = live->at;
	const struct rd_version *last = &live->last;

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
		return "writes may have bypassed the target";
	/* The pool is another one, or a copy of it with other versions. */
	if (at->version_uid != last->uid)
		return "the pool's newest version is not the one that the target knows";
	return live->is_shared ? "another program has the device below it open" : NULL;
}

static int find_last(struct rd_live *live)
{
	int r = rd_live_recover(live->pool, live->at, &live->volume);

	if (r)
		return r;
	r = newest(live->pool, live->volume, &live->last);
	return r == -ENOENT ? 0 : r;
}

/* --- once it is copied */

/* The copy may also have writes that bypassed the target. */
static void look_for_others(struct rd_live *live)
{
	const struct rd_attachment *at = live->at;

	if (live->is_shared || !rd_block_is_open(at->base))
		return;
	rd_warn("a program has '%s' open ('fuser -v' shows which) and should use '/dev/mapper/%s': its writes are not tracked",
		at->base, at->device);
	live->is_shared = true;
	live->snapshot.is_in_use = true;
}

/* What a program wrote that is gone when the next snapshot looks. */
static int note_others(struct rd_live *live)
{
	look_for_others(live);
	return live->is_shared ? rd_attachment_bypassed(live->at) : 0;
}

/*
 * Writes that bypass the target, during the copy and after it, are in no list: 0 makes the next
 * snapshot read everything once more.
 */
static int note(struct rd_live *live, const struct rd_version *version)
{
	int r = rd_attachment_path(live->at->version_pool, live->pool);

	live->at->version_uid = live->is_shared ? 0 : version->uid;
	if (!r)
		r = rd_attachment_save(live->at);
	/* The file may name another one still: see rd_live_recover(). */
	if (r)
		live->at->version_uid = 0;
	return r;
}

/* Commit the checkpoint: the version exists. */
int rd_live_commit(struct rd_live *live, const struct rd_version *version)
{
	/*
	 * Before the commit: if that fails, the target has these segments and more as dirty. In
	 * the other order the previous pool could be taken for this one.
	 */
	int r;

	/* Others of a group were copied since this one was. */
	look_for_others(live);
	r = note(live, version);
	if (!r)
		r = rd_failpoint("live-commit");
	if (!r)
		r = rd_target_commit(live->at->device, live->freeze.epoch, version->number);
	live->committed = !r;
	if (!r)
		r = rd_failpoint("live-committed");
	if (!r)
		r = rd_freeze_end(live->at);
	return r;
}

static int copied(void *ctx, const struct rd_version *version)
{
	struct rd_live *live = ctx;
	int r = rd_live_commit(live, version);

	rd_view_pool_unviewed(&live->reads);
	return r;
}

static int check(void *ctx)
{
	struct rd_live *live = ctx;
	int r = rd_failpoint("live-read");

	live->copied = true;
	if (!r)
		r = note_others(live);
	return r ? r : rd_freeze_check(&live->freeze);
}

/* --- the steps */

void rd_live_init(struct rd_live *live, const struct rd_caller *caller, struct rd_attachment *at,
		  const struct rd_live_options *options)
{
	*live = (struct rd_live){
		.caller = caller,
		.pool = caller->pool,
		.at = at,
		.options = options,
		.freeze.at = at,
		.reads = RD_VIEW_POOL_NONE,
		.snapshot = {
			.volume = at->volume,
			.comment = options->comment,
			.compression = options->compression,
			.rule = options->rule,
			.verify_hits = options->verify_hits,
			.tags = options->tags,
			.tracker = at->uuid,
			.is_frozen = true,
			.check = check,
			.copied = copied,
			.ctx = live,
		},
	};
}

int rd_live_prepare(struct rd_live *live)
{
	struct rd_attachment *at = live->at;
	struct rd_target_status status;
	int r;

	r = rd_volume_track(live->caller, at);
	if (!r)
		r = rd_check_pool_apart(live->pool, at);
	if (!r)
		r = find_last(live);
	/* It can take long: not while the volume is frozen. */
	if (!r)
		r = rd_snapshot_prepare(live->pool, at->volume, &live->options->rule);
	if (!r)
		r = rd_target_status(at->device, &status);
	if (r)
		return r;
	look_for_others(live);
	live->snapshot.why_full = why_all(live, &status);
	return live->is_shared ? rd_attachment_bypassed(at) : 0;
}

/* --- holding it still */

/* What a view reads in a pool stays there until the copy is done. */
static int keep_places(struct rd_live *live)
{
	struct rd_target_status status;
	int r = rd_target_status(live->at->device, &status);

	/* Zeros alone are in no pool. */
	if (r || rd_target_is_home(&status) || live->at->is_zeros)
		return r;
	return rd_view_pool_open(&live->reads, live->caller, live->at);
}

/* Two of them may read one, which is not opened twice. */
static int refuse_other(const struct rd_attachment *at)
{
	rd_err(0, "blocks of '%s' lie in another pool, '%s': it cannot be in a group", at->volume,
	       at->pool);
	rd_hint("no version was made; take one of it alone, or wait until the blocks are copied back");
	return -EXDEV;
}

int rd_live_freeze(struct rd_live *const *lives, unsigned int nr)
{
	const struct rd_freeze_options options = {
		.dir = lives[0]->pool->path,
		.cow_bytes = lives[0]->options->cow_bytes,
		.hook_seconds = lives[0]->options->hook_seconds,
	};
	RD_FREE struct rd_freeze **freezes = calloc(nr, sizeof(*freezes));
	bool all_viewed = true;
	unsigned int i;
	int r = freezes ? 0 : -ENOMEM;

	for (i = 0; i < nr && !r; i++) {
		freezes[i] = &lives[i]->freeze;
		r = keep_places(lives[i]);
		if (!r && nr > 1 && lives[i]->reads.is_own)
			r = refuse_other(lives[i]->at);
		all_viewed &= !lives[i]->reads.needs_shut;
	}
	if (!r)
		r = rd_freeze_begin(freezes, nr, &options);
	/* In one pool all have one lock. */
	for (i = 0; i < nr && !r && all_viewed; i++)
		rd_view_pool_viewed(&lives[i]->reads);
	/* Hooks may have taken long. */
	for (i = 0; i < nr && r; i++)
		note_others(lives[i]);
	return r;
}

/* --- copying */

int rd_live_ready(struct rd_live *live)
{
	struct rd_snapshot_options *snapshot = &live->snapshot;
	struct rd_target_status status;
	int r;

	snapshot->from = live->freeze.source;
	snapshot->epoch = live->freeze.epoch;
	if (snapshot->why_full)
		return 0;
	r = rd_target_status(live->at->device, &status);
	if (!r)
		r = rd_target_dirty(live->at->device, "frozen", status.nr_segs, &live->ranges);
	if (r)
		return r;
	live->changed = (struct rd_changed){
		.base = live->last.number,
		.nr = live->ranges.len / sizeof(*live->changed.ranges),
		.ranges = (struct rd_changed_range *)live->ranges.data,
	};
	snapshot->changed = &live->changed;
	return 0;
}

void rd_live_give_up(struct rd_live *live)
{
	if (live->committed)
		return;
	if (!live->copied)
		rd_freeze_check(&live->freeze);
	note_others(live);
	rd_live_recover(live->pool, live->at, &live->volume);
}

/*
 * What the volume has in the pool, the new version has as well: let it hold that, so that older
 * ones can go. A crash before leaves older ones held until the next snapshot.
 */
static void move_lease(const struct rd_live *live, const struct rd_version *version)
{
	if (rd_is_pool_of(live->pool, live->at) &&
	    rd_lease_move(live->pool, live->at, version))
		rd_warn("the pool goes on keeping what older versions of '%s' have, for its device",
			live->at->volume);
}

int rd_live_end(struct rd_live *live, int r, struct rd_live_report *report)
{
	int closed = rd_view_pool_close(&live->reads);

	rd_buffer_free(&live->ranges);
	r = r ? r : closed;
	if (!r)
		move_lease(live, &report->snapshot.version);
	report->pause_us = live->freeze.pause_us;
	report->undo_failed = !r && live->freeze.undo_failed;
	return r;
}

/* --- one volume */

static int take(struct rd_live *live, struct rd_snapshot_report *report)
{
	int r = rd_live_prepare(live);

	if (!r)
		r = rd_live_freeze(&live, 1);
	if (r)
		return r;
	r = rd_failpoint("live-frozen");
	if (!r)
		r = rd_live_ready(live);
	if (!r)
		r = rd_snapshot(live->pool, &live->snapshot, report);
	if (r)
		rd_live_give_up(live);
	return r;
}

int rd_live_snapshot(const struct rd_caller *caller, struct rd_attachment *at,
		     const struct rd_live_options *options, struct rd_live_report *report)
{
	struct rd_live live;

	memset(report, 0, sizeof(*report));
	rd_live_init(&live, caller, at, options);
	return rd_live_end(&live, take(&live, &report->snapshot), report);
}
