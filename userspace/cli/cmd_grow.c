// SPDX-License-Identifier: GPL-2.0
/* revdedupctl grow: give a pool more room. */
#include <stdio.h>

#include "pool/engine/space/grow.h"
#include "cli.h"

static void print(struct ctl *ctl, const struct rd_grow_report *report)
{
	if (ctl->json) {
		ctl_json(ctl, "grow", "pool=%s frames_before=%llu frames=%llu", ctl->pool->path,
			 report->frames_before, report->frames);
		return;
	}
	if (ctl->quiet)
		return;
	if (report->frames == report->frames_before)
		printf("the pool '%s' has room for %s already\n", ctl->pool->path,
		       ctl_size(report->frames * RD_SEG_SIZE));
	else
		printf("the pool '%s' has room for %s now, it was %s\n", ctl->pool->path,
		       ctl_size(report->frames * RD_SEG_SIZE),
		       ctl_size(report->frames_before * RD_SEG_SIZE));
}

int cmd_grow(struct ctl *ctl)
{
	struct rd_grow_report report;
	u64 size = 0;
	int r;

	r = ctl_value_size(ctl, CTL_OPT_SIZE, &size);
	if (!r && ctl_has(ctl, CTL_OPT_SIZE) && !size)
		r = ctl_usage(ctl, "--size must not be 0");
	if (!r)
		r = ctl_open(ctl, RD_POOL_ALONE);
	if (!r && size && !rd_area_can(&ctl->pool->area, RD_STORE_GROWS))
		r = ctl_usage(ctl, "--size is for a pool in a file; one on a device gets all of the device");
	if (!r)
		r = rd_grow(ctl->pool, size, &report);
	if (!r)
		print(ctl, &report);
	return r;
}
