// SPDX-License-Identifier: GPL-2.0
/* revdedupctl init: make a pool. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/sys/block.h"
#include "host/volume/safety.h"
#include "tune.h"

/* The smallest size that has room for a pool. */
#define MIN_SIZE	(64ULL << 20)

static int check_options(struct ctl *ctl, struct rd_pool_options *options)
{
	struct rd_rule_change change;
	struct stat st;
	int r;

	options->data = ctl_value(ctl, CTL_OPT_DATA);
	options->force = ctl_has(ctl, CTL_OPT_FORCE);
	r = ctl_value_size(ctl, CTL_OPT_SIZE, &options->size);
	if (!r)
		r = ctl_value_size(ctl, CTL_OPT_RESERVE, &options->reserve);
	options->compression = rd_compression_default;
	if (!r && ctl_has(ctl, CTL_OPT_COMPRESSION))
		r = ctl_value_compression(ctl, CTL_OPT_COMPRESSION, &options->compression);
	if (!r)
		r = ctl_value_rule(ctl, &change);
	if (r)
		return r;
	options->rule = RD_RULE_FIRST;
	rd_rule_apply(&options->rule, &change);
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
static int measure(struct ctl *ctl, const char *path)
{
	struct rd_rule_change change = { 0 };
	int r;

	if (!ctl_pieces_are_auto(ctl))
		return 0;
	r = ctl_open_at(ctl, path, RD_POOL_WRITE);
	if (!r)
		r = ctl_tune(ctl, NULL, &change);
	if (r)
		rd_err(0, "the pool was made, with --pieces 1");
	return ctl_close(ctl, r);
}

int cmd_init(struct ctl *ctl)
{
	struct rd_pool_options options = { 0 };
	const char *path = ctl->nr_operands ? ctl->operands[0] : ctl_pool_path(ctl);
	char name[PATH_MAX];
	int r;

	if (!path)
		return ctl_usage(ctl, "name the directory of the pool, or set REVDEDUP_POOL");
	r = check_options(ctl, &options);
	if (!r)
		r = check_device(&options, name);
	if (!r)
		r = rd_pool_create(path, &options);
	if (r)
		return r;
	r = measure(ctl, path);
	if (r)
		return r;
	if (ctl->json)
		ctl_json(ctl, "init", "pool=%s", path);
	else if (!ctl->quiet)
		printf("made pool '%s'\n", path);
	return 0;
}
