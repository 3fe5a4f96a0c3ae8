// SPDX-License-Identifier: GPL-2.0
/* revdedupctl rollback: turn an attached volume back to a version, at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/snapshot/live_rollback.h"
#include "cli.h"

static void print_report(struct ctl *ctl, const struct rd_attachment *at,
			 const struct ctl_version *to,
			 const struct rd_live_rollback_report *report)
{
	const struct rd_rollback_report *rollback = &report->rollback;
	i64 number = report->kept.snapshot.version.number;
	char path[RD_DM_PATH_MAX], kept[CTL_VERSION_TEXT] = "";

	rd_dm_path(path, at->device);
	if (report->kept.snapshot.version.id)
		ctl_name_print(kept, to->volume, number);
	if (ctl->json) {
		ctl_json(ctl, "rollback",
			 "version=%s device=%s kept=%s segments=%llu usec_pause=%llu", to->name,
			 path, kept[0] ? kept : NULL, rollback->nr_segs, rollback->pause_us);
	} else if (!ctl->quiet) {
		printf("rolled back: %s is now %s%s%s\n", path, to->name,
		       kept[0] ? "; its previous content is " : "", kept);
		printf("%llu segments are being copied back in the background; writes paused for %llu.%llu ms\n",
		       rollback->nr_segs, rollback->pause_us / 1000,
		       rollback->pause_us / 100 % 10);
	}
}

static int roll_back(struct ctl *ctl, const struct rd_caller *caller, struct rd_attachment *at,
		     struct ctl_version *to)
{
	char *const repeat[] = { "revdedupctl", "attach", at->volume, NULL };
	struct rd_live_options keep = { .comment = "before a roll-back" };
	struct rd_live_rollback_options options = { .repeat = repeat };
	struct rd_live_rollback_report report;
	int r;

	r = ctl_lock_version(ctl, to);
	if (r)
		return r;
	ctl_tell_consistency(to);
	if (!ctl_has(ctl, CTL_OPT_NO_SNAPSHOT)) {
		r = ctl_live_options(ctl, &keep);
		options.keep = &keep;
	}
	if (r)
		return r;
	r = rd_live_rollback(caller, at, &to->version, &options, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		print_report(ctl, at, to, &report);
	return r && report.kept.undo_failed ? CTL_PARTLY : r;
}

/* Find the volume, and bring it up. */
static int find_volume(struct ctl *ctl, const struct rd_caller *caller, const char *volume,
		       struct rd_attachment *at)
{
	int r = rd_attachment_load(at, volume);

	if (r == -ENOENT) {
		rd_err(0, "'%s' is not attached", volume);
		rd_hint("nothing was changed; 'revdedupctl restore --to' writes a version to any device");
		return CTL_FAILED;
	}
	return r ? r : rd_live_rollback_begin(caller, at, ctl_has(ctl, CTL_OPT_FORCE));
}

static int roll_back_one(struct ctl *ctl, struct ctl_version *to)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct rd_caller caller;
	int r = at ? ctl_caller(ctl, &caller) : -ENOMEM;

	if (r)
		return r;
	at->is_locked = false;
	r = find_volume(ctl, &caller, to->volume, at);
	if (!r)
		r = roll_back(ctl, &caller, at, to);
	rd_attachment_unlock(at);
	return r;
}

static int ask(struct ctl *ctl, const struct ctl_version *to, size_t nr)
{
	const char *becomes = ctl_has(ctl, CTL_OPT_NO_SNAPSHOT) ? "will be lost" :
		"is kept as a version";

	if (nr > 1)
		return ctl_ask(ctl, "the present content of %zu volumes, '%s' and others, will be replaced by '%s', and %s",
			       nr, to->volume, ctl->operands[0], becomes);
	return ctl_ask(ctl, "the present content of '%s' will be replaced by %s, and %s",
		       to->volume, to->name, becomes);
}

/* Tell which are what, after volume @failed of @nr was not rolled back. */
static int tell_partly(const struct ctl_version *to, size_t failed, size_t nr, int r)
{
	size_t i;

	for (i = 0; i < nr; i++)
		rd_hint("'%s' was %s%s", to[i].volume, i < failed ? "rolled back to " : "not rolled back",
			i < failed ? to[i].name : "");
	return r != -EINTR && failed ? CTL_PARTLY : r;
}

/* Before the first of several changes: can all? */
static int check_all(struct ctl *ctl, const struct ctl_version *to, size_t nr)
{
	RD_FREE struct rd_attachment *at = calloc(1, sizeof(*at));
	struct rd_caller caller;
	size_t i;
	int r = at ? ctl_caller(ctl, &caller) : -ENOMEM;

	for (i = 0; i < nr && !r; i++) {
		if (to[i].version.time != to[0].version.time)
			rd_warn("%s and %s are not of one moment", to[0].name, to[i].name);
		r = find_volume(ctl, &caller, to[i].volume, at);
		rd_attachment_unlock(at);
	}
	return r;
}

static int roll_back_all(struct ctl *ctl, const struct rd_buffer *versions)
{
	struct ctl_version *to = (struct ctl_version *)versions->data;
	size_t i, nr = versions->len / sizeof(*to);
	int r = nr > 1 ? check_all(ctl, to, nr) : 0;

	if (!r)
		r = ask(ctl, to, nr);

	for (i = 0; i < nr && !r; i++) {
		r = roll_back_one(ctl, &to[i]);
		if (r && nr > 1)
			return tell_partly(to, i, nr, r);
	}
	return r;
}

int cmd_rollback(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_name name;
	int r;

	r = ctl_versions_operand(ctl, 0, false, &name);
	if (!r)
		r = ctl_require_kernel(ctl);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = ctl_find_each(ctl, &name, &versions);
	return r ? r : roll_back_all(ctl, &versions);
}
