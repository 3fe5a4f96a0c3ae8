/* SPDX-License-Identifier: GPL-2.0 */
/* Both superblocks are lost, and the catalog is not. */
#ifndef RD_REBUILD_SUPERS_H
#define RD_REBUILD_SUPERS_H

#include "pool/pool.h"

/*
 * Write them anew. @pool is open as RD_POOL_LOST. -EUCLEAN: the catalog is damaged,
 * or is not the one of what is there; nothing has changed then.
 */
int rd_supers_rebuild(struct rd_pool *pool);

#endif
