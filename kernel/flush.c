// SPDX-License-Identifier: GPL-2.0
/*
 * Flushes of the metadata device and of the base. See flush.h.
 */
#include <linux/blkdev.h>

#include "dmr_table.h"
#include "flush.h"

/* ------------------------------------------------------------------
 * The metadata device
 */

/* Fail if any flush failed since @errors was sampled, even another thread's. */
static int end_flush(struct dmr_meta *meta, unsigned int errors, int r)
{
	lockdep_assert_held(&meta->flush_lock);
	if (r)
		WRITE_ONCE(meta->flush_errors, meta->flush_errors + 1);
	else if (meta->flush_errors != errors)
		r = -EIO;
	return r;
}

int dmr_flush_buffers(struct dmr_meta *meta, unsigned int errors)
{
	int r;

	mutex_lock(&meta->flush_lock);
	r = end_flush(meta, errors, dm_bufio_write_dirty_buffers(meta->bufio));
	mutex_unlock(&meta->flush_lock);
	return r;
}

int dmr_flush_meta(struct dmr_meta *meta, unsigned int errors)
{
	int r;

	mutex_lock(&meta->flush_lock);
	r = end_flush(meta, errors, blkdev_issue_flush(meta->bdev));
	mutex_unlock(&meta->flush_lock);
	return r;
}

/* ------------------------------------------------------------------
 * The base
 */

#ifndef DMR_NO_TABLE
void dmr_flush_base_lost(struct dmr_table *t, bool at_once)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	WRITE_ONCE(t->nr_losses, t->nr_losses + 1);
	/* If no page waits for a write-back, all that came home is stable. */
	if (t->nr_dirty) {
		t->base_lost = true;
		/* A write-back that failed is retried soon enough. */
		if (at_once && !t->writeback_failed)
			mod_delayed_work(t->wq, &t->writeback_work, 0);
	}
	spin_unlock_irqrestore(&t->lock, flags);
}
#endif

/*
 * A device reports a lost cache once. If it reports it to a flush of the target, flushes
 * from above must fail, too, or writers would take their data for stable. One failure
 * is not enough: device-mapper splits a flush that comes with data from the data, and
 * ignores its error. So every flush within TELL_FOR fails, and two flushes at least.
 */
#define TELL_FOR	HZ

int dmr_flush_base(struct dmr_meta *meta, struct block_device *base)
{
	int r;

	mutex_lock(&meta->base_flush_lock);
	r = blkdev_issue_flush(base);
	/* A thin pool without room refuses a flush, and loses nothing. */
	if (r && r != -ENOSPC) {
		WRITE_ONCE(meta->tell_until, jiffies + TELL_FOR);
		atomic_set(&meta->flush_failed, 2);
#ifndef DMR_NO_TABLE
		if (meta->table)
			dmr_flush_base_lost(meta->table, false);
#endif
	}
	mutex_unlock(&meta->base_flush_lock);
	return r;
}

/* Do not consume a pending report on a bio that already failed. */
void dmr_flush_tell(struct dmr_meta *meta, blk_status_t *error)
{
	if (!*error && (atomic_dec_if_positive(&meta->flush_failed) >= 0 ||
			time_before(jiffies, READ_ONCE(meta->tell_until))))
		*error = BLK_STS_IOERR;
}
