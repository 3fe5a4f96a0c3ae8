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
 * catalog of its own, called @old, or "" where nothing of it can be read; and frames that
 * it names and that nobody has are kept, too. -EUCLEAN: the catalog is damaged, and
 * nothing has changed.
 */
int rd_adopt_catalog(struct rd_pool *pool, char old[RD_REBUILD_OLD]);

/*
 * All that the catalog names has been read, and is there: the other state is not needed
 * any more, and what is kept for it is given back.
 */
int rd_adopt_finish(struct rd_pool *pool);

#endif
