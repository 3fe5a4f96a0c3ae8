// SPDX-License-Identifier: GPL-2.0
/*
 * First writes: the rule that no write is forgotten.
 *
 * map defers a write to a segment whose bit is not in `stable` to the worker, which
 *
 *   1. puts the bits of all that wait into `want`,
 *   2. writes the bitmap blocks that changed, and flushes,
 *   3. puts the same bits into `stable`,
 *   4. issues the writes.
 *
 * A crash between 2 and 4 leaves bits that say too much. Later writes to the
 * segment test one bit and pass.
 *
 * Outages
 * -------
 * When the metadata device fails a write, `want` stays right in memory, and the
 * worker tries again every second until all of it is stable. Until then the disk may
 * say too little. So first writes are held until the loss is recorded where it is found
 * after a crash: one superblock copy has the lost mark, or a program says that it has
 * recorded the loss (lost-noted). After HOLD_MS they pass all the same, with
 * their bits in `want` only, because a backup tool must not take the guest down. A loss
 * that is recorded nowhere by then is the gap that the documentation tells of.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/sched/mm.h>

#include "dirty.h"
#include "firstwrite.h"
#include "outage.h"
#include "queue.h"
#include "remap.h"
#include "super.h"

#define HOLD_MS		10000
#define RETRY_MS	1000

/* Refreshing one superblock copy is not urgent while the other holds the state. */
#define REFRESH_MS	60000

/* About the longest that a first write waits for other writers. */
#define GATHER_MAX_NS	(2 * NSEC_PER_MSEC)

/* Flushes between two that wait for more writers than are known. */
#define PROBE_MAX	64U

/* ------------------------------------------------------------------
 * The worker
 */

/*
 * Wait for other writers: one metadata write and flush serve all that arrive
 * together. In a closed loop of W writers the k that the last flush served come back
 * while the W - k that came during it wait. So W is known: those of the last flush
 * and those that came meanwhile. Wait until as many are here.
 *
 * Where writers and worker share a CPU the W - k may never get to show up: the
 * worker wakes when k are here, and no writer runs while it flushes. So now and then
 * it waits for twice as many, the less often the less that helps.
 *
 * Give up when no writer came for as long as a flush takes, because a flush is what
 * each of them saves. (Looking at each arrival would cost as much, so the looks become
 * rarer.) So writers that have gone for good cost the time of one flush, once, and a
 * single writer waits as long once in PROBE_MAX writes.
 */
static void gather(struct dmr_meta *meta)
{
	u64 slice = meta->flush_ns;
	u64 waited = 0;
	unsigned int seen;

	while (waited < GATHER_MAX_NS) {
		seen = READ_ONCE(meta->nr_deferred);
		if (!seen || !wait_event_hrtimeout(meta->arrived,
						   READ_ONCE(meta->requeue) ||
						   READ_ONCE(meta->nr_deferred) >=
							meta->expected,
						   ns_to_ktime(slice)) ||
		    READ_ONCE(meta->nr_deferred) == seen)
			return;
		waited += slice;
		slice *= 2;
	}
}

static void note_flush(struct dmr_meta *meta, ktime_t start, unsigned int served)
{
	s64 took = ktime_to_ns(ktime_sub(ktime_get(), start));
	unsigned int crowd = served + READ_ONCE(meta->nr_deferred);

	meta->flush_ns = clamp_t(s64, took, 1, GATHER_MAX_NS);
	if (!meta->probe_left) {
		bool helped = 4 * crowd > 5 * meta->crowd;

		meta->probe_gap = helped ? 1 : min(2 * meta->probe_gap + 1, PROBE_MAX);
		meta->probe_left = meta->probe_gap;
	}
	meta->crowd = crowd;
	meta->probe_left--;
	WRITE_ONCE(meta->expected, meta->probe_left ? crowd : 2 * crowd);
}

/* Move what map deferred to `held`, its bits into `want`. */
static unsigned int take_deferred(struct dmr_meta *meta, bool *ret_requeue)
{
	struct bio_list bios;
	unsigned int nr;
	struct bio *bio;

	spin_lock_irq(&meta->defer_lock);
	bios = meta->deferred;
	bio_list_init(&meta->deferred);
	nr = meta->nr_deferred;
	WRITE_ONCE(meta->nr_deferred, 0);
	*ret_requeue = meta->requeue;
	spin_unlock_irq(&meta->defer_lock);

	bio_list_for_each(bio, &bios) {
		u64 first = dmr_sector_seg(bio->bi_iter.bi_sector);
		u64 last = dmr_sector_seg(bio_end_sector(bio) - 1);

		dmr_dirty_set(meta, first, last - first + 1);
	}
	bio_list_merge_init(&meta->held, &bios);
	return nr;
}

static void issue_one(struct dmr_meta *meta, struct bio *bio)
{
#ifndef DMR_NO_TABLE
	if (meta->table) {
		dmr_remap_resume(meta->table, bio);
		return;
	}
#endif
	submit_bio_noacct(bio);
}

