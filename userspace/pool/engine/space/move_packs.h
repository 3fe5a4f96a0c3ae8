/* SPDX-License-Identifier: GPL-2.0 */
/* Move packs, as they are, out of frames that are to be emptied. */
#ifndef RD_MOVE_PACKS_H
#define RD_MOVE_PACKS_H

#include "pool/pool.h"

/*
 * Move the packs whose bytes are in @frames. One that is damaged stays. The caller has
 * RD_LOCK_FREE. 1: there is no room, and nothing has moved.
 */
int rd_move_packs(struct rd_pool *pool, const u64 *frames, unsigned int nr);

#endif
