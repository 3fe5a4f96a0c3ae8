// SPDX-License-Identifier: GPL-2.0
/* Thin volumes, by the tables and the status of device-mapper. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "block.h"
#include "dm.h"
#include "thin.h"

/* Read status or table of @name. -ENODATA, without a word: it has another target. */
static int read_target(const char *name, const char *target, bool status, char **ret)
{
	char is[RD_DM_NAME_MAX];
	u64 sectors;
	int r = status ? rd_dm_status(name, &sectors, is, ret) :
		rd_dm_table(name, &sectors, is, ret);

	return r ? r : strcmp(is, target) ? -ENODATA : 0;
}

/* "<pool device> <device id> [<external origin>]" */
static int read_thin_table(const char *name, struct rd_thin *ret, dev_t *ret_pool)
{
	RD_FREE char *text = NULL;
	unsigned int major, minor, id, parts;
	char origin[64];
	int r = read_target(name, "thin", false, &text);

	if (r)
		return r;
	parts = sscanf(text, "%u:%u %u %63s", &major, &minor, &id, origin);
	if (parts < 3)
		return -ENODATA;
	ret->has_origin = parts > 3;
	*ret_pool = makedev(major, minor);
	return 0;
}

/* "<mapped sectors> <highest mapped sector>", or "Fail" */
static int read_thin_status(const char *name, struct rd_thin *ret)
{
	RD_FREE char *text = NULL;
	u64 sectors;
	int r = read_target(name, "thin", true, &text);

	if (!r && sscanf(text, "%llu", &sectors) != 1)
		r = rd_err(-EIO, "the thin pool of '%s' does not answer", name);
	if (!r)
		ret->mapped = sectors * 512;
	return r;
}

/* "<metadata> <data> <chunk> <low water mark> <nr of features> <feature>..." */
static int read_pool_table(const char *name, struct rd_thin *ret)
{
	RD_FREE char *text = NULL;
	unsigned int major, minor;
	u64 chunk;
	int r = read_target(name, "thin-pool", false, &text);

	if (!r && sscanf(text, "%*s %u:%u %llu", &major, &minor, &chunk) != 3)
		r = -ENODATA;
	if (r)
		return r;
	ret->pool_data = makedev(major, minor);
	ret->chunk = chunk * 512;
	ret->zeroes = !strstr(text, "skip_block_zeroing");
	ret->discards = !strstr(text, "ignore_discard");
	return 0;
}

/* "<transaction> <used>/<all metadata blocks> <used>/<all chunks> ...", or "Fail" */
static int read_pool_status(const char *name, struct rd_thin *ret)
{
	RD_FREE char *text = NULL;
	u64 used, all;
	int r = read_target(name, "thin-pool", true, &text);

	if (!r && sscanf(text, "%*u %*u/%*u %llu/%llu", &used, &all) != 2)
		r = rd_err(-EIO, "the thin pool '%s' does not answer", name);
	if (r)
		return r;
	ret->pool_used = used * ret->chunk;
	ret->pool_bytes = all * ret->chunk;
	return 0;
}

int rd_thin_find(const char *path, struct rd_thin *ret)
{
	char name[RD_DM_NAME_MAX], pool_name[RD_DM_NAME_MAX];
	struct stat st;
	dev_t pool;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (stat(path, &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	rd_block_dm(st.st_rdev, "name", name);
	r = name[0] ? read_thin_table(name, ret, &pool) : -ENODATA;
	if (!r) {
		rd_block_dm(pool, "name", pool_name);
		r = read_thin_status(name, ret);
	}
	if (!r)
		r = read_pool_table(pool_name, ret);
	if (!r)
		r = read_pool_status(pool_name, ret);
	return r == -ENODATA ? -ENODEV : r;
}
