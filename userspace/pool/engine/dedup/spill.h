/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records that do not fit into memory, in buckets: put in any order, then read bucket by bucket.
 *
 * All are in one file without a name, which vanishes with the process, in chunks: a buffer of
 * each bucket that is written when it is full. What is in memory is these buffers, or what is read
 * of one bucket, either of RD_SPILL_BUFFERS together, and the numbers of chunks.
 *
 * SQLite is too slow for it. A table of 4 million blocks, which SQLite sorts with a cache of
 * 32 MiB and the join reads in order, takes 12 s of a processor and 68 MiB; buckets and their join
 * take 0.4 s and 28 MiB. 1 TiB has 268 million. "tests/bench/pool/run.sh --series find dedup"
 * prints what SQLite takes beside what finding does.
 */
#ifndef RD_SPILL_H
#define RD_SPILL_H

#include "base/units.h"

#define RD_SPILL_BUFFERS	(8U << 20)
#define RD_SPILL_MAX_BUCKETS	512

struct rd_pace;
struct rd_spill;

/* @dir: where the file is. @size: of a record. An error has been told. */
int rd_spill_new(struct rd_spill **ret, const char *dir, size_t size, unsigned int nr_buckets,
		 struct rd_pace *pace);
void rd_spill_free(struct rd_spill *spill);

/* -ENOSPC: an error has been told, too. */
int rd_spill_put(struct rd_spill *spill, unsigned int bucket, const void *record);

/* Write what is in buffers, which are freed: from now on records are read. */
int rd_spill_end(struct rd_spill *spill);

u64 rd_spill_nr(const struct rd_spill *spill, unsigned int bucket);

/*
 * Read the records of a bucket, from the first on: rd_spill_next() sets *@ret to some in a row,
 * and *@ret_nr to how many, 0 at the end. What there was room for is not read a second time.
 */
void rd_spill_rewind(struct rd_spill *spill, unsigned int bucket);
int rd_spill_next(struct rd_spill *spill, const void **ret, unsigned int *ret_nr);

#endif
