// SPDX-License-Identifier: GPL-2.0
/* revdedupctl dedup: the pass over the whole pool. */
#include <stdio.h>
#include <string.h>

#include "pool/engine/dedup/pass.h"
#include "cli.h"
#include "lastscrub.h"

#define OLDER		2
#define LEAST_RUN	4

/* --- options */

static int read_pass(const struct ctl *ctl, struct rd_pass_options *options)
{
	u64 older = OLDER, least_run = LEAST_RUN;
	int r;

	r = ctl_value_number(ctl, CTL_OPT_OLDER, 0, 1000000, &older);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_LEAST_RUN, 1, RD_SEG_BLOCKS, &least_run);
	if (!r)
		r = ctl_value_pace(ctl, &options->rate, &options->until_us);
	options->older = older;
	options->least_run = least_run;
	options->dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN);
	options->temp = ctl_value(ctl, CTL_OPT_TEMP);
	return r;
}

/* --- the report */

static void print_json(struct ctl *ctl, const struct rd_pass_options *options,
		       const struct rd_pass_report *report)
{
	struct rd_json *out = &ctl->out;
	char name[40];
	unsigned int i;

	ctl_json_begin(ctl, "dedup");
	rd_json_add(out, "dry_run=%d all=%d bytes_newest=%llu bytes_old=%llu bytes_in_newest=%llu",
		    options->dry_run, report->all, report->found.newest * RD_BLOCK_SIZE,
		    (report->found.blocks - report->found.newest) * RD_BLOCK_SIZE,
		    report->found.old_newest * RD_BLOCK_SIZE);
	rd_json_add(out, "bytes_twice_old=%llu bytes_twice_newest=%llu bytes_unreadable=%llu",
		    report->found.old_twice * RD_BLOCK_SIZE,
		    report->found.newest_twice * RD_BLOCK_SIZE,
		    report->found.unreadable * RD_BLOCK_SIZE);
	rd_json_add(out, "bytes_short_runs=%llu bytes_too_new=%llu bytes_given_up=%llu",
		    report->short_runs * RD_BLOCK_SIZE, report->too_new * RD_BLOCK_SIZE,
		    report->given_up * RD_BLOCK_SIZE);
	if (options->dry_run) {
		for (i = 0; i < RD_PASS_PIECES; i++) {
			snprintf(name, sizeof(name), "bytes_shared_pieces_%u", rd_pass_pieces[i]);
			rd_json_u64(out, name, report->shared[i] * RD_BLOCK_SIZE);
		}
	} else {
		rd_json_add(out, "recipes_changed=%llu blocks_refused=%llu blocks_capped=%llu",
			    report->changed, report->refused, report->capped);
		rd_json_u64(out, "blocks_damaged", report->damaged);
	}
	rd_json_bool(out, "out_of_time", report->out_of_time);
	ctl_json_end(ctl);
}

static void print_line(const char *what, u64 blocks)
{
	printf("%-46s %10s\n", what, ctl_size(blocks * RD_BLOCK_SIZE));
}

static void print_dry_run(const struct rd_pass_options *options,
			  const struct rd_pass_report *report)
{
	const struct rd_twins_counts *found = &report->found;
	char what[64];
	unsigned int i;

	print_line("newest versions:", found->newest);
	print_line("old versions:", found->blocks - found->newest);
	print_line("  of this, a newest version has, too:", found->old_newest);
	print_line("  and only old versions have, more than once:", found->old_twice);
	snprintf(what, sizeof(what), "  in runs of fewer than %u blocks, left:",
		 options->least_run);
	print_line(what, report->short_runs);
	print_line("  replaced too recently, left:", report->too_new);
	print_line("a pass would free:", report->given_up);
	print_line("newest versions have more than once:", found->newest_twice);
	for (i = 0; i < RD_PASS_PIECES; i++) {
		snprintf(what, sizeof(what), "  could be shared in %u pieces, inline:",
			 rd_pass_pieces[i]);
		print_line(what, report->shared[i]);
	}
}

static void print_done(const struct rd_pass_report *report)
{
	printf("old versions gave up %s, in %llu segment%s\n",
	       ctl_size(report->given_up * RD_BLOCK_SIZE), report->changed,
	       report->changed == 1 ? "" : "s");
	if (report->refused)
		printf("left %s, which other commands have changed meanwhile\n",
		       ctl_size(report->refused * RD_BLOCK_SIZE));
}

static void print_text(const struct rd_pass_options *options, const struct rd_pass_report *report)
{
	if (options->dry_run)
		print_dry_run(options, report);
	else
		print_done(report);
	if (report->out_of_time)
		printf("ended after the time that --time, or the settings, allow\n");
}

static void tell_damage(const struct rd_pass_report *report)
{
	if (!report->damaged)
		return;
	rd_err(0, "%llu block%s kept, because what has the same content is damaged",
	       report->damaged, report->damaged == 1 ? " was" : "s were");
	rd_hint("nothing was lost; 'revdedupctl scrub' says which versions are damaged");
}

static int run(struct ctl *ctl, const struct rd_pass_options *options,
	       struct rd_pass_report *report)
{
	int r;

	r = rd_pass_run(ctl->pool, options, report);
	ctl_progress_clear(&ctl->progress);
	/* What was done before an error stays done. */
	if (r && !report->changed)
		return r;
	if (ctl->json)
		print_json(ctl, options, report);
	else if (!ctl->quiet)
		print_text(options, report);
	tell_damage(report);
	return r;
}

int cmd_dedup(struct ctl *ctl)
{
	struct rd_pass_report report = { .damaged = 0 };
	struct rd_pass_options options = { .rate = 0 };
	int r = read_pass(ctl, &options);

	if (!r)
		r = ctl_open(ctl, options.dry_run ? RD_POOL_READ : RD_POOL_WRITE);
	if (r)
		return r;
	if (!options.temp)
		options.temp = ctl->pool->path;
	ctl_progress_begin(&ctl->progress, "dedup");
	r = run(ctl, &options, &report);
	if (!r && !options.dry_run && !report.out_of_time)
		ctl_last_dedup_write(ctl);
	if (!r && (report.damaged || ctl_ended_early(ctl, report.out_of_time)))
		r = CTL_PARTLY;
	return r;
}
