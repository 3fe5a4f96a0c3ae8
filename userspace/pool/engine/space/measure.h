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
 * The most pieces (--pieces auto) are the greatest power of two up to which no share is below
 * 0.9: the newest version is still read at nine tenths of what the disk can do.
 *
 * A pool whose rule is not named has 64 pieces if that share is at least a third, and one
 * otherwise. A disk that seeks has a twentieth, and others have two thirds or more, so that the
 * choice is the same each time. What disturbs a measurement may lead to fewer pieces, and
 * hardly to more.
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

/* Not measured: as slow as can be. */
#define RD_MEASURE_NONE	1e12

/* The number of pieces by default, where the disk bears it: figures.rst says why. */
#define RD_PIECES_BY_DEFAULT	64

struct rd_measure_report {
	bool by_default;		/* that number or 1, and not the most pieces */
	struct rd_read_times times;
	unsigned int pieces;
	double share;			/* with these */
	unsigned int next;		/* more of them, which was too slow; 0: 512 is the most */
	double next_share;
};

/* Choose by what was measured. Pure, as the next ones are: see measure_choose.c. */
void rd_measure_choose(struct rd_measure_report *report);

/* By what was measured so far, may reads of rd_measure_sizes[@i] still change the choice? */
bool rd_measure_matters(const struct rd_measure_report *report, unsigned int i);

/* The rule of a pool that may have so many pieces, where no other is named. */
static inline struct rd_rule rd_measure_rule(unsigned int pieces)
{
	return (struct rd_rule){
		.pieces = pieces,
		.dedup = pieces > 1 ? RD_DEDUP_INLINE : RD_DEDUP_REVERSE,
	};
}

/*
 * Measure, for less than a second, and choose. The pool is open for writing. -ENOSPC: there is no
 * room, and -EINTR: the user has asked to stop, both without a message. REVDEDUP_MEASURED in the
 * environment is believed instead, for tests.
 */
int rd_measure(struct rd_pool *pool, bool by_default, struct rd_measure_report *report);

/* So much in a row must be free for that. */
#define RD_MEASURE_ROOM	(8 * RD_SEG_SIZE)

#endif
