// SPDX-License-Identifier: GPL-2.0
/* revdedupctl trim, offload, recall: give back space of volumes in use, and take it back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/dedup/live_dedup.h"
#include "host/volume/device/poolblocks.h"
#include "cli.h"

#define COLD		24
#define COLD_MAX	1000000

/* --- the report */

static void print_json(struct ctl *ctl, const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, ctl->command->name);
	rd_json_add(out, "volume=%s dry_run=%d bytes_done=%llu bytes_found=%llu",
		    at->volume, options->dry_run, report->bytes, report->found);
	if (options->mode == RD_LIVE_DEDUP_POOL) {
		rd_json_add(out, "bytes_estimate=%llu bytes_compared=%llu bytes_came_home=%llu",
			    report->estimate, report->compared, report->came_home);
		rd_json_u64(out, "cold", report->cold);
	}
	rd_json_add(out, "bytes_in_pool=%llu bytes_mapped_before=%llu bytes_mapped=%llu",
		    report->in_pool, report->mapped_before, report->mapped_after);
	rd_json_add(out, "thin_pool_used_before=%llu thin_pool_used=%llu",
		    report->pool_used_before, report->pool_used_after);
	if (options->mode == RD_LIVE_DEDUP_POOL && options->dry_run)
		rd_json_string(out, "refusal", report->refusal[0] ? report->refusal : NULL);
	rd_json_add(out, "coming_home=%d out_of_time=%d", report->coming_home, report->out_of_time);
	ctl_json_end(ctl);
}

static void print_dry(const struct rd_attachment *at,
		      const struct rd_live_dedup_options *options,
		      const struct rd_live_dedup_report *report)
{
	if (options->mode == RD_LIVE_DEDUP_POOL)
		printf("%s: takes up %s of its thin pool; up to %s would be given back, and read from the pool only\n",
		       at->volume, ctl_size(report->mapped_before), ctl_size(report->estimate));
	if (report->refusal[0])
		printf("%s: would be refused without --force: %s\n", at->volume, report->refusal);
	if (options->mode != RD_LIVE_DEDUP_POOL)
		printf("%s: takes up %s of its thin pool; how much of that is zeros shows when it is read\n",
		       at->volume, ctl_size(report->mapped_before));
}

static void print_gain(const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	const char *before = ctl_size(report->mapped_before);
	const char *after = ctl_size(report->mapped_after);
	const char *found = ctl_size(report->found);

	if (options->mode == RD_LIVE_DEDUP_POOL)
		printf("%s: reads %s from the pool only, %s of it since now; takes up %s of its thin pool, was %s\n",
		       at->volume, ctl_size(report->in_pool), found, after, before);
	else
		printf("%s: found %s of zeros in whole chunks; takes up %s of its thin pool, was %s\n",
		       at->volume, found, after, before);
}

static void print_cold(const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	printf("%s: %s of what was read from the pool came home since the last run; blocks that were written within %llu versions are left, not %u\n",
	       at->volume, ctl_size(report->came_home), report->cold, options->cold);
}

static void print_text(const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	if (options->dry_run)
		print_dry(at, options, report);
	else
		print_gain(at, options, report);
	if (report->cold > options->cold)
		print_cold(at, options, report);
	if (report->out_of_time)
		printf("%s: ended after the time that --time allows; the next run goes on there\n",
		       at->volume);
	if (report->coming_home)
		printf("%s: single blocks of zeros are being written in the background\n",
		       at->volume);
}

static void print_report(struct ctl *ctl, const struct rd_attachment *at,
			 const struct rd_live_dedup_options *options,
			 const struct rd_live_dedup_report *report)
{
	ctl_progress_clear(&ctl->progress);
	if (ctl->json)
		print_json(ctl, at, options, report);
	else if (!ctl->quiet)
		print_text(at, options, report);
}

/* --- one volume */

