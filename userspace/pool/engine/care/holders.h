/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What sets of versions hold: how many bytes of the pool are blocks that exactly these versions
 * have. So any choice of versions to delete frees what those sets hold of which it leaves none.
 *
 * Exact, from the catalog alone, up to RD_HOLDERS_FRAMES frames; a larger pool is counted by a
 * sample of as many. A block in a pack counts with its part of the pack: a pack that loses some
 * of its blocks is made anew, and what that frees is presumably in proportion.
 */
#ifndef RD_HOLDERS_H
#define RD_HOLDERS_H

#include "base/buffer.h"
#include "pool/pool.h"

#ifdef RD_TEST
#define RD_HOLDERS_FRAMES	16U
#else
#define RD_HOLDERS_FRAMES	(16U << 10)	/* 64 MiB of memory, for 32 GiB */
#endif

/*
 * A set: the versions @from up to @end, not @end itself, and those of the set @rest, which has a
 * lower number and only versions of before. Versions are numbered as in lives.h. Number 0 is the
 * empty set.
 */
struct rd_held {
	u32 rest, from, end;
	u64 bytes;		/* that exactly this set has */
};

struct rd_holders {
	struct rd_buffer sets;		/* struct rd_held each */
	unsigned int every;		/* one of so many frames was looked at; 1: all */
	u64 bytes;			/* of all sets */
};

/* -E2BIG, without a message: there are more sets than fit into memory. */
int rd_holders_count(struct rd_pool *pool, struct rd_holders *ret);
void rd_holders_free(struct rd_holders *holders);

#endif
