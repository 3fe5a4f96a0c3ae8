// SPDX-License-Identifier: GPL-2.0
/* revdedupctl init: make a pool. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/sys/block.h"
#include "host/volume/attach/safety.h"
#include "pool/engine/journal/journal.h"
#include "pool/shard.h"
#include "tune.h"

/* The smallest size that has room for a pool. */
#define MIN_SIZE	(64ULL << 20)

/* What the options say of the rule, and what the disk says where they say nothing. */
struct choice {
	struct rd_rule_change given;
	enum { GIVEN, MEASURED, NO_ROOM } how;
	struct rd_measure_report report;
	struct rd_rule rule;
};

static void choose(struct choice *choice, unsigned int pieces)
{
	choice->rule = rd_measure_rule(pieces);
	rd_rule_apply(&choice->rule, &choice->given);
}

static int check_options(struct ctl *ctl, struct rd_pool_options *options, struct choice *choice)
{
	struct stat st;
	int r;

	options->data = ctl_value(ctl, CTL_OPT_DATA);
	options->force = ctl_has(ctl, CTL_OPT_FORCE);
	r = ctl_value_size(ctl, CTL_OPT_SIZE, &options->size);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_RESERVE, &options->reserve);
	options->compression = rd_compression_default;
	if (!r && ctl_has(ctl, CTL_OPT_COMPRESSION))
		r = ctl_value_compression(ctl, ctl_value(ctl, CTL_OPT_COMPRESSION),
					  &options->compression);
	if (!r)
		r = ctl_value_rule(ctl, &choice->given);
	if (r)
		return r;
	choose(choice, rd_max(choice->given.pieces, 1));
	/* Until the disk is measured nothing is chosen that other programs would refuse. */
	options->rule = choice->given.pieces ? choice->rule : RD_RULE_FIRST;
	if (ctl_has(ctl, CTL_OPT_RESERVE) && !options->reserve)
		return ctl_usage(ctl, "--reserve must not be 0: nothing could be deleted from a full pool");
	if (!ctl_has(ctl, CTL_OPT_SIZE))
		return 0;
	if (options->size < MIN_SIZE)
		return ctl_usage(ctl, "--size must be at least 64M");
	if (options->data && !stat(options->data, &st) && (S_ISBLK(st.st_mode) || st.st_size))
		return ctl_usage(ctl, "--size is for a new file, but '%s' has a size already",
				 options->data);
	return 0;
}

/*
 * Check a device, which will be written over. /dev/dm-7 may be another device after the next
 * boot, so the pool names it as device-mapper does. @name: of PATH_MAX bytes.
 */
static int check_device(struct rd_pool_options *options, char *name)
{
	char dm_name[RD_DM_NAME_MAX] = "";
	struct stat st;
	int r;

	if (!options->data || stat(options->data, &st) || !S_ISBLK(st.st_mode))
		return 0;
	r = rd_check_data(options->data, options->force);
	if (r)
		return r;
	rd_block_dm(st.st_rdev, "name", dm_name);
	if (dm_name[0])
		options->data = rd_dm_path(name, dm_name);
	return 0;
}

/* The disk is measured in the pool that was made. */
static int measure(struct ctl *ctl, const char *path, struct choice *choice)
{
	int r;

	if (choice->given.pieces)
		return 0;
	r = ctl_open_at(ctl, path, RD_POOL_WRITE);
	if (!r)
		r = ctl_measure(ctl, !ctl_pieces_are_auto(ctl), &choice->report);
	choice->how = r == -ENOSPC ? NO_ROOM : MEASURED;
	if (!r || r == -ENOSPC) {
		choose(choice, r ? 1 : choice->report.pieces);
		r = ctl_rule_choose(ctl, choice->rule);
	}
	if (!r)
		r = rd_journal_flush(ctl->pool);
	r = ctl_close(ctl, r);
	if (r)
		rd_err(0, "the pool was made, and may have --pieces 1: 'revdedupctl tune' shows it");
	return r;
}

/* --- saying so */

/* In one piece, what is said is what more of them would have been. */
static unsigned int reads_kib(const struct rd_measure_report *report)
{
	return RD_SEG_SIZE / 1024 / (report->pieces > 1 ? report->pieces : report->next);
}

static double reads_share(const struct rd_measure_report *report)
{
	return report->pieces > 1 ? report->share : report->next_share;
}

static void print_json(struct ctl *ctl, const char *path, const struct choice *choice)
{
	const struct rd_measure_report *report = &choice->report;

	ctl_json_begin(ctl, "init");
	rd_json_string(&ctl->out, "pool", path);
	ctl_json_rule(ctl, choice->rule);
	rd_json_bool(&ctl->out, "measured", choice->how == MEASURED);
	if (choice->how == MEASURED)
		rd_json_add(&ctl->out, "reads_kib=%u reads_percent=%u", reads_kib(report),
			    (unsigned int)(reads_share(report) * 100 + 0.5));
	ctl_json_end(ctl);
}

/* The rule in one sentence, on two lines. */
static void print_choice(const struct choice *choice)
{
	const struct rd_measure_report *report = &choice->report;
	struct rd_rule rule = choice->rule;

	if (choice->how == NO_ROOM)
		printf("there is no room to measure the disk");
	else
		printf("%sreads of %u KiB anywhere reach %.2f of a sequential read%s",
		       rule.pieces == 1 ? "this disk seeks: " : "", reads_kib(report),
		       reads_share(report), rule.pieces == 1 ? "" : " here");
	if (rule.pieces == 1)
		printf(",\nso the newest version lies in one piece");
	else
		printf(": a segment of the newest version\nmay be in %u pieces%s", rule.pieces,
		       rule.dedup == RD_DEDUP_INLINE ?
		       ", and snapshots share blocks of the whole pool" : "");
	printf(" (--pieces %u --dedup %s)\n", rule.pieces, ctl_dedup_name(rule));
}

/* A pool that is named by its shard has a directory of ours. @directory: of PATH_MAX bytes. */
static int name_shard(struct ctl *ctl, struct rd_pool_options *options, const char **path,
		      char *directory)
{
	if (options->data)
		return ctl_usage(ctl, "--data is for a pool in a directory, and '%s' names a shard",
				 *path);
	options->data = *path;
	rd_shard_directory(*path, directory);
	*path = directory;
	return rd_shard_prepare(options->data, false);
}

int cmd_init(struct ctl *ctl)
{
	struct rd_pool_options options = { 0 };
	struct choice choice = { 0 };
	const char *path = ctl->nr_operands ? ctl->operands[0] : ctl_pool_name(ctl);
	char name[PATH_MAX], directory[PATH_MAX];
	int r;

	if (!path)
		return ctl_usage(ctl, "name the directory of the pool, or set REVDEDUP_POOL");
	r = check_options(ctl, &options, &choice);
	if (!r && rd_shard_is_name(path))
		r = name_shard(ctl, &options, &path, directory);
	if (!r)
		r = check_device(&options, name);
	if (!r)
		r = rd_pool_create(path, &options);
	if (r)
		return r;
	r = measure(ctl, path, &choice);
	if (r)
		return r;
	if (ctl->json)
		print_json(ctl, path, &choice);
	else if (!ctl->quiet)
		printf("made pool '%s'\n", path);
	if (!ctl->json && !ctl->quiet && choice.how != GIVEN)
		print_choice(&choice);
	return 0;
}
