/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keep copies of the frames on which most depends: pool/data/copies.h has their format.
 *
 *	1. choose	frames that most volumes need, of these first the ones with most
 *			versions x blocks, until there is no more room for copies
 *	2. read		the frames that have no copy, or have changed since, and those of copies
 *			that should go: what is damaged there may be in any older copy
 *	3. drop		copies of other frames, but for those that have what is damaged
 *	4. copy		the frames that have no copy, or have changed since. A copy that
 *			another one replaces goes last, but for what is damaged, too
 *
 *	copy_choose	step 1
 *	copy		steps 2 to 4
 *	copy_check	scrub and repair of copies
 */
#ifndef RD_COPY_H
#define RD_COPY_H

#include "pool/data/copies.h"
#include "pool/pool.h"

struct rd_pace;

struct rd_copy_report {
	u64 frames, blocks;	/* that there are copies of in the end */
	u64 copied;		/* blocks that were written */
	u64 dropped;		/* frames whose copies went */
	u64 kept;		/* that should go, but have what is damaged in the pool */
	u64 damaged;		/* blocks of the pool that were damaged, and not copied */
};

/*
 * Bring copies up to date, with up to @max blocks. The pool is open for writing, and the copies
 * are there. -EBUSY: another command writes them, or a pass runs.
 */
int rd_copy_update(struct rd_pool *pool, u64 max, struct rd_pace *pace,
		   struct rd_copy_report *report);

/* Make the new or empty file or device @path the copies of the pool, and a link to it. -EBUSY. */
int rd_copy_make(struct rd_pool *pool, const char *path);
/*
 * Read the fingerprints of what recipes have of @frame; zeros for the rest of it, and for the
 * *@ret_lost that are lost.
 */
int rd_copy_live_fps(struct rd_pool *pool, u64 frame, struct rd_fp fps[RD_SEG_BLOCKS],
		     unsigned int *ret_lost);

/* Remove them; 0 as well where there are none. */
int rd_copy_remove(struct rd_pool *pool);

/* --- copy_choose.c */

#define RD_COPY_NOWHERE	U32_MAX

struct rd_copy_choice {
	u64 frame;		/* ordinary or packed */
	u64 live;		/* blocks */
	u32 volumes;
	u64 weight;		/* versions x blocks */
	u32 at;			/* where its copy is, for copy.c; RD_COPY_NOWHERE */
};

/* Choose frames, of @max_frames and @max blocks at most, by number. The caller frees *@ret. */
int rd_copy_choose(struct rd_pool *pool, u64 max_frames, u64 max, struct rd_copy_choice **ret,
		   size_t *ret_nr);

/* --- copy_check.c */

struct rd_copy_check {
	bool any;		/* there are copies that can be read */
	u64 blocks;
	u64 damaged;
	u64 healed;		/* of these: from the pool */
	u64 dropped;		/* of these: the pool has it no more, or not sound */
};

/* Read all copies. @heal: the pool is open for writing; what the pool has not either is dropped. */
int rd_copy_check(struct rd_pool *pool, bool heal, struct rd_copy_check *report);

#endif
