/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Store all that a pool has in another way: what is raw as packs, or what is packed raw. It can
 * be stopped at any time, and goes on from where it was: what was converted stays so.
 */
#ifndef RD_RECOMPRESS_H
#define RD_RECOMPRESS_H

#include "pool/pool.h"

struct rd_recompress_report {
	u64 bytes_before, bytes_after;	/* that content takes, with fingerprints of packs */
};

/*
 * What is new is stored in that way as well, from the beginning on. Packs of another level stay
 * as they are. -ENOSPC, after a message: the pool is full.
 */
int rd_recompress(struct rd_pool *pool, struct rd_compression compression,
		  struct rd_recompress_report *report);

#endif
