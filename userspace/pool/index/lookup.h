/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find blocks of a segment elsewhere in the pool, by content.
 *
 * A block that the index knows leads to a frame. Fingerprints of that frame and of seven beside
 * it are read, by one read, into a cache; from the block on, a run grows in both directions as
 * long as fingerprints agree. What is near a block in one stream is often near it in another,
 * so most blocks are found in the cache, and only few lead to the index.
 *
 * What is found is a hint: that a place has the fingerprint was true when it was read, or is a
 * remain of what was there before. The caller asks again, in its transaction.
 */
#ifndef RD_LOOKUP_H
#define RD_LOOKUP_H

#include "pool/data/slots.h"
#include "index.h"

/* Shorter runs do not pay: each is a seek of a restore. */
#define RD_INLINE_RUN		16
/* Frames whose fingerprints are in the cache, and how many are read at once. */
#define RD_LOOKUP_PAGES		512
#define RD_LOOKUP_READ		8

struct rd_lookup;

/*
 * Each block that is asked for counts as one of these four: cache, unsampled, vector_no,
 * index_asked.
 */
struct rd_lookup_counts {
	u64 asked;
	u64 same_offset;	/* not asked; by the caller */
	u64 cache;		/* in a run that was found, or its fingerprint was in memory */
	u64 cache_sampled;	/* of these: blocks that the index has, by their fingerprints */
	u64 unsampled;		/* of the others: the index does not have such blocks */
	u64 vector_no;		/* the vectors did not know it */
	u64 index_asked;	/* a page of a run was read */
	u64 index_found;	/* of these: the index knew a place */
	u64 false_positive;	/* the index knew none */
	u64 stale;		/* something else was in the place that the index knew */
	u64 pages_read;		/* reads of RD_LOOKUP_READ frames' fingerprints */
	u64 found;		/* blocks that got a place */
	u64 refused;		/* segments with one that was gone at last; by the caller */
};

/*
 * Count the blocks for which the index is read, with and without the vectors and the cache
 * (DDFS, table 4). With both it is what happened; else, what it takes to answer the same blocks:
 *
 * - A sampled block that the cache knows counts as one that the vectors know. They do not, if the
 *   index lacks it: its entry was lost, or went with the frame that it named, or is of another
 *   snapshot that has not written it yet.
 * - What this snapshot has written, and is still in memory, counts as known by the cache. It costs
 *   no read even without one.
 * - An index without a file has nothing to read, whatever is left out.
 *
 * Without vectors each file of the index is read for a block that none has: these are blocks,
 * not pages.
 */
static inline u64 rd_lookup_reads(const struct rd_lookup_counts *counts, bool has_vector,
				  bool has_cache)
{
	return counts->index_asked + (has_vector ? 0 : counts->vector_no) +
		(has_cache ? 0 : counts->cache_sampled);
}

/* @area and @index stay. NULL: out of memory. */
struct rd_lookup *rd_lookup_new(const struct rd_area *area, struct rd_index *index);
void rd_lookup_free(struct rd_lookup *lookup);

/* Ask the index for each block that it may have: the tests compare rd_lookup_reads() with it. */
void rd_lookup_without_cache(struct rd_lookup *lookup);

/* Forget the fingerprints that were read. */
void rd_lookup_forget(struct rd_lookup *lookup);

/*
 * Find places of the blocks @wanted of a segment with @fps; 0: there is none. Blocks that have
 * one are in runs of RD_INLINE_RUN or more. In a run the place of a block is one behind that
 * of the block before, or as many behind as the block is; blocks of zeros may lie between, and
 * have no place. The numbers are added to *@counts.
 */
void rd_lookup(struct rd_lookup *lookup, const struct rd_fp fps[RD_SEG_BLOCKS],
	       const struct rd_slots *wanted, rd_place places[RD_SEG_BLOCKS],
	       struct rd_lookup_counts *counts);

#endif
