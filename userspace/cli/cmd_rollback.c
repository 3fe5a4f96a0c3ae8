// SPDX-License-Identifier: GPL-2.0
/* revdedupctl rollback: have an attached volume be an earlier version, at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "host/sys/mounts.h"
#include "host/volume/rollback.h"
#include "host/volume/stack.h"
#include "pool/engine/snapshot.h"
#include "cli.h"

struct rollback {
	struct ctl *ctl;
	struct rd_attachment at;
	struct ctl_version to;
	struct ctl_version kept;	/* what was before; number 0: was not kept */
	struct rd_rollback_report report;
};

static void print_report(struct rollback *rb)
{
	const struct rd_rollback_report *report = &rb->report;
	struct ctl *ctl = rb->ctl;
	char path[RD_DM_PATH_MAX];

	rd_dm_path(path, rb->at.device);
	if (ctl->json) {
		ctl_json_begin(ctl, "rollback");
		rd_json_string(&ctl->out, "version", rb->to.name);
		rd_json_string(&ctl->out, "device", path);
		rd_json_string(&ctl->out, "kept", rb->kept.name[0] ? rb->kept.name : NULL);
		rd_json_u64(&ctl->out, "segments", report->nr_segs);
		rd_json_u64(&ctl->out, "usec_pause", report->pause_us);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("%s is %s now%s%s\n", path, rb->to.name,
		       rb->kept.name[0] ? "; what it was is " : "", rb->kept.name);
		printf("%llu segments are on their way home; who writes to it was held up for %llu.%llu ms\n",
		       report->nr_segs, report->pause_us / 1000, report->pause_us / 100 % 10);
	}
}

/* What it is now, as a version. */
static int keep(struct rollback *rb)
{
	struct rd_snapshot_options options = {
		.volume = rb->to.volume,
		.comment = "before a roll-back",
	};
	struct rd_snapshot_report report = { 0 };
	u64 pause_us;
	int r;

	r = ctl_snapshot_live(rb->ctl, &rb->at, &options, &report, &pause_us);
	ctl_progress_clear(&rb->ctl->progress);
	if (r) {
		rd_hint("the volume is as it was; --no-snapshot rolls back without keeping that");
		return r;
	}
	rb->kept.version = report.version;
	ctl_name_print(rb->kept.name, rb->to.volume, report.version.number);
	/* What it has tells which segments differ: nobody may delete it meanwhile. */
	r = ctl_lock_version(rb->ctl, &rb->kept);
	if (r)
		rd_hint("the volume was not rolled back");
	return r;
}

static int roll_back(struct rollback *rb)
{
	char *const repeat[] = { "revdedupctl", "attach", rb->at.volume, NULL };
	struct rd_rollback_options options = { .repeat = repeat };
	struct ctl *ctl = rb->ctl;
	int r;

	r = rd_rollback_check(&rb->at);
	if (!r)
		r = ctl_lock_version(ctl, &rb->to);
	if (!r)
		ctl_tell_consistency(&rb->to);
	if (!r && !ctl_has(ctl, CTL_OPT_NO_SNAPSHOT))
		r = keep(rb);
	if (r)
		return r;
	if (rb->kept.name[0])
		options.base = &rb->kept.version;
	r = rd_rollback(ctl->pool, &rb->at, &rb->to.version, &options, &rb->report);
	if (!r)
		print_report(rb);
	return r;
}

/* What a file system has in memory it would write over the version. */
static int check_mounts(struct rollback *rb)
{
	char path[RD_DM_PATH_MAX], where[PATH_MAX];
	struct stat st;

	if (stat(rd_dm_path(path, rb->at.device), &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	if (ctl_has(rb->ctl, CTL_OPT_FORCE) ||
	    !rd_is_mounted(st.st_rdev, false, where))
		return 0;
	rd_err(0, "'%s' is mounted at '%s'", path, where);
	rd_hint("nothing was changed; unmount it first: what it has in memory is of the present");
	return -EBUSY;
}

static int find_volume(struct rollback *rb, const char *volume)
{
	enum rd_stack_state state;
	int r;

	r = rd_attachment_load(&rb->at, volume);
	if (r == -ENOENT) {
		rd_err(0, "'%s' is not attached", volume);
		rd_hint("nothing was changed; 'revdedupctl restore --to' writes a version to any device");
		return CTL_FAILED;
	}
	if (!r)
		r = ctl_volume_up(rb->ctl, &rb->at, &state);
	if (!r && state != RD_STACK_UP)
		r = CTL_NO_MODULE;
	return r ? r : check_mounts(rb);
}

int cmd_rollback(struct ctl *ctl)
{
	RD_FREE struct rollback *rb = calloc(1, sizeof(*rb));
	struct ctl_name name;
	int r;

	if (!rb)
		return -ENOMEM;
	rb->ctl = ctl;
	r = ctl_version_operand(ctl, 0, false, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = ctl_find_operand(ctl, 0, &rb->to);
	if (!r)
		r = ctl_ask(ctl, "what '%s' holds now will be replaced by %s, and %s",
			    rb->to.volume, rb->to.name, ctl_has(ctl, CTL_OPT_NO_SNAPSHOT) ?
			    "will be lost" : "is kept as a version");
	if (!r)
		r = find_volume(rb, rb->to.volume);
	if (!r)
		r = roll_back(rb);
	return ctl_close(ctl, r);
}
