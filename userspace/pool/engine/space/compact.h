/* SPDX-License-Identifier: GPL-2.0 */
/* Move the slots in use out of sparse frames into packed ones, without gaps. */
#ifndef RD_COMPACT_H
#define RD_COMPACT_H

#include "pool/pool.h"

/* The most slots that one call moves. */
#define RD_COMPACT_SLOTS	2048

/*
 * Empty @frames, which have up to RD_COMPACT_SLOTS slots in use together. Damaged blocks
 * stay where they are. The caller has the lock RD_LOCK_FREE. 1: there is no room, and
 * nothing has moved.
 */
int rd_compact(struct rd_pool *pool, const u64 *frames, unsigned int nr);

#endif
