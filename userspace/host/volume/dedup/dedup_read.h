/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read blocks of a volume and what the pool has for them, from both side by side, and the next
 * piece while one is compared: that takes as long as the slower of the two disks needs.
 */
#ifndef RD_DEDUP_READ_H
#define RD_DEDUP_READ_H

#include "dedup_run.h"

struct rd_dedup_reader;

struct rd_dedup_piece {
	u64 first, nr;		/* blocks of the volume: RD_DEDUP_READ bytes at most */
	const struct dmr_entry *places;	/* of @nr blocks */
	const u8 *live, *pool;	/* what was read; nothing where a place is not in the pool */
};

/*
 * May it read the next piece before one was compared? With a rate that would be read before it is
 * paid for, most of the time is slept away, and processor time is taken from those for whom
 * there is a rate. In mode ZEROS reads are counted.
 */
static inline bool rd_dedup_reads_ahead(const struct rd_dedup_run *run)
{
	return !run->pace.rate && !rd_dedup_is_zeros(run);
}

/* Of the volume of @run, and in mode POOL of its pool, which are open. */
int rd_dedup_reader_new(struct rd_dedup_reader **ret, const struct rd_dedup_run *run);
void rd_dedup_reader_free(struct rd_dedup_reader *reader);

bool rd_dedup_reader_has_room(const struct rd_dedup_reader *reader);

/* Begin to read a piece; there must be room. @places must stay until it was waited for. */
void rd_dedup_reader_start(struct rd_dedup_reader *reader, u64 first, u64 nr,
			   const struct dmr_entry *places);

/*
 * Wait for the piece that was started first; NULL if there is none. It is valid until the next
 * piece is started.
 */
int rd_dedup_reader_wait(struct rd_dedup_reader *reader, const struct rd_dedup_piece **ret);

/* Wait for all pieces, and forget them. */
void rd_dedup_reader_drain(struct rd_dedup_reader *reader);

#endif
