/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Give back what is in the queue. Only rd_free_queue() asks for it, which does the rest. The other
 * files have what comes before.
 */
#ifndef RD_FREE_H
#define RD_FREE_H

#include "pool/pool.h"

/* Set *@ret_forgot where a device is found to be gone, and its lease went. */
int rd_free_places(struct rd_pool *pool, bool *ret_forgot);

/*
 * free_packs.c. No slot of a packed frame is given back alone: a pack goes when all of its blocks
 * are lost, and is made anew without them when a quarter is. Take packed frames off the queue: what
 * their packs had is queued instead. The caller has RD_LOCK_FREE. *@ret_any: there were some.
 */
int rd_free_packs(struct rd_pool *pool, bool *ret_any);

/*
 * move_packs.c. Move the packs whose bytes are in @frames, as they are. One that is damaged stays.
 * The caller has RD_LOCK_FREE. 1: there is no room, and nothing has moved.
 */
int rd_move_packs(struct rd_pool *pool, const u64 *frames, unsigned int nr);

#endif