static int confirm(void *ctx, const struct rd_attachment *at, u64 bytes)
{
	struct ctl *ctl = ctx;

	ctl_progress_clear(&ctl->progress);
	return ctl_ask(ctl, "%s will read %s from '%s' and nowhere else. That pool is no backup of it any more",
		       at->volume, ctl_size(bytes), ctl->pool->path);
}

/* Open the pool that blocks of it lie in, or the one that the user has named. */
static int open_pool(struct ctl *ctl, const struct rd_attachment *at, bool dry_run)
{
	bool is_its_own = at->dedup_pool && at->pool[0] && !ctl_has_typed(ctl, CTL_OPT_POOL);
	enum rd_pool_mode mode = dry_run ? RD_POOL_READ : RD_POOL_WRITE;
	int r = is_its_own ? rd_poolblocks_require(at->pool) : ctl_require_kernel(ctl);

	if (r)
		return r;
	return is_its_own ? ctl_open_at(ctl, at->pool, mode) : ctl_open(ctl, mode);
}

/* Is @at left to the other one of 'trim --all' and 'offload --all'? 'recall --all' is for each. */
static bool is_left(const struct ctl *ctl, const struct rd_attachment *at)
{
	return ctl_has(ctl, CTL_OPT_ALL) && ctl->command->run != cmd_recall &&
		at->dedup_pool != (ctl->command->run == cmd_offload);
}

static int work(struct ctl *ctl, const struct rd_live_dedup_options *options,
		struct rd_attachment *at, struct rd_live_dedup_report *report)
{
	struct rd_caller caller;
	int r = options->mode == RD_LIVE_DEDUP_POOL ? open_pool(ctl, at, options->dry_run) : 0;

	if (!r)
		r = ctl_caller(ctl, &caller);
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, at->volume);
	r = rd_live_dedup(&caller, at, options, report);
	/* What was done before an error stays done. */
	if (!r || report->bytes)
		print_report(ctl, at, options, report);
	ctl_progress_clear(&ctl->progress);
	if (r == -ENODEV && options->thin_only) {
		rd_info("'%s' is no thin volume: nothing to do", at->volume);
		r = 0;
	}
	return r;
}

static int dedup_one(struct ctl *ctl, const struct rd_live_dedup_options *options,
		     struct rd_attachment *at)
{
	struct rd_live_dedup_report report = { 0 };
	unsigned int wait_ms;
	int r = ctl_lock_wait(ctl, &wait_ms);

	if (!r)
		r = rd_attachment_lock(at, wait_ms);
	/* Another command may have changed it while other volumes were worked on. */
	if (!r)
		r = rd_attachment_refresh(at);
	if (!r && !is_left(ctl, at))
		r = work(ctl, options, at, &report);
	rd_attachment_unlock(at);
	r = ctl_close(ctl, r);
	return r ? r : ctl_ended_early(ctl, report.out_of_time) ? CTL_PARTLY : 0;
}

static void print_recalled(struct ctl *ctl, const struct rd_attachment *at,
			   const struct rd_live_dedup_undo_report *report)
{
	if (ctl->json)
		ctl_json(ctl, "recall", "volume=%s bytes_copied=%llu", at->volume, report->bytes);
	else if (!ctl->quiet)
		printf("%s: copied %s back; all of it is on the volume\n", at->volume,
		       ctl_size(report->bytes));
}

static int recall_one(struct ctl *ctl, const struct rd_live_dedup_options *given,
		      struct rd_attachment *at)
{
	const struct rd_live_dedup_undo options = {
		.rate = given->rate,
		.progress = given->progress,
	};
	struct rd_live_dedup_undo_report report = { 0 };
	struct rd_caller caller;
	int r = ctl_caller(ctl, &caller);

	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, at->volume);
	r = rd_live_dedup_undo(&caller, at, &options, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		print_recalled(ctl, at, &report);
	else if (report.in_background)
		rd_hint("'%s' goes on being copied back in the background; 'revdedupctl status' shows how far",
			at->volume);
	rd_attachment_unlock(at);
	return r;
}

