/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks that no write may bring home for a while, because the base is about to discard what
 * it has of them.
 */
#ifndef DMR_HOLD_H
#define DMR_HOLD_H

#include "dmr_table.h"

struct dmr_hold {
	struct list_head list;		/* of t->holds, under t->lock */
	u64 first;			/* block */
	u64 end;
	struct bio_list waiters;
};

/* Hold blocks from @first to @end - 1. Under t->lock. */
void dmr_hold_begin(struct dmr_table *t, struct dmr_hold *hold, u64 first, u64 end);
/* Let them go, have the writes that came meanwhile go on, and wake page_wait. Under t->lock. */
void dmr_hold_end(struct dmr_table *t, struct dmr_hold *hold);
/* Find the hold of any block from @first to @last, or NULL. Under t->lock. */
struct dmr_hold *dmr_hold_find(struct dmr_table *t, u64 first, u64 last);

#endif
