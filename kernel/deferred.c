// SPDX-License-Identifier: GPL-2.0
/*
 * Bios that map could not send on, because a page has to be read or a block to be
 * copied home, and discards. The worker sends them on by pieces.
 */
#include <linux/blkdev.h>
#include <linux/sched/mm.h>

#include "copy.h"
#include "deferred.h"
#include "dmr_table.h"
#include "pages.h"
#include "queue.h"
#include "remap.h"
#include "units.h"
#include "watch.h"
#include "words.h"

/* ------------------------------------------------------------------
 * Pages
 */

static void page_was_read(DMR_DM_IO_ERRORS, void *context)
{
	struct dmr_page *page = context;
	struct dmr_table *t = page->table;
	unsigned long flags;

	page->load_error = DMR_DM_IO_FAILED ? -EIO : 0;
	spin_lock_irqsave(&t->lock, flags);
	list_add_tail(&page->list, &t->loaded);
	queue_work(t->wq, &t->io_work);
	spin_unlock_irqrestore(&t->lock, flags);
}

static void finish_loads(struct dmr_table *t)
{
	struct bio_list failed = BIO_EMPTY_LIST;
	struct dmr_page *page, *next;
	struct bio *bio;
	LIST_HEAD(loaded);

	spin_lock_irq(&t->lock);
	list_splice_init(&t->loaded, &loaded);
	spin_unlock_irq(&t->lock);
	list_for_each_entry_safe(page, next, &loaded, list) {
		int r = page->load_error;

		list_del_init(&page->list);
		if (r)
			DMERR_LIMIT("%s: cannot read the table's page of segment %llu: error %d",
				    dmr_name(t->meta), page->seg, r);
		else
			dmr_page_check(page);
		spin_lock_irq(&t->lock);
		dmr_page_end_load(page, r, &failed);
		spin_unlock_irq(&t->lock);
	}
	while ((bio = bio_list_pop(&failed)))
		bio_io_error(bio);
}

enum page_is {
	HERE,		/* look again */
	COMING,		/* @bio waits for it */
	NO_MEMORY,	/* for now */
	DAMAGED,
};

/* Have the page of @seg read, or made of its word if @split. */
static enum page_is want_page(struct dmr_table *t, struct bio *bio, u64 seg,
			      bool split)
{
	struct dmr_page *page = NULL;
	enum page_is is = HERE;
	u64 word;

	spin_lock_irq(&t->lock);
	word = t->words[seg];
	if (word == DMR_WORD_BASE) {
		is = HERE;
	} else if (word == DMR_WORD_BAD) {
		is = DAMAGED;
	} else if ((word & DMR_WORD_TAGS) == DMR_WORD_LOADING) {
		dmr_queue_in(&dmr_word_page(word)->waiters, bio);
		is = COMING;
	} else if (!dmr_word_is_here(word) && (split || !dmr_word_is_whole(word))) {
		page = dmr_page_take(t);
		if (!page)
			is = NO_MEMORY;
	}
	if (page && !dmr_word_is_whole(word)) {
		dmr_page_begin_load(t, page, seg);
		dmr_queue_in(&page->waiters, bio);
		is = COMING;
	}
	spin_unlock_irq(&t->lock);
	if (!page)
		return is;
	if (dmr_word_is_whole(word))
		dmr_page_split(t, page, seg, word);
	else
		dmr_page_read(page, page_was_read);
	return is;
}

/* ------------------------------------------------------------------
 * Reads and writes
 *
 * Functions that return false have found no free page: try again later.
 */

/* Split the first @sectors off @bio; returns that part, or @bio if nothing remains. */
static struct bio *cut_off(struct dmr_table *t, struct bio *bio,
			   unsigned int sectors)
{
	struct bio *part;

	if (sectors >= bio_sectors(bio))
		return bio;
	part = bio_split(bio, sectors, GFP_NOIO, &t->bios);
	bio_chain(part, bio);
	return part;
}

/* Get the page of the first block. 1: look again; 0: @bio waits or has ended; -1: no memory. */
static int have_page(struct dmr_table *t, struct bio *bio, bool split)
{
	switch (want_page(t, bio, dmr_block_seg(dmr_bio_first_block(bio)), split)) {
	case HERE:
		return 1;
	case NO_MEMORY:
		return -1;
	case DAMAGED:
		bio_io_error(bio);
		break;
	case COMING:
		break;
	}
	return 0;
}

static bool work_read(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	unsigned int len;
	struct bio *part;
	bool found;
	int r;

	do {
		rcu_read_lock();
		found = dmr_words_look_up(t, dmr_bio_first_block(bio), &place);
		len = found ? dmr_remap_run_sectors(t, bio, place) : 0;
		rcu_read_unlock();
		if (!found) {
			r = have_page(t, bio, false);
			if (r <= 0)
				return !r;
			part = NULL;
			continue;
		}
		part = cut_off(t, bio, len);
		dmr_remap_submit(part, dmr_remap_route_read(t, part, place));
	} while (part != bio);
	return true;
}

