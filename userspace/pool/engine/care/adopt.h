/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Continue from the catalog where the data area is not of one life with it. rebuild.h
 * does the opposite: it continues from the data area.
 */
#ifndef RD_ADOPT_H
#define RD_ADOPT_H

#include "pool/engine/journal/rebuild.h"

/*
 * Make the data area follow the catalog. @pool is open as RD_POOL_APART. The state that
 * the journal in the data area describes is kept: as a catalog of its own, called @old (""
 * if nothing of it can be read), and in frames that only this state uses. -EUCLEAN: the
 * catalog is damaged, and nothing has changed.
 */
int rd_adopt_catalog(struct rd_pool *pool, char old[RD_REBUILD_OLD]);

/*
 * Free the frames that are kept for the other state. The caller has read everything that
 * the catalog names, and found it sound: the other state is not needed any more.
 */
int rd_adopt_finish(struct rd_pool *pool);

#endif
