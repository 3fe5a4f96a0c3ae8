// SPDX-License-Identifier: GPL-2.0
/*
 * Passes over the whole pool, at any moment. See model.h.
 */
#include <stdio.h>

#include "pool/engine/pass.h"
#include "model.h"

struct rd_pass_options any_pass(void)
{
	static char temp[600];

	snprintf(temp, sizeof(temp), "%s", path_of(""));
	return (struct rd_pass_options){
		.temp = temp,
		.older = below(2) ? 0 : below(3),
		.least_run = below(2) ? 1 : 4,
	};
}

static struct rd_pass_report pass(const struct rd_pass_options *options)
{
	struct rd_pass_report report;

	if (rd_pass_run(pool, options, &report))
		fail("a pass over the pool failed");
	if (report.damaged)
		fail("a pass found %llu blocks that are not what they were", report.damaged);
	return report;
}

/* What was found is not there a second time. Some of it a full home keeps, or one that went. */
static void check_closed(const struct rd_pass_options *options)
{
	/* Nothing of a dry run depends on what a pass before has seen. */
	struct rd_pass_options again = *options;
	struct rd_pass_report report;

	again.dry_run = true;
	report = pass(&again);
	if (report.given_up)
		fail("after a pass there are %llu blocks twice", report.given_up);
}

void do_pass(void)
{
	struct rd_pass_options options = any_pass();
	struct rd_pass_report report = pass(&options);

	/* Of longer runs some only come to be when what was between them is given up. */
	if (!report.capped && !report.refused && options.least_run == 1)
		check_closed(&options);
	covered[PASS_FRESH] += !report.all && report.changed;
	covered[PASS_CHANGED] += report.changed;
	covered[PASS_IN_NEWEST] += report.changed && report.found.old_newest;
	covered[PASS_IN_OLD] += report.changed && report.found.old_twice;
	covered[PASS_CAPPED] += report.capped;
	covered[PASS_TOO_NEW] += report.too_new;
}