static bool work_write(struct dmr_table *t, struct bio *bio)
{
	struct dmr_pieces pieces;
	enum dmr_route route;
	int r;

	dmr_io_of(bio)->in_work = true;
	for (;;) {
		rcu_read_lock();
		route = dmr_remap_route_write(t, bio, &pieces);
		rcu_read_unlock();
		if (route != DMR_DEFER)
			break;
		if (pieces.nr) {
			dmr_copy_up(t, bio, &pieces);
			return true;
		}
		r = have_page(t, bio, true);
		if (r <= 0)
			return !r;
	}
	dmr_remap_submit(bio, route);
	return true;
}

/* ------------------------------------------------------------------
 * Discards
 */

/* Find the whole blocks of [@start, @end), as indices of @seg. */
static bool whole_blocks(struct dmr_table *t, u64 seg, sector_t start,
			 sector_t end, unsigned int *ret_first,
			 unsigned int *ret_end)
{
	sector_t seg_start = seg * DMR_SEG_SECTORS;

	if (end == t->volume_sectors)
		end = round_up(end, DMR_BLOCK_SECTORS);
	*ret_first = DIV_ROUND_UP_ULL(start - seg_start, DMR_BLOCK_SECTORS);
	*ret_end = (end - seg_start) / DMR_BLOCK_SECTORS;
	return *ret_first < *ret_end;
}

/* Make blocks in the pool ZERO, but those that are being written or copied. */
static void discard_entries(struct dmr_table *t, struct dmr_page *page,
			    unsigned int first, unsigned int end)
{
	lockdep_assert_held(&t->lock);
	for (; first < end; first++) {
		if (dmr_entry_in_pool(dmr_page_entry(page, first)) &&
		    !test_bit(first, page->busy))
			dmr_page_change(page, first, DMR_ZERO, t->io_scratch[first]);
	}
}

enum discarded {
	DONE,
	NEEDS_PAGE,
	THROTTLED,
};

/* Discard blocks [@first, @end) of @seg, of which the first is not BASE. */
static enum discarded discard_in(struct dmr_table *t, struct bio *bio, u64 seg,
				 unsigned int first, unsigned int end)
{
	static const struct dmr_entry zero = { .kind = DMR_ZERO };
	bool all = !first && end == dmr_words_blocks_in(t, seg);
	enum discarded done = DONE;
	struct dmr_page *page;
	u64 word;

	dmr_words_pack(t, seg, first, end - first, zero, t->io_scratch + first);
	spin_lock_irq(&t->lock);
	word = t->words[seg];
	page = dmr_word_page(word);
	if (dmr_word_is_plain(word))
		done = DONE;
	else if (dmr_word_is_whole(word) && all)
		dmr_word_set(t, seg, DMR_WORD_ZERO);
	else if (dmr_word_is_whole(word) || !dmr_word_is_here(word))
		done = NEEDS_PAGE;
	else if (dmr_page_is_throttled(page))
		done = THROTTLED;
	else
		discard_entries(t, page, first, end);
	if (done == THROTTLED) {
		dmr_queue_in(&t->throttled, bio);
		dmr_queue_writeback(t);
	}
	spin_unlock_irq(&t->lock);
	return done;
}

/* Count the sectors of @bio, within its first segment, that come before a BASE block. */
static unsigned int not_base_sectors(struct dmr_table *t, struct bio *bio)
{
	u64 block = dmr_bio_first_block(bio), last = dmr_bio_last_block(bio);
	sector_t start = bio->bi_iter.bi_sector;
	struct dmr_entry place;

	last = min(last, block | (DMR_SEG_BLOCKS - 1));
	while (block < last) {
		if (!dmr_words_look_up(t, block + 1, &place) ||
		    place.kind == DMR_BASE)
			break;
		block++;
	}
	return min_t(u64, (block + 1) * DMR_BLOCK_SECTORS - start,
		     bio_sectors(bio));
}

/* Discard a part whose first block is not BASE. 1: done; else as have_page(). */
static int work_discard_part(struct dmr_table *t, struct bio *bio,
			     unsigned int len)
{
	sector_t start = bio->bi_iter.bi_sector;
	u64 seg = dmr_block_seg(dmr_bio_first_block(bio));
	unsigned int first, end;
	int r;

	while (whole_blocks(t, seg, start, start + len, &first, &end)) {
		switch (discard_in(t, bio, seg, first, end)) {
		case DONE:
			return 1;
		case THROTTLED:
			return 0;
		case NEEDS_PAGE:
			r = have_page(t, bio, true);
			if (r <= 0)
				return r;
		}
	}
	return 1;
}

