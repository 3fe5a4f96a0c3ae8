// SPDX-License-Identifier: GPL-2.0
/* revdedupctl check: check the catalog, without reading content. */
#include <stdio.h>

#include "pool/engine/care/check.h"
#include "cli.h"
#include "lastscrub.h"

void ctl_print_wrong(void *ctx, const char *text)
{
	struct ctl *ctl = ctx;

	if (!ctl->json) {
		printf("wrong: %s\n", text);
		return;
	}
	ctl_json(ctl, "wrong", "what=%s", text);
}

static void print_json(struct ctl *ctl, const struct rd_check_report *report)
{
	ctl_json_begin(ctl, "check");
	rd_json_add(&ctl->out, "versions=%llu recipes=%llu bytes_live=%llu bytes_packed=%llu",
		    report->nr_versions, report->nr_recipes, report->live_bytes,
		    report->packed_bytes);
	rd_json_add(&ctl->out, "bytes_allocated=%llu wrong=%llu",
		    report->allocated_bytes, report->nr_wrong);
	ctl_json_end(ctl);
}

static void print_text(const struct ctl *ctl, const struct rd_check_report *report)
{
	if (report->nr_wrong) {
		rd_err(0, "pool '%s': the catalog has %llu errors", ctl->pool->path,
		       report->nr_wrong);
		rd_hint("nothing was changed; 'revdedupctl scrub' lists the versions that are damaged");
	} else if (!ctl->quiet) {
		printf("pool '%s': catalog OK (%llu versions, %s)\n", ctl->pool->path,
		       report->nr_versions, ctl_size(report->live_bytes));
	}
	if (rd_verbosity > 0)
		printf("counted %llu recipes, with %s of data in %s of the data area, %s of it packs\n",
		       report->nr_recipes, ctl_size(report->live_bytes),
		       ctl_size(report->allocated_bytes), ctl_size(report->packed_bytes));
}

int cmd_check(struct ctl *ctl)
{
	struct rd_check_report report = { .wrong = ctl_print_wrong, .ctx = ctl };
	int r;

	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = rd_check(ctl->pool, &report);
	if (r)
		return r;
	ctl_last_check_write(ctl, report.nr_wrong);
	if (ctl->json)
		print_json(ctl, &report);
	else
		print_text(ctl, &report);
	return report.nr_wrong ? CTL_DAMAGE : 0;
}
