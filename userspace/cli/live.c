// SPDX-License-Identifier: GPL-2.0
/*
 * Take a version of a volume that is attached, while it is written to.
 *
 *	1. what a command that died has left is cleaned up
 *	2. the volume is held still for a moment (freeze.h): checkpoint E
 *	3. what was dirty then is copied; the version exists, and knows E
 *	4. commit E: the target forgets what was dirty; then what holds it still goes
 *
 * After a crash in 2 or 3 there is no version, and checkpoint E is aborted: what was
 * dirty is so again. After one in 4 the pool has the version of E, and the commit is
 * repeated. Nothing is dirty that is not, or the other way round, in any of them.
 *
 * The target knows the number of the last version, the file of the attachment its uid,
 * and the catalog its tracker. Where these are not one and the same, everything is read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/failpoint.h"
#include "host/sys/block.h"
#include "host/volume/clone.h"
#include "host/volume/freeze.h"
#include "host/volume/rollback.h"
#include "host/volume/stack.h"
#include "pool/engine/lease.h"
#include "pool/engine/snapshot.h"
#include "cli.h"

struct live {
	struct ctl *ctl;
	struct rd_attachment *at;
	struct rd_freeze freeze;
	struct rd_lock shut;	/* where the view reads the pool */
	bool committed;
	bool is_shared;		/* somebody writes past the target, or could */
};

/* --- its devices */

int ctl_need_module(void)
{
	if (rd_dm_has_target(RD_TARGET))
		return 0;
	rd_err(0, "there is no module dm-revdedup for this kernel");
	rd_hint("nothing was changed; install it for this kernel: 'make install', or dkms");
	return CTL_NO_MODULE;
}

/* Is it the pool that blocks of the volume lie in? */
static bool is_its_pool(const struct ctl *ctl, const struct rd_attachment *at)
{
	RD_FREE char *path = realpath(ctl->pool->path, NULL);

	return path && !strcmp(path, at->pool);
}

static int repeat_rollback(struct rd_pool *pool, struct rd_attachment *at)
{
	int r = rd_rollback_repeat(pool, at);

	if (r == -ENOENT)
		return rd_err(-EUCLEAN, "the pool does not know to which version '%s' was rolled back",
			      at->volume);
	if (!r)
		rd_warn("a roll-back of '%s' had been cut short, and is done now", at->volume);
	return r;
}

/*
 * The device cannot be resumed, because a roll-back was cut short in the middle. The
 * pool knows to which version.
 */
static int finish_rollback(struct ctl *ctl, struct rd_attachment *at)
{
	struct rd_pool *pool;
	unsigned int wait_ms;
	int r;

	if (ctl->pool && is_its_pool(ctl, at))
		return repeat_rollback(ctl->pool, at);
	if (!at->pool[0])
		return rd_err(-EUCLEAN, "it is not known from which pool '%s' was rolled back",
			      at->volume);
	r = ctl_lock_wait(ctl, &wait_ms);
	if (!r)
		r = rd_pool_open(&pool, at->pool, RD_POOL_WRITE, ctl->command->name, wait_ms);
	return r ? r : rd_pool_close(pool, repeat_rollback(pool, at));
}

int ctl_volume_up(struct ctl *ctl, struct rd_attachment *at, enum rd_stack_state *ret_state)
{
	unsigned int wait_ms;
	int r;

	r = ctl_lock_wait(ctl, &wait_ms);
	if (!r)
		r = rd_attachment_lock(at, wait_ms);
	if (!r)
		r = rd_attachment_refresh(at);
	if (!r && at->is_unfinished) {
		rd_err(0, "'%s' is a clone that was cut short", at->volume);
		rd_hint("'revdedupctl clone' makes it anew, 'revdedupctl detach' takes away what there is of it");
		return CTL_FAILED;
	}
	if (!r)
		r = rd_stack_up(at, ret_state);
	if (r == -EUCLEAN) {
		*ret_state = RD_STACK_UP;
		r = finish_rollback(ctl, at);
	}
	return r;
}

