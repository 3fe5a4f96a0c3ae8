/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many volumes and versions need a frame: what its loss would hurt. Exact, from the catalog
 * alone.
 *
 * A version needs the ordinary frames in which its blocks are, and those in which packs with its
 * blocks are. Fingerprints are not counted: the content proves them.
 */
#ifndef RD_DEPENDENTS_H
#define RD_DEPENDENTS_H

#include "pool/pool.h"

struct rd_dependents {
	u32 volumes;		/* of which any version needs the frame */
	u32 versions;
};

/* Called with each ordinary frame that a version needs, in order. */
typedef int rd_dependents_fn(void *ctx, u64 frame, const struct rd_dependents *nr);

/*
 * Count, for each frame. Versions that are made or deleted meanwhile count or not; without any
 * the result is exact.
 */
int rd_dependents_count(struct rd_pool *pool, rd_dependents_fn *fn, void *ctx);

#endif
