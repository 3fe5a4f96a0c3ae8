// SPDX-License-Identifier: GPL-2.0
/* revdedupctl dedup: the pass over the whole pool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/pace.h"
#include "host/volume/safety.h"
#include "pool/catalog/owners.h"
#include "pool/engine/copy.h"
#include "pool/engine/pass.h"
#include "cli.h"
#include "trim.h"

#define OLDER		2
#define LEAST_RUN	4

/* --- options */

/* Seconds, minutes or hours. */
static int parse_time(const struct ctl *ctl, u64 *ret_us)
{
	const char *text = ctl_value(ctl, CTL_OPT_TIME);
	char number[24] = "";
	u64 value = 0, unit = 0;
	size_t len;

	if (!text)
		return 0;
	len = strspn(text, "0123456789");
	if (len && len < sizeof(number) && text[len] && !text[len + 1]) {
		memcpy(number, text, len);
		unit = text[len] == 's' ? 1 : text[len] == 'm' ? 60 : text[len] == 'h' ? 3600 : 0;
	}
	if (!unit || ctl_number_parse(number, 10000000, &value) || !value)
		return ctl_usage(ctl, "--time needs a time such as 90s, 30m or 2h, not '%s'", text);
	*ret_us = value * unit * 1000000;
	return 0;
}

int ctl_dedup_options(const struct ctl *ctl, struct rd_pass_options *options)
{
	u64 older = OLDER, least_run = LEAST_RUN, time = 0;
	int r;

	*options = (struct rd_pass_options){ 0 };
	r = ctl_value_number(ctl, CTL_OPT_OLDER, 0, 1000000, &older);
	if (!r)
		r = ctl_value_number(ctl, CTL_OPT_LEAST_RUN, 1, RD_SEG_BLOCKS, &least_run);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_RATE, &options->rate);
	if (!r)
		r = parse_time(ctl, &time);
	if (!r && ctl_has(ctl, CTL_OPT_RATE) && options->rate < 1U << 20)
		r = ctl_usage(ctl, "--rate must be at least 1M");
	options->older = older;
	options->least_run = least_run;
	options->until_us = time ? rd_now_us() + time : 0;
	options->dry_run = ctl_has(ctl, CTL_OPT_DRY_RUN);
	options->temp = ctl_value(ctl, CTL_OPT_TEMP);
	return r;
}

/* --- copies */

struct copies {
	bool is_wanted;
	double percent;		/* of what is stored; or */
	u64 bytes;		/* with no percentage. Neither: there shall be none */
	struct rd_copy_report report;
};

static int parse_copies(const struct ctl *ctl, struct copies *copies)
{
	const char *text = ctl_value(ctl, CTL_OPT_COPIES);

	if (ctl_has(ctl, CTL_OPT_DRY_RUN) && ctl_has_typed(ctl, CTL_OPT_COPIES))
		return ctl_usage(ctl, "--copies cannot be tried: leave out --dry-run");
	if (!text && (ctl_has(ctl, CTL_OPT_TO) || ctl_has(ctl, CTL_OPT_FORCE)))
		return ctl_usage(ctl, "--to and --force are for --copies");
	copies->is_wanted = text && !ctl_has(ctl, CTL_OPT_DRY_RUN);
	if (text && ctl_share_parse(text, &copies->percent, &copies->bytes))
		return ctl_usage(ctl, "--copies needs a share such as 1%%, a size such as 10G, or 0, not '%s'",
				 text);
	return 0;
}

static bool are_removed(const struct copies *copies)
{
	return !copies->bytes && !(copies->percent > 0);
}

