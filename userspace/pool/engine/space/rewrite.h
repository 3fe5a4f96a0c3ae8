/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Write what lives in frames anew, elsewhere, as packs or raw.
 *
 *	1. read it, and compare it with the fingerprints: damage is not carried on
 *	2. write it to new frames, with the fingerprints; flush
 *	3. one transaction makes the recipes name the new places, and queues the old ones
 *
 * A crash before the last step leaves frames that are reserved, or slots of a packing frame beyond
 * its "next": no recipe uses either. The caller has RD_LOCK_FREE.
 */
#ifndef RD_REWRITE_H
#define RD_REWRITE_H

#include "pool/pool.h"

/* Blocks at a time; the frames of a call have no more that live. */
#define RD_REWRITE_BLOCKS	4096

struct rd_rewrite_options {
	struct rd_compression compression;
	/*
	 * Blocks are put next to each other. Else each frame becomes one, with the same slots,
	 * and a recipe that is whole stays so.
	 */
	bool dense;
	/* Raw and dense, and the first of them behind what was put there before. */
	bool packing;
	/* Only what compresses is written; raw frames that do not stay as they are. */
	bool only_packs;
	bool may_fill_up;	/* the last frames of the pool, too, but for RD_FRAMES_FEW */
	/*
	 * Fill in a block that is damaged, and is written then; false: its content is not known,
	 * and it stays. NULL: none is.
	 */
	bool (*mend)(void *ctx, rd_place place, void *block);
	void *ctx;
};

/*
 * Write the frames @frames anew, ordinary or packed ones. 1: there is no room, and nothing has
 * changed.
 */
int rd_rewrite(struct rd_pool *pool, const u64 *frames, unsigned int nr,
	       const struct rd_rewrite_options *options);

#endif
