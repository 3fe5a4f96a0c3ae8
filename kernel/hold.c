// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that are held. See hold.h.
 *
 * A block that is POOL or ZERO becomes BASE by a write or copy home only, and both make it
 * busy before. While it is held neither starts: remap.c and hydrate.c look for holds under
 * the same lock. Only who holds it brings it home, zeros as they are.
 *
 * No two holds have a block in common, as one would bring it home while the other's discard
 * is on its way.
 */
#include "dmr_table.h"
#include "hold.h"
#include "queue.h"

void dmr_hold_begin(struct dmr_table *t, struct dmr_hold *hold, u64 first, u64 end)
{
	lockdep_assert_held(&t->lock);
	hold->first = first;
	hold->end = end;
	bio_list_init(&hold->waiters);
	list_add(&hold->list, &t->holds);
}

void dmr_hold_end(struct dmr_table *t, struct dmr_hold *hold)
{
	lockdep_assert_held(&t->lock);
	list_del(&hold->list);
	dmr_queue_bios(t, &hold->waiters);
	wake_up_all(&t->page_wait);
}

struct dmr_hold *dmr_hold_find(struct dmr_table *t, u64 first, u64 last)
{
	struct dmr_hold *hold;

	lockdep_assert_held(&t->lock);
	list_for_each_entry(hold, &t->holds, list) {
		if (first < hold->end && last >= hold->first)
			return hold;
	}
	return NULL;
}