/* With --force without its pool, if that cannot be opened. */
static int undo_clone(struct ctl *ctl, const struct rd_attachment *at, unsigned int wait_ms)
{
	struct rd_pool *pool;
	int r;

	r = rd_pool_open(&pool, at->pool, RD_POOL_WRITE, ctl->command->name, wait_ms);
	if (!r)
		return rd_pool_close(pool, rd_clone_undo(pool, at));
	if (ctl_has(ctl, CTL_OPT_FORCE))
		return rd_clone_undo(NULL, at);
	rd_hint("nothing was changed; if the pool does not come back: 'revdedupctl detach %s --force'",
		at->volume);
	return r;
}

int ctl_clear_unfinished(struct ctl *ctl, struct rd_attachment *at)
{
	unsigned int wait_ms;
	int r;

	if (!at->is_unfinished)
		return 0;
	r = ctl_lock_wait(ctl, &wait_ms);
	if (!r)
		r = rd_attachment_lock(at, wait_ms);
	if (!r)
		r = rd_attachment_refresh(at);
	if (r || !at->is_unfinished)
		return r;
	r = undo_clone(ctl, at, wait_ms);
	if (r)
		return r;
	rd_warn("'%s' was a clone that had been cut short: what there was of it is gone",
		at->volume);
	return 1;
}

/* --- before */

static int newest(struct ctl *ctl, i64 volume, struct rd_version *ret)
{
	memset(ret, 0, sizeof(*ret));
	return volume ? rd_version_before(ctl->pool->sql, volume, INT64_MAX, ret) : -ENOENT;
}

static bool is_its(const struct rd_attachment *at, const struct rd_version *version, u64 epoch)
{
	return !memcmp(version->tracker, at->uuid, sizeof(at->uuid)) && version->epoch == epoch;
}

/*
 * What a command that died has left: the checkpoint is committed if the pool has its
 * version, else aborted. @volume: in the catalog, 0: it is not there.
 */
static int recover(struct ctl *ctl, const struct rd_attachment *at, i64 volume)
{
	struct rd_target_status status;
	struct rd_version version;
	int r;

	r = rd_freeze_end(at);
	if (!r)
		r = rd_target_status(at->device, &status);
	if (r || !status.has_checkpoint)
		return r;
	r = newest(ctl, volume, &version);
	if (r && r != -ENOENT)
		return r;
	if (!r && is_its(at, &version, status.checkpoint))
		return rd_target_commit(at->device, status.checkpoint, version.number);
	return rd_target_abort(at->device, status.checkpoint);
}

