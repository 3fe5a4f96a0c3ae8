// SPDX-License-Identifier: GPL-2.0
/* revdedupctl dedup VOL|--all: give back space of attached volumes while they are in use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/live_dedup.h"
#include "cli.h"
#include "dedup.h"

/* --- the report */

static void print_json(struct ctl *ctl, const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, "dedup");
	rd_json_string(out, "volume", at->volume);
	rd_json_string(out, "mode", "zeros");
	rd_json_bool(out, "dry_run", options->dry_run);
	rd_json_u64(out, "bytes_read", report->bytes);
	rd_json_u64(out, "bytes_found", report->found);
	rd_json_u64(out, "bytes_mapped_before", report->mapped_before);
	rd_json_u64(out, "bytes_mapped", report->mapped_after);
	rd_json_u64(out, "thin_pool_used_before", report->pool_used_before);
	rd_json_u64(out, "thin_pool_used", report->pool_used_after);
	rd_json_bool(out, "coming_home", report->coming_home);
	rd_json_bool(out, "out_of_time", report->out_of_time);
	ctl_json_end(ctl);
}

static void print_text(const struct rd_attachment *at,
		       const struct rd_live_dedup_options *options,
		       const struct rd_live_dedup_report *report)
{
	char found[CTL_SIZE_TEXT], before[CTL_SIZE_TEXT], after[CTL_SIZE_TEXT];

	ctl_size_print(before, report->mapped_before);
	if (options->dry_run) {
		printf("%s: takes up %s of its thin pool; how much of that is zeros shows when it is read\n",
		       at->volume, before);
		return;
	}
	printf("%s: found %s of zeros in whole chunks; takes up %s of its thin pool, was %s\n",
	       at->volume, ctl_size_print(found, report->found),
	       ctl_size_print(after, report->mapped_after), before);
	if (report->out_of_time)
		printf("%s: ended after the time that --time allows; the next run goes on there\n",
		       at->volume);
	if (report->coming_home)
		printf("%s: single blocks of zeros are being written in the background\n",
		       at->volume);
}

static int dedup_one(struct ctl *ctl, const struct rd_live_dedup_options *options,
		     struct rd_attachment *at)
{
	struct rd_live_dedup_report report;
	struct rd_caller caller;
	int r = ctl_caller(ctl, &caller);

	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, at->volume);
	r = rd_live_dedup(&caller, at, options, &report);
	ctl_progress_clear(&ctl->progress);
	/* What was done before an error stays done. */
	if (!r || report.bytes) {
		if (ctl->json)
			print_json(ctl, at, options, &report);
		else if (!ctl->quiet)
			print_text(at, options, &report);
	}
	rd_attachment_unlock(at);
	return r ? r : report.out_of_time ? CTL_PARTLY : 0;
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
	struct rd_attachment *at = (struct rd_attachment *)all->data;
	unsigned int done = 0, nr = all->len / sizeof(*at);
	bool one_of_many = nr > 1;
	int one = 0, r = 0;

	for (; nr-- && one != -EINTR && one != CTL_USAGE; at++) {
		one = dedup_one(ctl, options, at);
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

static int check_options(const struct ctl *ctl)
{
	static const enum ctl_option of_pass[] = {
		CTL_OPT_OLDER, CTL_OPT_LEAST_RUN, CTL_OPT_TEMP, CTL_OPT_COPIES, CTL_OPT_TO,
	};
	const char *mode = ctl_value(ctl, CTL_OPT_MODE);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(of_pass); i++)
		if (ctl_has_typed(ctl, of_pass[i]))
			return ctl_usage(ctl, "--%s is for the pass over the pool, not for a volume",
					 ctl_option_name(of_pass[i]));
	if (ctl->nr_operands && ctl_has(ctl, CTL_OPT_ALL))
		return ctl_usage(ctl, "name volumes, or use --all");
	if (mode && strcmp(mode, "zeros"))
		return ctl_usage(ctl, "--mode is zeros, not '%s'", mode);
	return 0;
}

int ctl_dedup_live(struct ctl *ctl)
{
	struct rd_live_dedup_options options = {
		.dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN),
		.progress = &ctl->progress.progress,
	};
	struct rd_buffer all = { 0 };
	unsigned int failed = 0;
	int r = check_options(ctl);

	if (!r)
		r = ctl_dedup_pace(ctl, &options.rate, &options.until_us);
	if (!r)
		r = find_volumes(ctl, &all, &failed);
	if (!r && !all.len && !failed)
		rd_warn("no volume is attached on this host");
	if (!r)
		r = dedup_each(ctl, &options, &all, failed);
	rd_buffer_free(&all);
	return r;
}
