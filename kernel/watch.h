/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks of the messages watch and alias: a write to a marked block clears its mark. In the
 * drawing of dmr_table.h watch.c stands beside pages.c, alias.c and shed.c beside edit.c.
 */
#ifndef DMR_WATCH_H
#define DMR_WATCH_H

#include "dmr_table.h"

/*
 * Is a segment from @first to @last watched? If not, the caller sees the entries that were
 * changed before the last watch there went. In an RCU read-side critical section.
 */
static inline bool dmr_watch_has(struct dmr_table *t, u64 first, u64 last)
{
	unsigned long seg = first;
	bool has;

	/* Pairs with drop_watch(). */
	if (likely(!smp_load_acquire(&t->nr_watches)))
		return false;
	has = xa_find(&t->watches, &seg, last, XA_PRESENT);
	/* Pairs with drop_watch(), too. */
	smp_rmb();
	return has;
}

/* Clear the marks of these blocks. Under t->lock. */
void dmr_watch_clear(struct dmr_table *t, u64 seg, unsigned int first,
		     unsigned int nr);
/* Stop watching @seg if @watch, which may be NULL, has no mark. Under t->lock. */
void dmr_watch_drop_if_empty(struct dmr_table *t, u64 seg, struct dmr_watch *watch);
/* Have a place for the marks of @seg: 0 or -errno. Sleeps, under message_lock. */
int dmr_watch_add(struct dmr_table *t, u64 seg);
/* Stop watching: no marks are left, and no token. Sleeps, under message_lock. */
void dmr_watch_drop_all(struct dmr_table *t);

#endif
