/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Measure how many pieces a segment may be in, on the disk that the data area is on.
 *
 * In P pieces of one size a segment is P reads anywhere. What such a read takes among many is
 * measured for some sizes; between two of them it grows with the size, and beyond the largest
 * one as a read in sequence does. It is the worst case: mostly pieces have different sizes, and
 * lie in order.
 *
 *	share(P) = time of 2 MiB read in sequence / (P * time of a read of 2 MiB / P)
 *
 * The most pieces are the greatest power of two up to which no share is below 0.9: the newest
 * version is still read at nine tenths of what the disk can do.
 *
 * What is read was written before, to free frames: of holes, of a thin volume or of blocks that
 * were discarded a disk says at once that they are zeros.
 */
#ifndef RD_MEASURE_H
#define RD_MEASURE_H

#include "pool/pool.h"

/* Reads of 4, 16, 64 and 256 KiB, and in sequence. */
#define RD_MEASURE_SIZES	5

extern const u32 rd_measure_sizes[RD_MEASURE_SIZES];

/* What was measured: microseconds a read, of many at a time; the last one of 2 MiB. */
struct rd_read_times {
	double us[RD_MEASURE_SIZES];
};

struct rd_measure_report {
	struct rd_read_times times;
	unsigned int pieces;		/* at most */
	double share;			/* with these */
	double next_share;		/* with twice as many; 0 for 512 */
};

/* Choose by what was measured. Pure: see measure_choose.c. */
void rd_measure_choose(struct rd_measure_report *report);

/*
 * Measure, for a second or two. The pool is open for writing. -ENOSPC: there is no room. -EINTR,
 * without a message: the user has asked to stop.
 */
int rd_measure(struct rd_pool *pool, struct rd_measure_report *report);

#endif
