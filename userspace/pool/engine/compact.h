/* SPDX-License-Identifier: GPL-2.0 */
/* Move what lives in frames into packed ones, where it lies without gaps. */
#ifndef RD_COMPACT_H
#define RD_COMPACT_H

#include "pool/pool.h"

/* As many slots as are moved at a time. */
#define RD_COMPACT_SLOTS	2048

/*
 * Empty the frames @frames, which have up to RD_COMPACT_SLOTS slots in use
 * together. What was damaged stays where it is. The caller has the lock of
 * freeing. 1: there is no room for them; nothing has moved.
 */
int rd_compact(struct rd_pool *pool, const u64 *frames, unsigned int nr);

#endif
