/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each sector of a volume may hold, for programs that write to it from
 * several threads, crash it, and look.
 *
 * Each write has a number, its stamp, and fills each of its sectors with stamp
 * and sector number, so that a sector on disk says who wrote it. Content is
 * then a word a sector in memory, and a copy of the volume at some moment is a
 * small array. Writes that overlap are never in flight at the same time, so the
 * stamps of a sector's versions grow.
 */
#ifndef RDT_ORACLE_H
#define RDT_ORACLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTOR		512U
#define SEG_SECTORS	4096U
#define MAX_THREADS	16

/*
 * Content of a sector: the stamp of the write it comes from, WORD_ZERO if that
 * left zeros. The other two are never the content of a sector that is whole.
 */
#define WORD_ZERO	0x80000000U
#define WORD_GARBAGE	0x7fffffffU	/* neither zeros nor the mark of a write */
#define WORD_NOTHING	0x7ffffffeU	/* in a copy: differs from everything */

struct op {
	uint64_t first;			/* sector */
	uint64_t sectors;		/* 0: none */
	uint32_t stamp;
	bool zeros;
};

struct oracle {
	uint64_t sectors;
	uint64_t segs;
	/*
	 * On the device the second half lies further back, so that what is kept
	 * of its segments is far from what is kept of the first.
	 */
	uint64_t half;			/* a multiple of SEG_SECTORS */
	uint64_t gap;
	pthread_mutex_t lock;		/* what follows */
	uint32_t last_stamp;
	uint32_t *content;		/* as acknowledged */
	uint32_t *flushed;		/* not older than this after a crash */
	uint32_t *zeroed;		/* stamp of the last write of zeros issued */
	bool *touched;			/* a segment: since the last recovery */
	struct op pending[MAX_THREADS];
	struct op *done;		/* acknowledged, since the last recovery */
	size_t nr_done;
	size_t max_done;
	size_t nr_flushed;		/* of done */
};

void oracle_init(struct oracle *o, uint64_t sectors);

/* Where @sector is on the device. Nothing that is read or written crosses the half. */
uint64_t oracle_place(const struct oracle *o, uint64_t sector);

/*
 * Announce a write by @thread to where op->first and op->sectors say. False: it
 * would overlap another that is in flight. Fills in the stamp.
 */
bool oracle_begin(struct oracle *o, unsigned int thread, struct op *op);
/* @good: it was acknowledged; @stable: and will survive a crash. */
void oracle_end(struct oracle *o, unsigned int thread, bool good, bool stable);

/* What the write @op must write; @buf has room for op->sectors. */
void op_fill(const struct op *op, void *buf);

/* Around a flush: what was acknowledged before it began is stable afterwards. */
size_t oracle_flush_begin(struct oracle *o);
void oracle_flush_end(struct oracle *o, size_t mark);

/*
 * A copy of the content at this moment, at which no write is on its way below:
 * where one was and has not been told us yet, @fd is read. To be freed. NULL if
 * that cannot be read.
 */
uint32_t *oracle_copy(struct oracle *o, int fd);

/*
 * After a crash: read what @fd holds, all of it or only the segments touched
 * since the last time, and take it for what is. Returns the number of sectors
 * that are impossible: torn, or older than what was flushed. No write may be
 * in flight.
 */
uint64_t oracle_recover(struct oracle *o, int fd, bool all);

/*
 * Does the volume hold in segment @seg what @copy says? Else *@ret_sector is
 * the first that differs.
 */
bool oracle_equals(struct oracle *o, const uint32_t *copy, uint64_t seg,
		   uint64_t *ret_sector);

#endif
