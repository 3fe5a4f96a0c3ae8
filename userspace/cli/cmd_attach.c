// SPDX-License-Identifier: GPL-2.0
/* revdedupctl attach and detach: put the target over a volume, and take it off. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/attach/attach.h"
#include "cli.h"

/* --- attach */

static void print_attached(struct ctl *ctl, const struct rd_attachment *at,
			   enum rd_stack_state state)
{
	char path[RD_DM_PATH_MAX];

	if (ctl->json)
		ctl_json(ctl, "attach", "volume=%s device=%s tracked=%d", at->volume,
			 rd_dm_path(path, at->device), state == RD_STACK_UP);
	else if (!ctl->quiet)
		printf("attached %s%s: guests must use %s from now on\n", at->volume,
		       state == RD_STACK_UP ? "" : " (not tracked)", rd_dm_path(path, at->device));
}

/* Give the volume its device. CTL_NO_MODULE: it has a linear one, which is not tracked. */
static int up(struct ctl *ctl, const struct rd_caller *caller, struct rd_attachment *at)
{
	enum rd_stack_state state;
	int r = rd_clear_unfinished(caller, at, false);

	if (r)
		return r < 0 ? r : 0;
	r = rd_volume_up(caller, at, &state);
	if (!r)
		print_attached(ctl, at, state);
	return r ? r : state == RD_STACK_UP ? 0 : CTL_NO_MODULE;
}

static int attach_new(struct ctl *ctl, const struct rd_caller *caller, const char *volume,
		      struct rd_attachment *at)
{
	struct rd_attach_options options = {
		.volume = volume,
		.base = ctl_value(ctl, CTL_OPT_FROM),
		.meta = ctl_value(ctl, CTL_OPT_META),
	};
	int r = rd_attach(caller, &options, at);

	if (r)
		return r;
	print_attached(ctl, at, RD_STACK_UP);
	if (!ctl->quiet && !ctl->json)
		rd_hint("a guest that used '%s' must use that device from now on, see guests.rst",
			at->base);
	return 0;
}

static int attach_one(struct ctl *ctl, const struct rd_caller *caller)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct ctl_name name;
	int r;

	if (!at)
		return -ENOMEM;
	r = ctl_volume_operand(ctl, 0, &name);
	if (r)
		return r;
	/* A volume is named as in LVM; its path says the same. */
	if (!strncmp(name.volume, "/dev/", 5) && !ctl_has(ctl, CTL_OPT_FROM))
		memmove(name.volume, name.volume + 5, strlen(name.volume + 5) + 1);
	r = rd_attachment_load(at, name.volume);
	if (r == -ENOENT)
		return attach_new(ctl, caller, name.volume, at);
	if (!r)
		r = rd_clear_unfinished(caller, at, false);
	if (r == 1) {
		/* It takes the lock anew: the name may mean other devices now. */
		rd_attachment_unlock(at);
		return attach_new(ctl, caller, name.volume, at);
	}
	if (!r && (ctl_has(ctl, CTL_OPT_FROM) || ctl_has(ctl, CTL_OPT_META)))
		return ctl_usage(ctl, "'%s' is attached already: --from and --meta are for a new volume",
				 name.volume);
	return r ? r : up(ctl, caller, at);
}

/* Attach all at boot: a volume that fails does not stop the others. */
static int attach_all(struct ctl *ctl, const struct rd_caller *caller)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	struct rd_attachment *at;
	unsigned int failed = rd_attachments(&all) != 0;

	rd_each(at, &all)
		failed += up(ctl, caller, at) != 0;
	return failed ? CTL_PARTLY : 0;
}

int cmd_attach(struct ctl *ctl)
{
	bool all = ctl_has(ctl, CTL_OPT_ALL);
	struct rd_caller caller;
	int r;

	if (all == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a volume, or use --all");
	if (all && (ctl_has(ctl, CTL_OPT_FROM) || ctl_has(ctl, CTL_OPT_META)))
		return ctl_usage(ctl, "--from and --meta are for one volume");
	r = ctl_caller(ctl, &caller);
	if (r)
		return r;
	r = all ? attach_all(ctl, &caller) : attach_one(ctl, &caller);
	if (!ctl->quiet && (!r || r == CTL_PARTLY))
		rd_warn_of_lvm();
	return r;
}

/* --- detach */

static void print_detached(struct ctl *ctl, const struct rd_attachment *at, bool is_open)
{
	char path[RD_DM_PATH_MAX];

	if (ctl->json)
		ctl_json(ctl, "detach", "volume=%s device_stays=%d", at->volume, is_open);
	else if (!ctl->quiet && is_open)
		printf("detached %s: no longer tracked; %s is in use and stays as a linear device until the next boot; use %s after that, or 'revdedupctl attach %s' now\n",
		       at->volume, rd_dm_path(path, at->device), at->base, at->volume);
	else if (!ctl->quiet)
		printf("detached %s: no longer tracked; use %s\n", at->volume, at->base);
}

static int confirm(void *ctx, const struct rd_attachment *at, enum rd_detach_loss loss)
{
	const struct ctl *ctl = ctx;

	if (loss == RD_LOSE_POOL_BLOCKS)
		return ctl_ask(ctl, "the parts of '%s' that only the pool has will be lost",
			       at->volume);
	return ctl_ask(ctl, "blocks of '%s' lie in the pool: without them '%s' is useless",
		       at->volume, at->base);
}

int cmd_detach(struct ctl *ctl)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct rd_detach_options options = {
		.force = ctl_has(ctl, CTL_OPT_FORCE),
		.confirm = confirm,
		.ctx = ctl,
	};
	struct rd_detach_report report;
	struct rd_caller caller;
	struct ctl_name name;
	int r;

	if (!at)
		return -ENOMEM;
	r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = ctl_caller(ctl, &caller);
	if (r)
		return r;
	r = rd_attachment_load(at, name.volume);
	if (r == -ENOENT) {
		rd_err(0, "'%s' is not attached", name.volume);
		rd_remedy(RD_REMEDY_LIST_ATTACHED, NULL, NULL);
		return -ENOENT;
	}
	if (!r)
		r = rd_detach(&caller, at, &options, &report);
	if (r || report.was_unfinished)
		return r;
	if (report.meta_is_lost)
		rd_hint("if '%s' still exists, 'lvremove' removes it", at->meta);
	print_detached(ctl, at, report.stays);
	return 0;
}
