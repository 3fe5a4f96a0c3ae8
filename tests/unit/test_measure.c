// SPDX-License-Identifier: GPL-2.0
/* In how many pieces may a segment be, on disks of different kinds? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pool/engine/space/measure.h"

#define MIB	1048576.0
#define LAST	(RD_MEASURE_SIZES - 1)

/* A disk on which a read anywhere takes @us more than one in sequence, of @mib in a second. */
static struct rd_measure_report disk(double us, double mib)
{
	struct rd_measure_report report = { .pieces = 0 };
	unsigned int i;

	for (i = 0; i < RD_MEASURE_SIZES; i++)
		report.times.us[i] = (i < LAST ? us : 0) +
			rd_measure_sizes[i] * 1000000.0 / (mib * MIB);
	return report;
}

/* How fast are segments of so many pieces really read, in proportion? */
static double share_on(double us, double mib, unsigned int pieces)
{
	double best = RD_SEG_SIZE * 1000000.0 / (mib * MIB);

	return best / (best + pieces * us);
}

static void near(double is, double wanted)
{
	if (is < wanted - 0.001 || is > wanted + 0.001)
		fail_msg("%f, not %f", is, wanted);
}

/* Check the choice, and that what it says is so. */
static void check_disk(double us, double mib, unsigned int pieces)
{
	struct rd_measure_report report = disk(us, mib);

	rd_measure_choose(&report);
	if (report.pieces != pieces)
		fail_msg("%u pieces, not %u", report.pieces, pieces);
	near(report.share, pieces == 1 ? 1 : share_on(us, mib, pieces));
	assert_true(report.share >= 0.9);
	near(report.next_share, pieces == 512 ? 0 : share_on(us, mib, pieces * 2));
	assert_true(report.next_share < 0.9);
}

static void test_disks(void **state)
{
	(void)state;
	/* Seeks of 4 ms, one after the other. */
	check_disk(4000, 150, 1);
	/* Of 1 ms: with two pieces it is 0.87. */
	check_disk(1000, 150, 1);
	check_disk(500, 150, 2);
	/* The disk serves 32 reads at a time, each of which takes 4 ms more. */
	check_disk(4000.0 / 32, 150, 8);
	/* Flash on SATA, and on PCI Express. */
	check_disk(100.0 / 32, 500, 128);
	check_disk(80.0 / 1000, 3000, 512);
	check_disk(0, 10000, 512);
}

/* A pool whose rule is not named: the same choice far from where disks of both kinds are. */
static void check_default(double us, double mib, unsigned int pieces)
{
	struct rd_measure_report report = disk(us, mib);
	double share = share_on(us, mib, RD_PIECES_BY_DEFAULT);

	report.by_default = true;
	rd_measure_choose(&report);
	if (report.pieces != pieces)
		fail_msg("%u pieces by default, not %u", report.pieces, pieces);
	near(pieces == 1 ? report.next_share : report.share, share);
	assert_int_equal(rd_measure_rule(pieces).dedup,
			 pieces == 1 ? RD_DEDUP_REVERSE : RD_DEDUP_INLINE);
}

static void test_default(void **state)
{
	(void)state;
	check_default(4000, 150, 1);
	/* Many such disks, and those of which each serves many reads at a time. */
	check_default(4000.0 / 32, 24 * 150, 1);
	check_default(4000.0 / 8, 150, 1);
	/* Flash, also where the machine is too busy to use it. */
	check_default(100.0 / 32, 500, 64);
	check_default(80.0 / 1000, 3000, 64);
	check_default(20, 2000, 64);
	check_default(0, 10000, 64);
}

/* Slow reads end the measuring of smaller ones, and what was not measured is not chosen. */
static void test_not_measured(void **state)
{
	struct rd_measure_report report = disk(4000, 150);
	unsigned int i;

	(void)state;
	assert_true(rd_measure_matters(&report, LAST - 1));
	for (i = 0; i < LAST - 1; i++)
		assert_false(rd_measure_matters(&report, i));
	for (i = 0; i < LAST - 1; i++)
		report.times.us[i] = RD_MEASURE_NONE;
	rd_measure_choose(&report);
	assert_int_equal(report.pieces, 1);
	report.by_default = true;
	rd_measure_choose(&report);
	assert_int_equal(report.pieces, 1);
	/* What it says is what was measured. */
	assert_int_equal(report.next, 8);
	near(report.next_share, share_on(4000, 150, 8));
	/* All sizes count on a fast disk, but for the least one where 64 pieces are enough. */
	report = disk(1, 1000);
	for (i = 0; i < LAST; i++)
		assert_true(rd_measure_matters(&report, i));
	report.by_default = true;
	assert_false(rd_measure_matters(&report, 0));
	assert_true(rd_measure_matters(&report, 1));
	report.times.us[0] = RD_MEASURE_NONE;
	rd_measure_choose(&report);
	assert_int_equal(report.pieces, 64);
}

/* Measurements are noisy, and some disks are odd. */
static void test_odd(void **state)
{
	struct rd_measure_report report = disk(3, 500);
	unsigned int i;

	(void)state;
	/* Reads anywhere are faster than those in sequence: no share is above 1. */
	report.times.us[LAST] *= 10;
	rd_measure_choose(&report);
	assert_int_equal(report.pieces, 512);
	near(report.share, 1);
	near(report.next_share, 0);
	/* Reads of 256 KiB are slow: what is good with more pieces is not looked at. */
	report = disk(3, 500);
	report.times.us[3] *= 3;
	rd_measure_choose(&report);
	assert_true(report.pieces < 8);
	/* All take the same time, however large they are. */
	for (i = 0; i < RD_MEASURE_SIZES; i++)
		report.times.us[i] = 1000;
	rd_measure_choose(&report);
	assert_int_equal(report.pieces, 1);
	assert_true(report.next_share < 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disks),
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_not_measured),
		cmocka_unit_test(test_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
