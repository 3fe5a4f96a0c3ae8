/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What becomes of packs that have lost blocks. No slot of a packed frame is given back alone:
 * a pack goes when all of its blocks are lost, and is made anew without them when a quarter is.
 */
#ifndef RD_FREE_PACKS_H
#define RD_FREE_PACKS_H

#include "pool/pool.h"

/*
 * Take packed frames off the queue. What their packs had is queued instead. The caller has
 * RD_LOCK_FREE. *@ret_any: there were some.
 */
int rd_free_packs(struct rd_pool *pool, bool *ret_any);

#endif
