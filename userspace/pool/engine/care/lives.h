/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which versions see which blocks: all rows of all volumes, once each, for those who count
 * (dependents.h, holders.h).
 *
 * Versions are numbered through all volumes, from 1 on: volumes in the order of their names, then
 * versions in the order of theirs. Volumes come in that order, and the rows of a volume from the
 * last to the first, so the intervals of versions that see them have falling ends: who keeps the
 * lowest start of what was counted knows what the next interval adds. And a recipe comes behind
 * the younger ones that it refers to, which the resolver remembers.
 */
#ifndef RD_LIVES_H
#define RD_LIVES_H

#include "pool/data/map.h"
#include "pool/pool.h"

/* The versions @from up to @end, not @end itself, have the blocks of @map in a segment. */
struct rd_live_row {
	struct rd_map map;	/* resolved: OWN or ZERO */
	u32 base;		/* the first version of the volume */
	u32 from, end;
};

typedef int rd_live_row_fn(void *ctx, const struct rd_live_row *life);

/*
 * Call @fn with each, in a transaction for each volume, unless the caller has begun one. Versions
 * that are made or deleted meanwhile count or not.
 */
int rd_lives(struct rd_pool *pool, rd_live_row_fn *fn, void *ctx);

#endif
