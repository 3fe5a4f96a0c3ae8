// SPDX-License-Identifier: GPL-2.0
/* revdedupctl recompress: store what is in the pool in another way. */
#include <errno.h>
#include <stdio.h>

#include "host/volume/device/target.h"
#include "pool/engine/care/recompress.h"
#include "pool/engine/space/hold.h"
#include "cli.h"

static void print(struct ctl *ctl, const struct rd_recompress_report *report)
{
	if (ctl->json)
		ctl_json(ctl, "recompress", "compression=%s bytes_before=%llu bytes_after=%llu",
			 ctl->operands[0], report->bytes_before, report->bytes_after);
	else if (!ctl->quiet)
		printf("stored %s, it was %s; new content is stored with %s\n",
		       ctl_size(report->bytes_after), ctl_size(report->bytes_before),
		       ctl->operands[0]);
}

/* A device must be able to follow a block into a pack. One of another host has its own module. */
static int check_devices(struct ctl *ctl)
{
	struct rd_lease device;
	int r = rd_lease_of_device(ctl->pool->sql, &device);

	if (r || !rd_target_exists())
		return r == -ENOENT ? 0 : r;
	return rd_target_require_packs();
}

int cmd_recompress(struct ctl *ctl)
{
	struct rd_recompress_report report = { 0 };
	struct rd_compression compression;
	int r;

	r = ctl_value_compression(ctl, ctl->operands[0], &compression);
	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	if (!r && compression.codec)
		r = check_devices(ctl);
	if (r)
		return r;
	ctl_progress_begin(&ctl->progress, "recompress");
	r = rd_recompress(ctl->pool, compression, &report);
	ctl_progress_clear(&ctl->progress);
	if (!r)
		print(ctl, &report);
	return r;
}
