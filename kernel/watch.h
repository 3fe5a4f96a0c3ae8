/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks of the messages watch and alias: a write to a marked block clears its mark.
 */
#ifndef DMR_WATCH_H
#define DMR_WATCH_H

#include "dmr_table.h"

/* Is any segment watched? Anywhere. */
static inline bool dmr_watch_is_on(struct dmr_table *t)
{
	/* Pairs with drop_watch(): entries are new before there is no watch. */
	return smp_load_acquire(&t->nr_watches);
}

/* Clear the marks of these blocks. Under t->lock. */
void dmr_watch_clear(struct dmr_table *t, u64 seg, unsigned int first,
		     unsigned int nr);
/* Stop watching @seg if @watch, which may be NULL, has no mark. Under t->lock. */
void dmr_watch_drop_if_empty(struct dmr_table *t, u64 seg, struct dmr_watch *watch);
/* Have a place for the marks of @seg: 0 or -errno. Sleeps, under message_lock. */
int dmr_watch_add(struct dmr_table *t, u64 seg);
/* Stop watching. Sleeps. */
void dmr_watch_drop_all(struct dmr_table *t);

#endif
