// SPDX-License-Identifier: GPL-2.0
/* revdedupctl snapshot --group: take versions of several volumes at one moment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/snapshot/live_group.h"
#include "snapshot.h"

/* --- which volumes */

static int add_volume(struct ctl *ctl, int nr, struct rd_buffer *ret)
{
	struct rd_attachment *at;
	struct ctl_name name;
	int r = ctl_volume_operand(ctl, nr, &name);

	if (r)
		return r;
	rd_each(at, ret)
		if (!strcmp(at->volume, name.volume))
			return ctl_usage(ctl, "'%s' is named twice", name.volume);
	at = (struct rd_attachment *)rd_buffer_grow(ret, sizeof(*at));
	if (!at)
		return -ENOMEM;
	r = rd_attachment_load(at, name.volume);
	return r != -ENOENT ? r :
		ctl_usage(ctl, "'%s' is not attached: --group is for volumes that are",
			  name.volume);
}

static int find_volumes(struct ctl *ctl, struct rd_buffer *ret)
{
	int i, r = 0;

	if (ctl_has(ctl, CTL_OPT_ALL))
		r = rd_attachments(ret);
	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = add_volume(ctl, i, ret);
	if (!r && ret->len < (ctl_has(ctl, CTL_OPT_ALL) ? 1 : 2) * sizeof(struct rd_attachment))
		r = ctl_usage(ctl, "--group is for two volumes or more");
	return r;
}

/* --- the report */

static void tell_moment(struct ctl *ctl, const struct rd_live_group *group)
{
	u64 us = group->reports[0].pause_us;

	if (ctl->json)
		ctl_json(ctl, "group", "name=%s versions=%llu usec_pause=%llu", group->name,
			 (u64)group->nr, us);
	else if (!ctl->quiet)
		printf("@%s: %u versions of one moment; writes to the volumes paused for %llu.%llu ms\n",
		       group->name, group->nr, us / 1000, us / 100 % 10);
}

static int tell(struct ctl *ctl, const struct rd_live_group *group)
{
	bool failed = false;
	unsigned int i;

	for (i = 0; i < group->nr; i++) {
		ctl_tell_snapshot(ctl, group->ats[i]->volume, &group->reports[i].snapshot, 0);
		failed |= group->reports[i].undo_failed;
	}
	tell_moment(ctl, group);
	if (failed)
		rd_hint("the versions of @%s were made and can be used; see the message above",
			group->name);
	return failed ? CTL_PARTLY : 0;
}

/* All exist, or none. */
static void explain_failure(struct ctl *ctl, const struct rd_live_group *group, int r)
{
	if (r == -ESTALE)
		rd_hint("'revdedupctl list' says whether the versions of @%s were made",
			group->name);
	else if (ctl_snapshot_exists(ctl, &group->reports[0].snapshot))
		rd_hint("the versions of @%s were made and can be used; the next command that writes to the pool finishes the rest",
			group->name);
	else
		rd_hint("no version was made of any of the volumes; existing versions are unchanged");
}

/* --- */

static int take(struct ctl *ctl, const struct rd_live_group *group,
		const struct rd_snapshot_options *options)
{
	struct rd_live_options live;
	struct rd_caller caller;
	int r;

	r = ctl_live_snapshot_options(ctl, options, &live);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r)
		r = ctl_caller(ctl, &caller);
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, group->name);
	r = rd_live_group(&caller, group, &live);
	ctl_progress_clear(&ctl->progress);
	if (r) {
		explain_failure(ctl, group, r);
		return r;
	}
	r = tell(ctl, group);
	ctl_warn_of_damage(ctl);
	return r;
}

static int take_group(struct ctl *ctl, struct rd_attachment *all, size_t nr,
		      const struct rd_snapshot_options *options)
{
	RD_FREE struct rd_live_report *reports = calloc(nr, sizeof(*reports));
	RD_FREE struct rd_attachment **ats = calloc(nr, sizeof(*ats));
	struct rd_live_group group = {
		.name = ctl_value(ctl, CTL_OPT_GROUP),
		.ats = ats,
		.reports = reports,
		.nr = nr,
	};
	size_t i;
	int r;

	if (!ats || !reports)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		ats[i] = &all[i];
	r = take(ctl, &group, options);
	for (i = 0; i < nr; i++)
		rd_attachment_unlock(ats[i]);
	return r;
}

int ctl_snapshot_group(struct ctl *ctl, const struct rd_snapshot_options *options)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const char *name = ctl_value(ctl, CTL_OPT_GROUP);
	int r;

	if (!ctl_is_tag(name))
		return ctl_usage(ctl, "--group: '%s' is not a tag: it begins with a letter, has no blank, and is not 'latest'",
				 name);
	if (options->from || ctl_has(ctl, CTL_OPT_CHANGED) || options->may_change)
		return ctl_usage(ctl, "--group is for attached volumes: leave out --from, --changed and --force");
	r = find_volumes(ctl, &volumes);
	if (!r)
		r = take_group(ctl, (struct rd_attachment *)volumes.data,
			       volumes.len / sizeof(struct rd_attachment), options);
	return r;
}