/* Where are they, or where shall they be? The caller frees *@ret. */
static int find_copies(struct ctl *ctl, bool *ret_is_new, char **ret)
{
	RD_FREE char *link = rd_path_in(ctl->pool->path, "copies");
	RD_FREE char *to = NULL;
	const char *named = ctl_value(ctl, CTL_OPT_TO);
	struct stat st;

	if (!link)
		return -ENOMEM;
	*ret_is_new = lstat(link, &st) && errno == ENOENT;
	*ret = realpath(link, NULL);
	if (*ret_is_new) {
		*ret = named ? strdup(named) : NULL;
		return *ret ? 0 : ctl_usage(ctl, "the pool has no copies yet: name a file or device on another disk with --to");
	}
	if (!*ret) {
		rd_err(-errno, "cannot find the copies '%s'", link);
		rd_hint("nothing was changed; bring back their disk, or remove them by --copies 0");
		return CTL_FAILED;
	}
	to = named ? realpath(named, NULL) : NULL;
	if (!named || (to && !strcmp(to, *ret)))
		return 0;
	rd_err(0, "the copies of the pool are '%s' already", *ret);
	rd_hint("nothing was changed; --copies 0 removes them");
	return CTL_FAILED;
}

/* Before the pass: what is wrong with them is known at once. */
static int prepare_copies(struct ctl *ctl, const struct copies *copies)
{
	RD_FREE char *path = NULL;
	bool is_new;
	int r;

	if (!copies->is_wanted || are_removed(copies))
		return 0;
	r = find_copies(ctl, &is_new, &path);
	if (!r)
		r = rd_check_copies(ctl->pool->path, path, is_new, ctl_has(ctl, CTL_OPT_FORCE));
	return r || !is_new ? r : rd_copy_make(ctl->pool, path);
}

static int update_copies(struct ctl *ctl, struct copies *copies, u64 rate)
{
	struct rd_pace pace = { .rate = rate };
	u64 blocks;
	int r;

	if (!copies->is_wanted)
		return 0;
	if (are_removed(copies))
		return rd_copy_remove(ctl->pool);
	r = rd_blocks_owned(ctl->pool->sql, &blocks);
	if (r)
		return r;
	blocks = copies->bytes ? copies->bytes / RD_BLOCK_SIZE :
		(double)blocks * copies->percent / 100;
	return rd_copy_update(ctl->pool, blocks, &pace, &copies->report);
}

static void print_copies(struct ctl *ctl, const struct copies *copies)
{
	const struct rd_copy_report *report = &copies->report;
	char all[CTL_SIZE_TEXT], copied[CTL_SIZE_TEXT];

	if (ctl->json) {
		ctl_json_begin(ctl, "copies");
		rd_json_u64(&ctl->out, "bytes", report->blocks * RD_BLOCK_SIZE);
		rd_json_u64(&ctl->out, "frames", report->frames);
		rd_json_u64(&ctl->out, "bytes_copied", report->copied * RD_BLOCK_SIZE);
		rd_json_u64(&ctl->out, "frames_dropped", report->dropped);
		rd_json_u64(&ctl->out, "blocks_damaged", report->damaged);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("copies: %s, %s of it copied now\n",
		       ctl_size_print(all, report->blocks * RD_BLOCK_SIZE),
		       ctl_size_print(copied, report->copied * RD_BLOCK_SIZE));
	}
	if (!report->damaged)
		return;
	rd_err(0, "%llu block%s not copied, because of damage", report->damaged,
	       report->damaged == 1 ? " was" : "s were");
	rd_hint("'revdedupctl repair' heals what there is another copy of");
}

/* --- the report */

static void print_json(struct ctl *ctl, const struct rd_pass_options *options,
		       const struct rd_pass_report *report, const struct ctl_trim *trim)
{
	struct rd_json *out = &ctl->out;
	char name[40];
	unsigned int i;

	ctl_json_begin(ctl, "dedup");
	rd_json_bool(out, "dry_run", options->dry_run);
	rd_json_bool(out, "all", report->all);
	rd_json_u64(out, "bytes_newest", report->found.newest * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_old",
		    (report->found.blocks - report->found.newest) * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_in_newest", report->found.old_newest * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_twice_old", report->found.old_twice * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_twice_newest", report->found.newest_twice * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_unreadable", report->found.unreadable * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_short_runs", report->short_runs * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_too_new", report->too_new * RD_BLOCK_SIZE);
	rd_json_u64(out, "bytes_given_up", report->given_up * RD_BLOCK_SIZE);
	if (options->dry_run) {
		for (i = 0; i < RD_PASS_PIECES; i++) {
			snprintf(name, sizeof(name), "bytes_shared_pieces_%u", rd_pass_pieces[i]);
			rd_json_u64(out, name, report->shared[i] * RD_BLOCK_SIZE);
		}
		ctl_trim_json(ctl, trim);
	} else {
		rd_json_u64(out, "recipes_changed", report->changed);
		rd_json_u64(out, "blocks_refused", report->refused);
		rd_json_u64(out, "blocks_capped", report->capped);
		rd_json_u64(out, "blocks_damaged", report->damaged);
	}
	rd_json_bool(out, "out_of_time", report->out_of_time);
	ctl_json_end(ctl);
}