#ifndef DMR_NO_ALIAS
static void forget_marks(struct dmr_table *t, struct bio *bio)
{
	u64 block = dmr_bio_first_block(bio), end = dmr_bio_last_block(bio) + 1;

	while (READ_ONCE(t->nr_watches) && block < end) {
		unsigned int first = dmr_block_index(block);
		unsigned int nr = min_t(u64, end - block, DMR_SEG_BLOCKS - first);

		spin_lock_irq(&t->lock);
		dmr_watch_clear(t, dmr_block_seg(block), first, nr);
		spin_unlock_irq(&t->lock);
		block += nr;
	}
}
#endif

static bool work_discard(struct dmr_table *t, struct bio *bio)
{
	const struct dmr_block_range all = dmr_unit_whole_blocks(bio);
	struct dmr_entry place;
	unsigned int len;
	struct bio *part;
	bool found;
	int r;

#ifndef DMR_NO_ALIAS
	forget_marks(t, bio);
#endif
	do {
		part = NULL;
		rcu_read_lock();
		found = dmr_words_look_up(t, dmr_bio_first_block(bio), &place);
		if (found)
			len = place.kind == DMR_BASE ?
			      dmr_remap_run_sectors(t, bio, place) :
			      not_base_sectors(t, bio);
		rcu_read_unlock();
		r = 1;
		if (!found)
			r = have_page(t, bio, false);
		else if (place.kind != DMR_BASE)
			r = work_discard_part(t, bio, len);
		if (r <= 0)
			return !r;
		if (!found)
			continue;
		part = cut_off(t, bio, len);
		if (place.kind != DMR_BASE)
			bio_endio(part);
		else if (!dmr_unit_discard(t, part, all))
			dmr_remap_submit(part, dmr_remap_route_discard(t, part));
	} while (part != bio);
	return true;
}

/* ------------------------------------------------------------------
 * The worker
 */

static bool work_bio(struct dmr_table *t, struct bio *bio)
{
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return work_read(t, bio);
	case REQ_OP_DISCARD:
		return work_discard(t, bio);
	default:
		return work_write(t, bio);
	}
}

/*
 * End bios that would keep a suspend waiting, which waits for all bios: those that wait
 * for a write-back, or for a page that only a write-back can free, while write-backs
 * fail. They are requeued (noflush), or fail. Other pages become free by and by.
 */
static void give_up(struct dmr_table *t, struct bio_list *bios)
{
	struct dm_target *ti = READ_ONCE(t->meta->ti);
	struct bio_list lost = BIO_EMPTY_LIST;
	struct bio *bio;

	if (!READ_ONCE(t->is_paused) || !READ_ONCE(t->writeback_failed) || !ti)
		return;
	spin_lock_irq(&t->lock);
	bio_list_merge_init(&lost, &t->throttled);
	/* These need no more of it than a flush of the base. */
	if (READ_ONCE(t->base_unflushed))
		bio_list_merge_init(&lost, &t->unflushed);
	/* Nor more pages, where memory is so short: that may be freed only by this volume. */
	if (t->nr_dirty >= t->nr_pages)
		bio_list_merge_init(&lost, bios);
	spin_unlock_irq(&t->lock);
	while ((bio = bio_list_pop(&lost))) {
		bio->bi_status = dm_noflush_suspending(ti) ?
				 BLK_STS_DM_REQUEUE : BLK_STS_IOERR;
		bio_endio(bio);
	}
}

static void do_io(struct work_struct *work)
{
	struct dmr_table *t = container_of(work, struct dmr_table, io_work);
	unsigned int noio = memalloc_noio_save();
	struct bio_list bios, recopies;
	struct blk_plug plug;
	struct bio *bio;

	finish_loads(t);
	spin_lock_irq(&t->lock);
	bios = t->deferred;
	bio_list_init(&t->deferred);
	recopies = t->recopies;
	bio_list_init(&t->recopies);
	spin_unlock_irq(&t->lock);

	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&recopies)))
		dmr_copy_up_again(t, bio);
	while ((bio = bio_list_pop(&bios))) {
		if (work_bio(t, bio))
			continue;
		/* The function that frees a page queues this work again. */
		bio_list_add_head(&bios, bio);
		break;
	}
	blk_finish_plug(&plug);
	give_up(t, &bios);
	if (!bio_list_empty(&bios)) {
		spin_lock_irq(&t->lock);
		bio_list_merge_head(&t->deferred, &bios);
		/* If a page became free meanwhile, these bios were not in the queue. */
		if (!list_empty(&t->free))
			queue_work(t->wq, &t->io_work);
		queue_delayed_work(t->wq, &t->writeback_work, HZ);
		spin_unlock_irq(&t->lock);
	}
	memalloc_noio_restore(noio);
}

void dmr_deferred_init(struct dmr_table *t)
{
	bio_list_init(&t->deferred);
	bio_list_init(&t->throttled);
	bio_list_init(&t->unflushed);
	INIT_LIST_HEAD(&t->loaded);
	INIT_WORK(&t->io_work, do_io);
}
