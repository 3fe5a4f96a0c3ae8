/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find blocks that the pool has more than once, partition by partition, as in "Low-Cost Data
 * Deduplication for Virtual Machine Backup in Cloud Storage" (Zhang et al., 2012):
 *
 *	1. stream	all that recipes own, in the order on the disk: what each block is, and
 *			which recipe has it, goes to the bucket that its fingerprint chooses
 *	2. join		bucket by bucket: of each content that is there more than once one block
 *			is the keeper; each other one, with its keeper, goes to the bucket that its
 *			recipe chooses
 *	3. take		recipe by recipe: the blocks that have a keeper elsewhere
 *
 * Buckets are in temporary files (spill.h). A pool that is too large for these is taken in
 * slices, by fingerprint. Nothing is changed, and no lock is held: what is found is a hint,
 * which whoever uses it looks up again.
 *
 * The keeper is a block of a recipe that a newest version names, else of the recipe that lives
 * longest: that which the youngest version has. So references lead to what is deleted later.
 * Of equal ones it is the recipe with the lowest number, so that runs have keepers in runs.
 */
#ifndef RD_TWINS_H
#define RD_TWINS_H

#include <stdbool.h>

#include "pool/pool.h"

/* A block: recipe << 9 | number. */
typedef u64 rd_block_id;

static inline rd_block_id rd_block_id_make(i64 recipe, unsigned int block)
{
	return (u64)recipe << 9 | block;
}

/* A block, and another one with the same content. */
struct rd_twin {
	rd_block_id block;
	rd_block_id keeper;
};

struct rd_twins_counts {
	u64 blocks;		/* that were compared: all that recipes own, or see @filter */
	u64 newest;		/* of these: of recipes that a newest version names */
	u64 old_newest;	/* of the others: content that a newest version has */
	u64 old_twice;		/* content that no newest version has, but an other one */
	u64 newest_twice;	/* of newest versions: content that another of their blocks has */
	u64 unreadable;		/* blocks whose fingerprint is lost */
	u64 passed_by;		/* blocks of a bucket with too many contents */
};

struct rd_pace;
struct rd_twins;
struct rd_twins_filter;

/* In how many slices is all of the pool to be taken? */
int rd_twins_slices(struct rd_pool *pool, unsigned int *ret);

struct rd_twins_options {
	const char *temp;	/* directory of temporary files */
	bool all;		/* find twins of newest versions among themselves, too */
	unsigned int slices, slice;	/* how many there are, and the first one to be taken */
	/* Compare only blocks with the content of fresh recipes, in one slice; NULL: all. */
	struct rd_twins_filter *filter;
	struct rd_pace *pace;	/* of what is read and written */
	u64 until_us;		/* after this the result is -ETIMEDOUT; 0: never */
};

/* Begin. What @options refers to must last, but for the filter, which is freed. */
int rd_twins_new(struct rd_twins **ret, struct rd_pool *pool,
		 const struct rd_twins_options *options);
void rd_twins_free(struct rd_twins *twins);

/*
 * Do steps 1 and 2 for the next slice. 1: done; 0: there is none left; -errno: what it has is not
 * known.
 */
int rd_twins_slice(struct rd_twins *twins);

/*
 * Take the twins of the next recipe of the slice, in the order of its blocks, RD_SEG_BLOCKS at
 * most. 1, 0: there is none left, or -errno.
 */
int rd_twins_take(struct rd_twins *twins, struct rd_twin *ret, unsigned int *ret_nr);

/* How many twins the slice has, and how many of these were taken. */
void rd_twins_progress(const struct rd_twins *twins, u64 *ret_taken, u64 *ret_all);

/* What was found in all slices so far. */
void rd_twins_count(const struct rd_twins *twins, struct rd_twins_counts *ret);

#endif