static void print_line(const char *what, u64 blocks)
{
	char size[CTL_SIZE_TEXT];

	printf("%-46s %10s\n", what, ctl_size_print(size, blocks * RD_BLOCK_SIZE));
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

static void print_out_of_time(const struct rd_pass_report *report)
{
	if (report->out_of_time)
		printf("ended after the time that --time allows\n");
}

static void print_text(const struct rd_pass_report *report)
{
	char size[CTL_SIZE_TEXT];

	printf("old versions gave up %s, in %llu segment%s\n",
	       ctl_size_print(size, report->given_up * RD_BLOCK_SIZE), report->changed,
	       report->changed == 1 ? "" : "s");
	if (report->refused)
		printf("left %s, which other commands have changed meanwhile\n",
		       ctl_size_print(size, report->refused * RD_BLOCK_SIZE));
	print_out_of_time(report);
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
	       struct rd_pass_report *report, struct copies *copies)
{
	int r;

	r = rd_pass_run(ctl->pool, options, report);
	ctl_progress_clear(&ctl->progress);
	/* What was done before an error stays done. */
	if (r && !report->changed)
		return r;
	if (ctl->json)
		print_json(ctl, options, report, NULL);
	else if (!ctl->quiet)
		print_text(report);
	tell_damage(report);
	if (r)
		return r;
	r = update_copies(ctl, copies, options->rate);
	ctl_progress_clear(&ctl->progress);
	if (copies->is_wanted && (!r || copies->report.copied))
		print_copies(ctl, copies);
	return !r && copies->report.damaged ? CTL_PARTLY : r;
}

/* The same without a change. People get each part as soon as it is known. */
static int run_dry(struct ctl *ctl, const struct rd_pass_options *options,
		   struct rd_pass_report *report)
{
	struct ctl_trim trim = { 0 };
	int r;

	r = rd_pass_run(ctl->pool, options, report);
	ctl_progress_clear(&ctl->progress);
	if (r)
		return r;
	if (!ctl->json && !ctl->quiet)
		print_dry_run(options, report);
	if (!report->out_of_time)
		r = ctl_trim(ctl, options, &trim);
	ctl_progress_clear(&ctl->progress);
	report->out_of_time |= r == -ETIMEDOUT;
	if (r && r != -ETIMEDOUT)
		return r;
	if (ctl->json) {
		print_json(ctl, options, report, &trim);
	} else if (!ctl->quiet) {
		ctl_trim_print(&trim);
		print_out_of_time(report);
	}
	return trim.is_unreadable ? CTL_PARTLY : 0;
}

int ctl_dedup(struct ctl *ctl, struct rd_pass_options *options)
{
	struct copies copies = { 0 };
	struct rd_pass_report report;
	int r;

	if (!options->temp)
		options->temp = ctl->pool->path;
	r = parse_copies(ctl, &copies);
	if (!r)
		r = prepare_copies(ctl, &copies);
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, "dedup");
	r = options->dry_run ? run_dry(ctl, options, &report) :
		run(ctl, options, &report, &copies);
	return !r && (report.damaged || report.out_of_time) ? CTL_PARTLY : r;
}

int cmd_dedup(struct ctl *ctl)
{
	struct rd_pass_options options;
	int r;

	r = ctl_dedup_options(ctl, &options);
	if (!r)
		r = ctl_open(ctl, options.dry_run ? RD_POOL_READ : RD_POOL_WRITE);
	if (!r)
		r = ctl_dedup(ctl, &options);
	return ctl_close(ctl, r);
}
