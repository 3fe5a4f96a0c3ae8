// SPDX-License-Identifier: GPL-2.0
/*
 * What waits for a worker. See queue.h.
 */
#include <linux/bio.h>
#include <linux/blk_types.h>
#include <linux/workqueue.h>

#include "dmr_table.h"
#include "queue.h"

/* ------------------------------------------------------------------
 * First writes: the worker is in firstwrite.c
 */

void dmr_queue_tracker(struct dmr_meta *meta)
{
	mod_delayed_work(meta->wq, &meta->work, 0);
}

void dmr_queue_first_write(struct dmr_meta *meta, struct bio *bio)
{
	unsigned long flags;
	unsigned int nr;

	spin_lock_irqsave(&meta->defer_lock, flags);
	bio_list_add(&meta->deferred, bio);
	nr = meta->nr_deferred + 1;
	WRITE_ONCE(meta->nr_deferred, nr);
	spin_unlock_irqrestore(&meta->defer_lock, flags);

	if (nr == 1)
		dmr_queue_tracker(meta);
	/* Pairs with the barrier of prepare_to_wait in gather(). */
	if (nr >= READ_ONCE(meta->expected) && wq_has_sleeper(&meta->arrived))
		wake_up(&meta->arrived);
}

void dmr_queue_zeroes(struct dmr_meta *meta, struct bio *bio)
{
	unsigned long flags;

	spin_lock_irqsave(&meta->defer_lock, flags);
	bio_list_add(&meta->zeroes, bio);
	/* Under the lock: once the worker can end @bio, @meta may be freed. */
	queue_work(meta->wq, &meta->zero_work);
	spin_unlock_irqrestore(&meta->defer_lock, flags);
}

void dmr_queue_event(struct dmr_meta *meta)
{
	WRITE_ONCE(meta->event_is_due, true);
	dmr_queue_tracker(meta);
}

#ifndef DMR_NO_TABLE
/* ------------------------------------------------------------------
 * A remap table: the workers are in deferred.c and writeback.c
 */

void dmr_queue_bio(struct dmr_table *t, struct bio *bio)
{
	unsigned long flags;

	/* No submitter may poll for a bio that another thread issues. */
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	spin_lock_irqsave(&t->lock, flags);
	bio_list_add(&t->deferred, bio);
	queue_work(t->wq, &t->io_work);
	spin_unlock_irqrestore(&t->lock, flags);
}

void dmr_queue_bios(struct dmr_table *t, struct bio_list *bios)
{
	lockdep_assert_held(&t->lock);
	if (bio_list_empty(bios))
		return;
	bio_list_merge_init(&t->deferred, bios);
	queue_work(t->wq, &t->io_work);
}

void dmr_queue_in(struct bio_list *list, struct bio *bio)
{
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	bio_list_add(list, bio);
}

void dmr_queue_flush(struct dmr_table *t, struct bio *bio)
{
	unsigned long flags;

	bio->bi_opf &= ~REQ_POLLED;
	spin_lock_irqsave(&t->lock, flags);
	bio_list_add(&t->flushes, bio);
	mod_delayed_work(t->wq, &t->writeback_work, 0);
	spin_unlock_irqrestore(&t->lock, flags);
}

void dmr_queue_writeback(struct dmr_table *t)
{
	lockdep_assert_held(&t->lock);
	/* Once for each write-back. After a failure the worker retries at its own pace. */
	if (t->writeback_is_due || t->writeback_failed)
		return;
	t->writeback_is_due = true;
	mod_delayed_work(t->wq, &t->writeback_work, 0);
}
#endif
