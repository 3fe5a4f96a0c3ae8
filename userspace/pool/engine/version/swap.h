/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Let newest recipes take the places that they refer to.
 *
 *	before	newest R: REF O, REF O, own		after	R: own, own, own
 *		O, superseded: own, own, own			O: REF R, REF R, own
 *
 * A snapshot stores of a changed segment only what changed, and refers to the recipe of the
 * version before for the rest. When no newest version names that one any more, the two change
 * roles in the catalog: no data moves, what was written once passes from newest version to
 * newest version, and an old one refers to the newest as ever.
 *
 * A transaction changes some recipes, and is done for good. After a crash the rest is still in
 * the table superseded, and newest recipes refer to it, which reads right.
 */
#ifndef RD_SWAP_H
#define RD_SWAP_H

#include "pool/pool.h"

/* Do so for all that newest recipes refer to in what @volume has superseded. */
int rd_swap_superseded(struct rd_pool *pool, i64 volume);

#endif
