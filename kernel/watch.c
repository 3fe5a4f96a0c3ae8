// SPDX-License-Identifier: GPL-2.0
/*
 * Marks of the messages watch and alias. See alias.c for their use.
 */
#include <linux/slab.h>

#include "dmr_table.h"
#include "watch.h"

void dmr_watch_clear(struct dmr_table *t, u64 seg, unsigned int first,
		     unsigned int nr)
{
	struct dmr_watch *watch = xa_load(&t->watches, seg);

	lockdep_assert_held(&t->lock);
	if (watch)
		bitmap_clear(watch->marks, first, nr);
}

static void drop_watch(struct dmr_table *t, u64 seg)
{
	lockdep_assert_held(&t->lock);
	/* Pairs with dmr_watch_has(), which does not look into the watch. */
	smp_wmb();
	kfree(xa_erase(&t->watches, seg));
	/* Pairs with it, too. */
	smp_store_release(&t->nr_watches, t->nr_watches - 1);
}

void dmr_watch_drop_if_empty(struct dmr_table *t, u64 seg, struct dmr_watch *watch)
{
	if (watch && bitmap_empty(watch->marks, DMR_SEG_BLOCKS))
		drop_watch(t, seg);
}

void dmr_watch_drop_all(struct dmr_table *t)
{
	struct dmr_watch *watch;
	unsigned long seg;

	xa_for_each(&t->watches, seg, watch) {
		spin_lock_irq(&t->lock);
		drop_watch(t, seg);
		spin_unlock_irq(&t->lock);
	}
	t->watch_token = 0;
}

int dmr_watch_add(struct dmr_table *t, u64 seg)
{
	struct dmr_watch *watch;
	int r;

	if (xa_load(&t->watches, seg))
		return 0;
	if (t->nr_watches >= DMR_MAX_WATCHES) {
		DMERR("%s: watch: no more than %u segments at a time",
		      dmr_name(t->meta), DMR_MAX_WATCHES);
		return -ENOSPC;
	}
	watch = kzalloc(sizeof(*watch), GFP_KERNEL);
	if (!watch)
		return -ENOMEM;
	r = xa_err(xa_store_irq(&t->watches, seg, watch, GFP_KERNEL));
	if (r) {
		kfree(watch);
		return r;
	}
	WRITE_ONCE(t->nr_watches, t->nr_watches + 1);
	return 0;
}