/* The pool on the volume would copy itself, and wait for itself while it is held. */
static int check_places(struct ctl *ctl, const struct rd_attachment *at)
{
	RD_FREE char *data = rd_path_in(ctl->pool->path, "data");
	char path[RD_DM_PATH_MAX];
	struct stat st;

	if (!data)
		return -ENOMEM;
	if (stat(rd_dm_path(path, at->device), &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	if (!rd_lies_on(ctl->pool->path, st.st_rdev) && !rd_lies_on(data, st.st_rdev))
		return 0;
	rd_err(0, "the pool lies on '%s' itself", at->volume);
	rd_hint("no version was made; a pool belongs on a disk that is not tracked");
	return CTL_FAILED;
}

/* While a version is copied its pool keeps what is read from it: no other pool would. */
static int check_pool(struct ctl *ctl, const struct rd_attachment *at)
{
	if (is_its_pool(ctl, at))
		return 0;
	rd_err(0, "blocks of '%s' lie in another pool, '%s'", at->volume, at->pool);
	rd_hint("no version was made; 'revdedupctl status' says when all are home");
	return CTL_FAILED;
}

/* Why everything is to be read, or NULL. */
static const char *why_all(const struct live *live, const struct rd_target_status *status,
			   const struct rd_version *last)
{
	const struct rd_attachment *at = live->at;

	if (ctl_has(live->ctl, CTL_OPT_FULL_SCAN))
		return "it was asked for";
	if (!last->id)
		return "it is the first";
	if (status->is_lost)
		return "track of changes was lost";
	if (memcmp(last->tracker, at->uuid, sizeof(at->uuid)))
		return "the version before was not made by this target";
	if ((i64)status->version != last->number)
		return "the target does not know the version before";
	if (!at->version_uid)
		return "what it lies on was used by others";
	/* There is another pool now, or a copy of it that went other ways. */
	if (at->version_uid != last->uid)
		return "the pool's version before is another one";
	return live->is_shared ? "what it lies on is used by others" : NULL;
}

/* --- copying */

/* The version exists. */
static int copied(void *ctx, const struct rd_version *version)
{
	struct live *live = ctx;
	int r;

	/*
	 * What is written past the target while it is copied, and after that, is in no
	 * list: 0 has the next version read all of it once more.
	 *
	 * First: if the target is not told, what it has as changed is that and more. The
	 * other way round the pool that was here before could be taken for this one.
	 */
	live->at->version_uid = live->is_shared ? 0 : version->uid;
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
	rd_lock_drop(&live->shut);
	return r;
}

static int copy(struct live *live, struct rd_snapshot_options *options, bool all, i64 base,
		struct rd_snapshot_report *report)
{
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
	/* What is written past the target may be in the copy, too. */
	options->is_in_use = live->is_shared;
	options->copied = copied;
	options->ctx = live;
	r = rd_snapshot(live->ctl->pool, options, report);
	options->changed = NULL;
	rd_buffer_free(&ranges);
	return r;
}

/* No version was made, or it was and the target was not told. */
static void give_up(struct live *live, i64 volume)
{
	if (live->committed)
		return;
	rd_freeze_check(&live->freeze);
	recover(live->ctl, live->at, volume);
}

static int take(struct live *live, struct rd_snapshot_options *options,
		struct rd_snapshot_report *report)
{
	struct ctl *ctl = live->ctl;
	struct rd_freeze_options freeze = { .dir = ctl->pool->path };
	u64 hook_seconds = RD_HOLD_SECONDS;
	struct rd_target_status status;
	struct rd_version last;
	const char *why;
	i64 volume = 0;
	int r;

	r = rd_volume_find(ctl->pool->sql, options->volume, &volume);
	if (r && r != -ENOENT)
		return r;
	r = recover(ctl, live->at, volume);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_COW_SIZE, &freeze.cow_bytes);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_HOOK_TIMEOUT, 1, 3600, &hook_seconds);
	freeze.hook_seconds = hook_seconds;
	if (!r)
		r = rd_target_status(live->at->device, &status);
	if (r)
		return r;
	r = newest(ctl, volume, &last);
	if (r && r != -ENOENT)
		return r;
	r = 0;
	live->is_shared = rd_block_is_open(live->at->base);
	if (live->is_shared)
		rd_warn("a program has '%s' open ('fuser -v' says which), and is to use '/dev/mapper/%s': what it writes is not tracked",
			live->at->base, live->at->device);
	why = why_all(live, &status, &last);
	options->why_full = why;
	/* What is copied may lie in the pool, and nobody tells the view that it moves. */
	if (!rd_target_is_home(&status)) {
		r = check_pool(ctl, live->at);
		if (!r)
			r = rd_lease_shut(ctl->pool, &live->shut);
	}
	if (r)
		return r;
	r = rd_freeze_begin(&live->freeze, live->at, &freeze);
	if (r)
		return r;
	r = copy(live, options, !!why, last.number, report);
	if (r)
		give_up(live, report->version.volume);
	return r ? r : live->freeze.undo_failed ? CTL_PARTLY : 0;
}

int ctl_snapshot_live(struct ctl *ctl, struct rd_attachment *at,
		      struct rd_snapshot_options *options, struct rd_snapshot_report *report,
		      u64 *ret_pause_us)
{
	struct live live = { .ctl = ctl, .at = at, .shut = RD_LOCK_NONE };
	enum rd_stack_state state;
	int r;

	r = ctl_volume_up(ctl, at, &state);
	if (!r && state != RD_STACK_UP)
		r = CTL_NO_MODULE;
	if (!r)
		r = check_places(ctl, at);
	if (!r)
		r = take(&live, options, report);
	rd_lock_drop(&live.shut);
	*ret_pause_us = live.freeze.pause_us;
	return r;
}
