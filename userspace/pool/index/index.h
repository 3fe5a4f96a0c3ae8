/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The index: where blocks of the pool are, by their fingerprint. It knows one block of
 * RD_INDEX_SAMPLE, chosen by value; from there lookup.h finds those beside it.
 *
 * All that it says is a hint, and the caller looks at the place itself. It may lack anything,
 * and nothing in it fails a command: see files.h. So it takes no part in what a crash leaves,
 * and can be removed at any time. It is not in the journal, nor in the counts of the pool.
 *
 * Several processes may use it at the same time; each finds what others have written before it
 * opened the index, or since it merged.
 */
#ifndef RD_INDEX_H
#define RD_INDEX_H

#include "pool/catalog/db.h"
#include "pool/data/area.h"
#include "run.h"

struct rd_index;

/* What rd_index_find() was asked since the index was opened. */
struct rd_index_counts {
	u64 vector_no;		/* fingerprints that the vectors did not know */
	u64 asked;		/* others: pages of runs were read */
	u64 found;		/* of these */
};

static inline bool rd_index_is_sampled(const struct rd_fp *fp)
{
	return !(fp->b[15] & (RD_INDEX_SAMPLE - 1));
}

/* Open the index of a pool. -ENOMEM. */
int rd_index_open(struct rd_index **ret, const char *pool_path, const u8 uuid[16]);
/* What was not flushed is lost. NULL is allowed. */
void rd_index_close(struct rd_index *index);

/* When runs are merged, forget frames that no recipe of @sql has. */
void rd_index_prune_by(struct rd_index *index, struct rd_sql *sql);
/* Ask runs without their vectors: the tests compare rd_lookup_reads() with it, see lookup.h. */
void rd_index_without_vector(struct rd_index *index);

/* Find the places of @nr sampled fingerprints; 0: it is not there. */
void rd_index_find(struct rd_index *index, const struct rd_fp *fps, unsigned int nr,
		   rd_place *places);
void rd_index_counts(const struct rd_index *index, struct rd_index_counts *ret);

/* Add the place, which is OWN, of a sampled fingerprint. Some are kept in memory. */
void rd_index_add(struct rd_index *index, const struct rd_fp *fp, rd_place place);
/* Write what is in memory, and merge. */
void rd_index_flush(struct rd_index *index);

/* Remove all that is in the index. */
void rd_index_clear(struct rd_index *index);

/*
 * Has the pool an index that had all of it once? Else rd_index_build() makes it: for a new
 * pool, and after the index was removed, or was found damaged.
 */
bool rd_index_exists(const char *pool_path);

/* Called with the frames that have been read, and all. Not 0: give up. */
typedef int rd_index_tell_fn(void *ctx, u64 done, u64 total);

/*
 * Make the index anew from the fingerprints of what recipes own, in one pass over these. Where
 * there is no room for it, that is told, and the result is 0.
 */
int rd_index_build(struct rd_index *index, struct rd_sql *sql, const struct rd_area *area,
		   rd_index_tell_fn *tell, void *ctx);

#endif
