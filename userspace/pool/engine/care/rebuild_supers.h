/* SPDX-License-Identifier: GPL-2.0 */
/* Replace lost superblocks with the help of the catalog. */
#ifndef RD_REBUILD_SUPERS_H
#define RD_REBUILD_SUPERS_H

#include "pool/pool.h"

/*
 * Write both superblocks of @pool, which is open as RD_POOL_LOST. -EUCLEAN: the catalog is
 * damaged, or belongs to another data area; nothing has changed.
 */
int rd_supers_rebuild(struct rd_pool *pool);

#endif
