// SPDX-License-Identifier: GPL-2.0
/* Recognize the content of a block device. */
#include <blkid/blkid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "probe.h"

#define AMBIVALENT	(-2)

static void take_value(blkid_probe probe, const char *name, char ret[RD_FS_TYPE_MAX])
{
	const char *value;

	if (!blkid_probe_lookup_value(probe, name, &value, NULL))
		snprintf(ret, RD_FS_TYPE_MAX, "%s", value);
}

int rd_probe(const char *path, struct rd_content *ret)
{
	blkid_probe probe;
	int r;

	memset(ret, 0, sizeof(*ret));
	errno = 0;
	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return rd_err(errno ? -errno : -EIO, "cannot open '%s'", path);
	blkid_probe_enable_partitions(probe, 1);
	r = blkid_do_safeprobe(probe);
	if (r == AMBIVALENT) {
		snprintf(ret->type, sizeof(ret->type), "more than one thing");
	} else if (!r) {
		take_value(probe, "TYPE", ret->type);
		take_value(probe, "PTTYPE", ret->table);
	}
	blkid_free_probe(probe);
	return 0;
}
