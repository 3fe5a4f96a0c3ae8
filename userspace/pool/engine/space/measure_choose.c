// SPDX-License-Identifier: GPL-2.0
/* The number of pieces that suits a disk: see measure.h. Pure. */
#include "measure.h"

#define ENOUGH			0.9
#define ENOUGH_BY_DEFAULT	(1.0 / 3)
/* With such a share of one number of pieces no greater number is chosen. */
#define HOPELESS		0.3
/* That of RD_MEASURE_NONE is less. */
#define NOTHING			0.001

const u32 rd_measure_sizes[RD_MEASURE_SIZES] = {
	4 << 10, 16 << 10, 64 << 10, 256 << 10, RD_SEG_SIZE,
};

#define LARGEST		(RD_MEASURE_SIZES - 2)	/* of those that are read anywhere */

static double time_of(const struct rd_read_times *times, u32 size)
{
	const u32 *sizes = rd_measure_sizes;
	double in_sequence = times->us[RD_MEASURE_SIZES - 1] / RD_SEG_SIZE;
	unsigned int i = 1;

	if (size > sizes[LARGEST])
		return times->us[LARGEST] + (size - sizes[LARGEST]) * in_sequence;
	while (size > sizes[i])
		i++;
	return times->us[i - 1] + (times->us[i] - times->us[i - 1]) * (size - sizes[i - 1]) /
		(sizes[i] - sizes[i - 1]);
}

static double share_of(const struct rd_read_times *times, unsigned int pieces)
{
	return times->us[RD_MEASURE_SIZES - 1] / (pieces * time_of(times, RD_SEG_SIZE / pieces));
}

static void choose_most(struct rd_measure_report *report)
{
	unsigned int pieces;
	double share;

	for (pieces = 2; pieces <= RD_SEG_BLOCKS; pieces *= 2) {
		share = share_of(&report->times, pieces);
		if (share < ENOUGH) {
			report->next = pieces;
			report->next_share = share;
			return;
		}
		report->pieces = pieces;
		report->share = share < 1 ? share : 1;
	}
}

static void choose_by_default(struct rd_measure_report *report)
{
	unsigned int pieces = RD_PIECES_BY_DEFAULT;
	double share = share_of(&report->times, pieces);

	if (share >= ENOUGH_BY_DEFAULT) {
		report->pieces = pieces;
		report->share = share < 1 ? share : 1;
		return;
	}
	/* Where larger reads were so slow that these were not measured, speak of those. */
	while (share < NOTHING && pieces > RD_SEG_SIZE / rd_measure_sizes[LARGEST]) {
		pieces /= 2;
		share = share_of(&report->times, pieces);
	}
	report->next = pieces;
	report->next_share = share;
}

void rd_measure_choose(struct rd_measure_report *report)
{
	report->pieces = 1;
	report->share = 1;
	report->next = 0;
	report->next_share = 0;
	if (report->by_default)
		choose_by_default(report);
	else
		choose_most(report);
}

bool rd_measure_matters(const struct rd_measure_report *report, unsigned int i)
{
	const u32 *sizes = rd_measure_sizes;

	if (i == LARGEST)
		return true;
	/* The least size that counts is between two that are measured. */
	if (report->by_default && sizes[i + 1] <= RD_SEG_SIZE / RD_PIECES_BY_DEFAULT)
		return false;
	return share_of(&report->times, RD_SEG_SIZE / sizes[i + 1]) >= HOPELESS;
}