static void issue(struct dmr_meta *meta, struct bio_list *bios)
{
	struct blk_plug plug;
	struct bio *bio;

	blk_start_plug(&plug);
	while ((bio = bio_list_pop(bios)))
		issue_one(meta, bio);
	blk_finish_plug(&plug);
}

static void push_back(struct bio_list *bios)
{
	struct bio *bio;

	while ((bio = bio_list_pop(bios))) {
		bio->bi_status = BLK_STS_DM_REQUEUE;
		bio_endio(bio);
	}
}

static bool hold_is_over(struct dmr_meta *meta)
{
	return meta->outage_is_marked || meta->outage_is_noted ||
	       time_after_eq(jiffies, meta->outage_start +
				      msecs_to_jiffies(HOLD_MS));
}

/* Retry what failed, when it is time, and have the worker come back for it. */
static void retry_if_due(struct dmr_meta *meta)
{
	unsigned int ms = meta->outage ? RETRY_MS : REFRESH_MS;

	if (!meta->outage && (!meta->super_is_stale || meta->read_only))
		return;
	if (time_after_eq(jiffies, meta->next_retry)) {
		meta->next_retry = jiffies + msecs_to_jiffies(ms);
		if (meta->outage)
			dmr_dirty_retry(meta);
		else
			dmr_super_refresh(meta);
	}
	queue_delayed_work(meta->wq, &meta->work, msecs_to_jiffies(ms));
}

/* Make bits stable, and move the writes that may go to @ready. Under meta->lock. */
static void settle_held(struct dmr_meta *meta, struct bio_list *ready)
{
	ktime_t start = ktime_get();
	bool requeue;
	unsigned int served = take_deferred(meta, &requeue);

	/*
	 * A read-only table lets no writes in and mends nothing, but an outage
	 * that began before it was loaded must still end.
	 */
	if (!meta->outage && !meta->read_only)
		dmr_dirty_flush(meta);
	if (xchg(&meta->event_is_due, false))
		dmr_outage_event(meta);
	retry_if_due(meta);
	/*
	 * Push nothing back without need: when a suspend is interrupted, device-mapper
	 * requeues nothing any more, even before it calls presuspend_undo.
	 */
	if (!meta->outage || hold_is_over(meta))
		bio_list_merge_init(ready, &meta->held);
	else if (requeue && meta->ti && dm_noflush_suspending(meta->ti))
		push_back(&meta->held);
	if (served)
		note_flush(meta, start, served);
}

static void do_work(struct work_struct *work)
{
	struct dmr_meta *meta = container_of(to_delayed_work(work),
					     struct dmr_meta, work);
	unsigned int noio = memalloc_noio_save();

	do {
		struct bio_list ready = BIO_EMPTY_LIST;

		gather(meta);
		mutex_lock(&meta->lock);
		settle_held(meta, &ready);
		mutex_unlock(&meta->lock);
		issue(meta, &ready);
		cond_resched();
	} while (READ_ONCE(meta->nr_deferred));
	memalloc_noio_restore(noio);
}

void dmr_first_write_requeue(struct dmr_meta *meta, bool requeue)
{
	spin_lock_irq(&meta->defer_lock);
	WRITE_ONCE(meta->requeue, requeue);
	spin_unlock_irq(&meta->defer_lock);
	wake_up(&meta->arrived);
	dmr_queue_tracker(meta);
}

/* ------------------------------------------------------------------
 * Write zeroes that the base refused
 *
 * The base could write zeroes when the table was loaded, so those above us send
 * them; when a snapshot-origin comes under us it cannot any more. The callers
 * of a block device take that for an error, so write zeros instead. In a work
 * of its own, since it may take long and first writes must not wait for it.
 */

static void zero_one(struct bio *bio)
{
	struct dmr_io *io = dm_per_bio_data(bio, sizeof(*io));
	int r;

	r = blkdev_issue_zeroout(io->base, io->sector, io->sectors,
				 GFP_NOIO, BLKDEV_ZERO_NOUNMAP);
	if (!r && (bio->bi_opf & REQ_FUA))
		r = blkdev_issue_flush(io->base);
	/* Not BLK_STS_NOTSUPP, which would bring it here again. */
	bio->bi_status = r ? BLK_STS_IOERR : BLK_STS_OK;
	bio_endio(bio);
}

static void do_zeroes(struct work_struct *work)
{
	struct dmr_meta *meta = container_of(work, struct dmr_meta, zero_work);
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&meta->defer_lock);
	bios = meta->zeroes;
	bio_list_init(&meta->zeroes);
	spin_unlock_irq(&meta->defer_lock);

	while ((bio = bio_list_pop(&bios)))
		zero_one(bio);
}

void dmr_first_write_init(struct dmr_meta *meta)
{
	bio_list_init(&meta->held);
	spin_lock_init(&meta->defer_lock);
	bio_list_init(&meta->deferred);
	bio_list_init(&meta->zeroes);
	init_waitqueue_head(&meta->arrived);
	INIT_DELAYED_WORK(&meta->work, do_work);
	INIT_WORK(&meta->zero_work, do_zeroes);
}
