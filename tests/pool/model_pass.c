// SPDX-License-Identifier: GPL-2.0
/*
 * Passes over the whole pool, at any moment, and copies on another disk. See model.h.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/pace.h"
#include "pool/engine/care/copy.h"
#include "pool/engine/dedup/pass.h"
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

/* --- copies */

/* Each copy is what its fingerprint says, whatever has become of the pool. */
static void check_copies(u64 wanted)
{
	struct rd_copy_check check;

	if (rd_copy_check(pool, false, &check) || !check.any)
		fail("the copies cannot be read");
	if (check.damaged)
		fail("%llu of %llu copies are damaged", check.damaged, check.blocks);
	if (wanted != U64_MAX && check.blocks != wanted)
		fail("there are %llu copies, and not %llu", check.blocks, wanted);
}

static int update_copies(u64 max, struct rd_copy_report *ret)
{
	struct rd_pace pace = { 0 };

	return rd_copy_update(pool, max, &pace, ret);
}

/* No number is drawn at random here: runs with a seed stay what they were. */
static void do_copies(void)
{
	static unsigned int nr;
	struct rd_copy_report report, again;
	u64 max = ++nr * 97 % 1500;

	if (access(path_of("pool/copies"), F_OK)) {
		unlink(path_of("copies"));
		unlink(path_of("pool/copies"));
		if (rd_copy_make(pool, path_of("copies")))
			fail("no copies can be made");
	}
	check_copies(U64_MAX);
	if (update_copies(max, &report))
		fail("the copies cannot be brought up to date");
	if (report.blocks > max || report.damaged)
		fail("%llu copies, %llu damaged, of %llu", report.blocks, report.damaged, max);
	check_copies(report.blocks);
	if (update_copies(max, &again) || again.copied || again.dropped)
		fail("%llu blocks are copied again", again.copied);
	covered[COPIES_MADE] += report.copied;
	covered[COPIES_DROPPED] += report.dropped;
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
	do_copies();
}
