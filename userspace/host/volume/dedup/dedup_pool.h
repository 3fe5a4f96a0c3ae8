/* SPDX-License-Identifier: GPL-2.0 */
/* Let a volume read cold blocks from the pool: see dedup_pool.c. */
#ifndef RD_DEDUP_POOL_H
#define RD_DEDUP_POOL_H

#include "dedup_run.h"

/*
 * Refuse a volume that cannot read its pool, or should not, and find out what would be gained:
 * run->report->estimate. Opens run->source.
 */
int rd_dedup_pool_check(struct rd_dedup_run *run);

int rd_dedup_pool(struct rd_dedup_run *run);

#endif
