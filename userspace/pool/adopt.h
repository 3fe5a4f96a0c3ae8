/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Go on from the catalog, where the data area is not of one life with it: the other way
 * round than rebuild.h.
 */
#ifndef RD_ADOPT_H
#define RD_ADOPT_H

#include "rebuild.h"

/*
 * @pool is open as RD_POOL_APART. What the journal in the data area says is kept as a
 * catalog of its own, called @old, or "" where nothing of it can be read. -EUCLEAN: the
 * catalog is damaged, and nothing has changed.
 */
int rd_adopt_catalog(struct rd_pool *pool, char old[RD_REBUILD_OLD]);

/*
 * All that the catalog names has been read, and is there: give back what only the other
 * state of the pool had, which @old could be read with until now.
 */
int rd_adopt_finish(struct rd_pool *pool);

#endif
