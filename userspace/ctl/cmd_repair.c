// SPDX-License-Identifier: GPL-2.0
/* revdedupctl repair: make the catalog anew from the pool alone. */
#include <stdio.h>

#include "../pool/rebuild.h"
#include "ctl.h"

static void print(struct ctl *ctl, const char *path, const struct rd_rebuild_report *report)
{
	if (ctl->json) {
		ctl_json_begin(ctl, "repair");
		rd_json_u64(&ctl->out, "versions", report->nr_versions);
		ctl_json_end(ctl);
	} else if (!ctl->quiet) {
		printf("made the catalog of '%s' anew: %llu versions\n", path,
		       report->nr_versions);
		printf("what was there before is catalog.old; 'revdedupctl check' and 'scrub' say whether all is well\n");
	}
}

int cmd_repair(struct ctl *ctl)
{
	struct rd_rebuild_report report;
	int r;

	if (!ctl_has(ctl, CTL_OPT_REBUILD_CATALOG))
		return ctl_usage(ctl, "'repair' needs --rebuild-catalog");
	r = ctl_open(ctl, RD_POOL_REPAIR);
	if (!r)
		r = rd_rebuild_catalog(ctl->pool, false, &report);
	if (!r)
		print(ctl, ctl->pool->path, &report);
	return ctl_close(ctl, r);
}