/* --- which */

static int add_volume(struct ctl *ctl, int nr, struct rd_buffer *ret)
{
	RD_FREE struct rd_attachment *at = malloc(sizeof(*at));
	struct ctl_name name;
	int r = at ? ctl_volume_operand(ctl, nr, &name) : -ENOMEM;

	if (!r)
		r = rd_attachment_load(at, name.volume);
	if (r == -ENOENT) {
		rd_err(0, "'%s' is not attached", name.volume);
		rd_remedy(RD_REMEDY_LIST_ATTACHED, NULL, "nothing was changed");
		return CTL_FAILED;
	}
	if (!r)
		rd_buffer_put(ret, at, sizeof(*at));
	return r;
}

/* Append a struct rd_attachment each. Of all volumes, one that cannot be read hides no other. */
static int find_volumes(struct ctl *ctl, struct rd_buffer *ret, unsigned int *ret_failed)
{
	int i, r = 0;

	if (!ctl->nr_operands) {
		*ret_failed += rd_attachments(ret) != 0;
		return 0;
	}
	for (i = 0; i < ctl->nr_operands && !r; i++)
		r = add_volume(ctl, i, ret);
	return r;
}

static int dedup_each(struct ctl *ctl, const struct rd_live_dedup_options *options,
		      struct rd_buffer *all, unsigned int failed)
{
	bool one_of_many = all->len > sizeof(struct rd_attachment);
	struct rd_attachment *at;
	unsigned int done = 0;
	int one = 0, r = 0;

	rd_each(at, all) {
		if (one == -EINTR || one == CTL_USAGE)
			break;
		/* It may be in use, or damaged, for as long as it likes. */
		if (is_left(ctl, at))
			continue;
		one = ctl->command->run == cmd_recall ? recall_one(ctl, options, at) :
			dedup_one(ctl, options, at);
		done += !one || one == CTL_PARTLY;
		failed += one && one != CTL_PARTLY;
		r = r ? r : one;
		if (one_of_many && one < 0 && one != -EINTR)
			rd_err(0, "'%s' failed: see above", at->volume);
	}
	if (one == -EINTR || one == CTL_USAGE)
		return one;
	return failed && done ? CTL_PARTLY : r ? r : failed ? CTL_FAILED : 0;
}

/* --- options */

static int read_options(struct ctl *ctl, struct rd_live_dedup_options *ret)
{
	u64 cold = COLD;
	int r;

	if (ctl_has(ctl, CTL_OPT_ALL) == !!ctl->nr_operands)
		return ctl_usage(ctl, "name volumes, or use --all");
	*ret = (struct rd_live_dedup_options){
		.mode = ctl->command->run == cmd_offload ? RD_LIVE_DEDUP_POOL : RD_LIVE_DEDUP_ZEROS,
		.dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN),
		.thin_only = ctl_has(ctl, CTL_OPT_ALL),
		.force = ctl_has(ctl, CTL_OPT_FORCE),
		.progress = &ctl->progress.progress,
		.confirm = confirm,
		.ctx = ctl,
	};
	r = ctl_value_number(ctl, CTL_OPT_COLD, 0, COLD_MAX, &cold);
	ret->cold = cold;
	return r ? r : ctl_value_pace(ctl, &ret->rate, &ret->until_us);
}

int cmd_trim(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	struct rd_live_dedup_options options;
	unsigned int failed = 0;
	int r = read_options(ctl, &options);

	if (!r)
		r = find_volumes(ctl, &all, &failed);
	if (!r && !all.len && !failed)
		rd_warn("no volume is attached on this host");
	if (!r)
		r = dedup_each(ctl, &options, &all, failed);
	return r;
}

int cmd_offload(struct ctl *ctl)
{
	return cmd_trim(ctl);
}

int cmd_recall(struct ctl *ctl)
{
	return cmd_trim(ctl);
}
