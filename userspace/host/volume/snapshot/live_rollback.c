// SPDX-License-Identifier: GPL-2.0
/* Roll an attached volume back, and keep its present content as a version. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "host/volume/attach/safety.h"
#include "host/volume/device/version_table.h"
#include "live_rollback.h"

int rd_live_rollback_begin(const struct rd_caller *caller, struct rd_attachment *at, bool force)
{
	i64 volume = 0;
	int r;

	r = rd_volume_track(caller, at);
	/* Nothing is copied home while the checkpoint of a killed snapshot waits. */
	if (!r)
		r = rd_live_recover(caller->pool, at, &volume);
	if (!r && !force)
		r = rd_check_not_mounted(at);
	return r ? r : rd_rollback_check(at);
}

/* Lock the version until the pool is closed. */
static int lock_kept(struct rd_pool *pool, const struct rd_attachment *at,
		     struct rd_version *version)
{
	struct rd_lock lock = RD_LOCK_NONE;
	char name[RD_VOLUME_MAX + 24];
	int r;

	snprintf(name, sizeof(name), "%s@%lld", at->volume, version->number);
	r = rd_pool_lock(pool, &lock, RD_LOCK_VERSION, version->id, false, name);
	if (!r)
		r = rd_version_by_id(pool->sql, version->id, version);
	if (!r && !rd_version_exists(version))
		r = -ENOENT;
	if (r == -ENOENT)
		rd_err(0, "%s was deleted meanwhile", name);
	return r;
}

static int keep(const struct rd_caller *caller, struct rd_attachment *at,
		const struct rd_live_options *options, struct rd_live_report *report)
{
	int r;

	r = rd_live_snapshot(caller, at, options, report);
	if (!r && report->undo_failed)
		r = -EIO;
	if (r) {
		rd_remedy(RD_REMEDY_ROLL_BACK_WITHOUT, NULL, "the volume was not changed");
		return r;
	}
	r = lock_kept(caller->pool, at, &report->snapshot.version);
	if (r)
		rd_hint("the volume was not rolled back");
	return r;
}

int rd_live_rollback(const struct rd_caller *caller, struct rd_attachment *at,
		     const struct rd_version *version,
		     const struct rd_live_rollback_options *options,
		     struct rd_live_rollback_report *report)
{
	struct rd_rollback_options rollback = { .repeat = options->repeat };
	int r;

	memset(report, 0, sizeof(*report));
	/* Before the present content is stored for nothing. */
	r = rd_version_table_check(caller->pool, version);
	if (!r && options->keep) {
		r = keep(caller, at, options->keep, &report->kept);
		/* Where a program wrote past the target, no bit says. */
		if (at->version_uid)
			rollback.base = &report->kept.snapshot.version;
	}
	return r ? r : rd_rollback(caller->pool, at, version, &rollback, &report->rollback);
}
