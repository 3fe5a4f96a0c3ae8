// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of the remap table, which wait in memory, become stable.
 *
 * A write-back
 *
 *   1. takes the pages that were changed, and the home bits that are set now
 *   2. flushes the base: the data that these bits stand for is stable. If that fails,
 *      blocks that the target copied there are back at their old place
 *   3. writes the pages, with BASE for the bits taken, and flushes
 *   4. makes a word of each page that is all BASE; writes the blocks of words
 *      that have changed, and flushes
 *
 * A crash in between leaves entries that are old or new, each of them right, and no
 * word that names a page which was not written. If a step fails, all that was taken
 * waits again, FLUSH and FUA fail, and the worker retries every second; what is in
 * memory stays right.
 *
 * FLUSH and FUA writes wait for a write-back that begins after they came, since they
 * stand for changes that other writes made, too. So does a settle, which then waits
 * for all bios and copies that may have looked at the table before. When it returns,
 * neither I/O in flight, nor memory, nor the table that a crash leaves names a place
 * that was replaced.
 */
#include <linux/blkdev.h>
#include <linux/list_sort.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "dmr_table.h"
#include "flight.h"
#include "flush.h"
#include "pages.h"
#include "queue.h"
#include "super.h"
#include "words.h"
#include "writeback.h"

/* Blocks that are written at a time. */
#define NR_BOUNCE	64U

#define RETRY		HZ

/* ------------------------------------------------------------------
 * Writing blocks
 */

/* A batch of blocks on their way. */
struct batch {
	struct dmr_table *t;
	unsigned int nr;
	atomic_t pending;
	int error;
	struct completion done;
	struct blk_plug plug;
};

static void batch_put(struct batch *batch)
{
	if (atomic_dec_and_test(&batch->pending))
		complete(&batch->done);
}

static void block_was_written(DMR_DM_IO_ERRORS, void *context)
{
	struct batch *batch = context;

	if (DMR_DM_IO_FAILED)
		WRITE_ONCE(batch->error, -EIO);
	batch_put(batch);
}

static void batch_begin(struct batch *batch, struct dmr_table *t)
{
	batch->t = t;
	batch->nr = 0;
	batch->error = 0;
	atomic_set(&batch->pending, 1);
	init_completion(&batch->done);
	blk_start_plug(&batch->plug);
}

static int batch_wait(struct batch *batch)
{
	blk_finish_plug(&batch->plug);
	batch_put(batch);
	wait_for_completion_io(&batch->done);
	return batch->error;
}

/* Return room for another block; wait for the last NR_BOUNCE if there is none. */
static void *batch_next(struct batch *batch)
{
	if (batch->nr == NR_BOUNCE) {
		int r = batch_wait(batch);

		batch_begin(batch, batch->t);
		batch->error = r;
	}
	return batch->t->bounce[batch->nr];
}

static void batch_write(struct batch *batch, u64 block)
{
	struct dm_io_region where = {
		.bdev = batch->t->meta->bdev,
		.sector = block * DMR_BLOCK_SECTORS,
		.count = DMR_BLOCK_SECTORS,
	};
	struct dm_io_request req = {
		.bi_opf = REQ_OP_WRITE | REQ_META,
		.mem.type = DM_IO_KMEM,
		.mem.ptr.addr = batch->t->bounce[batch->nr++],
		.notify.fn = block_was_written,
		.notify.context = batch,
		.client = batch->t->io,
	};

	atomic_inc(&batch->pending);
	dmr_dm_io(&req, 1, &where, NULL);
}

/* ------------------------------------------------------------------
 * The steps
 */

static bool has_changes(struct dmr_page *page)
{
	return page->changed || !bitmap_empty(page->home, DMR_SEG_BLOCKS);
}

/* Make a page clean that was dirty or being written. */
static void page_set_clean(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	page->state = DMR_PAGE_CLEAN;
	list_move_tail(&page->list, &t->clean);
	WRITE_ONCE(t->nr_dirty, t->nr_dirty - 1);
}

/* Step 1: take the changes, and the flushes that wait for them. */
static void take_changes(struct dmr_table *t, struct list_head *pages,
			 struct bio_list *flushes)
{
	u64 nr = DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS);
	struct dmr_page *page, *next;

	spin_lock_irq(&t->lock);
	t->writeback_is_due = false;
	list_for_each_entry_safe(page, next, &t->dirty, list) {
		if (!has_changes(page)) {
			if (!page->nr_pins)
				page_set_clean(page);
			continue;
		}
		page->state = DMR_PAGE_WRITING;
		page->changed = false;
		bitmap_copy(page->taken, page->home, DMR_SEG_BLOCKS);
		list_move_tail(&page->list, pages);
	}
	/* Flushes have to wait until the words of new pages are written, too. */
	if (!list_empty(pages))
		WRITE_ONCE(t->words_wait, true);
	bitmap_copy(t->words_taken, t->words_dirty, nr);
	bitmap_zero(t->words_dirty, nr);
	bio_list_merge_init(flushes, &t->flushes);
	spin_unlock_irq(&t->lock);
}

static int flush_base(struct dmr_table *t)
{
	return t->base ? dmr_flush_base(t->meta, t->base) : 0;
}

/*
 * Take back all copies home since the last flush of the base, which may be lost. The
 * writers above learn of their own data, but know nothing of these copies: the blocks
 * are at their old place again, and are copied once more.
 */
static void take_back(struct dmr_table *t, struct list_head *pages)
{
	struct dmr_page *page;
	unsigned int i, nr = 0;

	spin_lock_irq(&t->lock);
	write_seqcount_begin(&t->losses);
	list_for_each_entry(page, pages, list)
		nr += dmr_page_take_back(page);
	list_for_each_entry(page, &t->dirty, list)
		nr += dmr_page_take_back(page);
	write_seqcount_end(&t->losses);
	for (i = 0; i < DMR_MAX_COPIES; i++)
		t->copies[i].lost = true;
	/* Have hydration pause before it copies them again. */
	if (nr) {
		t->hydrate_errors++;
		/* Reads that saw them at home are in flight. */
		t->base_is_unsettled = true;
	}
	t->base_lost = false;
	spin_unlock_irq(&t->lock);
	if (nr)
		DMERR_LIMIT("%s: a flush of the base device failed: %u blocks that were copied there will be copied again",
			    dmr_name(t->meta), nr);
}

/* Make the entries BASE whose data is stable on the base. */
static void apply_taken(struct dmr_page *page)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };
	unsigned int i;
	__le64 packed;

	for_each_set_bit(i, page->taken, DMR_SEG_BLOCKS) {
		dmr_words_pack(page->table, page->seg, i, 1, base, &packed);
		spin_lock_irq(&page->table->lock);
		/* Skip a block that `alias` has changed since. */
		if (test_bit(i, page->taken)) {
			WRITE_ONCE(page->entries[i], packed);
			__clear_bit(i, page->copied);
		}
		spin_unlock_irq(&page->table->lock);
	}
}

/* Copy entry by entry: each may change meanwhile, and a mix of old and new is not right. */
static void copy_entries(__le64 *to, const __le64 *from)
{
	unsigned int i;

	for (i = 0; i < DMR_SEG_BLOCKS; i++)
		to[i] = READ_ONCE(from[i]);
}

static int seg_cmp(void *priv, const struct list_head *a, const struct list_head *b)
{
	u64 seg_a = list_entry(a, struct dmr_page, list)->seg;
	u64 seg_b = list_entry(b, struct dmr_page, list)->seg;

	return seg_a < seg_b ? -1 : seg_a > seg_b;
}

/* Step 3: write and flush the pages. */
static int write_pages(struct dmr_table *t, struct list_head *pages)
{
	unsigned int errors = dmr_flush_errors(t->meta);
	struct dmr_page *page;
	struct batch batch;
	int r;

	if (list_empty(pages))
		return 0;
	list_sort(NULL, pages, seg_cmp);
	batch_begin(&batch, t);
	list_for_each_entry(page, pages, list) {
		__le64 *to = batch_next(&batch);

		apply_taken(page);
		copy_entries(to, page->entries);
		batch_write(&batch, dmr_page_block(page->seg));
	}
	r = batch_wait(&batch);
	return r ? r : dmr_flush_meta(t->meta, errors);
}

/* Note that @page was written; if it is all BASE, make a word of it. Under t->lock. */
static void page_set_written(struct dmr_page *page)
{
	struct dmr_table *t = page->table;
	u64 word_block = page->seg / DMR_SEG_BLOCKS;

	/* Pairs with the barrier in dmr_page_entry(): entries are there before. */
	smp_wmb();
	bitmap_andnot(page->home, page->home, page->taken, DMR_SEG_BLOCKS);
	bitmap_zero(page->taken, DMR_SEG_BLOCKS);
	if (!page->on_disk)
		__set_bit(word_block, t->words_taken);
	else
		__set_bit(word_block, t->hints_stale);
	page->on_disk = true;

	if (page->nr_base == DMR_SEG_BLOCKS && !has_changes(page) &&
	    !page->nr_pins) {
		dmr_page_replace(page, DMR_WORD_BASE);
		__set_bit(word_block, t->words_taken);
	} else if (has_changes(page) || page->nr_pins) {
		page->state = DMR_PAGE_DIRTY;
		list_move_tail(&page->list, &t->dirty);
	} else {
		page_set_clean(page);
	}
}

static void set_pages_written(struct dmr_table *t, struct list_head *pages)
{
	struct dmr_page *page, *next;

	spin_lock_irq(&t->lock);
	list_for_each_entry_safe(page, next, pages, list)
		page_set_written(page);
	/* Step 4 writes the words of pages that became BASE. */
	bitmap_andnot(t->words_dirty, t->words_dirty, t->words_taken,
		      DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS));
	spin_unlock_irq(&t->lock);
}

/* No entry has all bits set before it is packed. */
#define DAMAGED		U64_MAX

/* Return what the word of @seg has to be on disk now, not packed. Under t->lock. */
static u64 disk_word(struct dmr_table *t, u64 seg)
{
	u64 word = t->words[seg];
	struct dmr_page *page;

	if (word == DMR_WORD_BAD)
		return DAMAGED;
	if (dmr_word_is_here(word) && !dmr_word_page(word)->on_disk)
		word = dmr_word_page(word)->disk_word;
	if (dmr_word_is_whole(word))
		return dmr_entry_value(true, dmr_word_place(word));
	if ((word & DMR_WORD_TAGS) == DMR_WORD_AWAY)
		return word >> 4 << 2;
	page = dmr_word_page(word);
	return dmr_page_hints(page->nr_base, page->nr_zero) << 2;
}

static void pack_words(struct dmr_table *t, u64 word_block, __le64 *to)
{
	u64 first = word_block * DMR_SEG_BLOCKS;
	unsigned int nr = min_t(u64, t->nr_segs - first, DMR_SEG_BLOCKS);
	unsigned int i;

	memset(to, 0, DMR_BLOCK_SIZE);
	spin_lock_irq(&t->lock);
	for (i = 0; i < nr; i++)
		to[i] = cpu_to_le64(disk_word(t, first + i));
	__clear_bit(word_block, t->hints_stale);
	spin_unlock_irq(&t->lock);

	for (i = 0; i < nr; i++) {
		u64 word = le64_to_cpu(to[i]);

		/* A damaged word stays invalid. */
		to[i] = word == DAMAGED ? 0 :
			cpu_to_le64(dmr_entry_pack(t->seed, true, first + i,
						   dmr_entry_body(true, word)));
	}
}

/* Step 4: write and flush the words. */
static int write_words(struct dmr_table *t)
{
	u64 nr = DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS);
	unsigned int errors = dmr_flush_errors(t->meta);
	struct batch batch;
	unsigned long i;
	int r;

	if (bitmap_empty(t->words_taken, nr))
		return 0;
	batch_begin(&batch, t);
	for_each_set_bit(i, t->words_taken, nr) {
		pack_words(t, i, batch_next(&batch));
		batch_write(&batch, dmr_word_block(i * DMR_SEG_BLOCKS));
	}
	r = batch_wait(&batch);
	return r ? r : dmr_flush_meta(t->meta, errors);
}

/* Run steps 2 to 4. Flush the base even if no entry waits: a suspend counts on it. */
static int run_steps(struct dmr_table *t, struct list_head *pages)
{
	int r;

	/* Changes from before the device became read-only cannot be written. */
	if (t->meta->read_only)
		return dmr_table_waits(t) ? -EROFS : 0;

	r = flush_base(t);
	WRITE_ONCE(t->base_unflushed, r);
	/* The base reports a lost cache once, maybe to a flush from above: ours succeeds then. */
	if (READ_ONCE(t->base_lost))
		take_back(t, pages);
	if (!r)
		r = write_pages(t, pages);
	if (r)
		return r;
	set_pages_written(t, pages);
	INIT_LIST_HEAD(pages);
	return write_words(t);
}

/* ------------------------------------------------------------------
 * Success and failure
 */

/* Have all that was taken, and is not stable, wait again. */
static void put_back(struct dmr_table *t, struct list_head *pages)
{
	u64 nr = DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS);
	struct dmr_page *page, *next;

	spin_lock_irq(&t->lock);
	list_for_each_entry_safe(page, next, pages, list) {
		page->state = DMR_PAGE_DIRTY;
		page->changed = true;
		bitmap_zero(page->taken, DMR_SEG_BLOCKS);
		list_move_tail(&page->list, &t->dirty);
	}
	bitmap_or(t->words_dirty, t->words_dirty, t->words_taken, nr);
	spin_unlock_irq(&t->lock);
}

static void note_result(struct dmr_table *t, int r)
{
	if (r && !t->writeback_failed)
		DMERR("%s: cannot write the remap table: error %d; flushes fail until it can be written",
		      dmr_name(t->meta), r);
	else if (!r && t->writeback_failed)
		DMINFO("%s: the remap table can be written again, no change of it was lost",
		       dmr_name(t->meta));
	if (!!r != t->writeback_failed) {
		WRITE_ONCE(t->writeback_failed, r);
		dmr_queue_event(t->meta);
	}
}

/*
 * End a write-back with result @r: let go what waited for it, see to what came meanwhile.
 * @lost: the base has lost its cache, so the flushes must fail.
 */
static void end_writeback(struct dmr_table *t, struct bio_list *flushes, int r, bool lost)
{
	u64 nr = DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS);
	struct bio *bio;

	spin_lock_irq(&t->lock);
	bitmap_zero(t->words_taken, nr);
	WRITE_ONCE(t->words_wait, !bitmap_empty(t->words_dirty, nr));
	if (!r || t->is_paused)
		dmr_queue_bios(t, &t->throttled);
	/* The copies were flushed, even if the write-back failed later, or taken back. */
	dmr_queue_bios(t, &t->unflushed);
	if (!bio_list_empty(&t->deferred))
		queue_work(t->wq, &t->io_work);
	/* Retry even if nothing waits, so that the mode is `rw` once it succeeds. */
	if (r || dmr_table_waits(t))
		queue_delayed_work(t->wq, &t->writeback_work, RETRY);
	wake_up_all(&t->page_wait);
	spin_unlock_irq(&t->lock);

	while ((bio = bio_list_pop(flushes))) {
		bio->bi_status = r || lost ? BLK_STS_IOERR : BLK_STS_OK;
		bio_endio(bio);
	}
}

int dmr_writeback(struct dmr_table *t)
{
	struct bio_list flushes = BIO_EMPTY_LIST;
	unsigned int noio = memalloc_noio_save();
	unsigned int losses;
	LIST_HEAD(pages);
	int r;

	mutex_lock(&t->writeback_lock);
	losses = raw_seqcount_begin(&t->losses);
	take_changes(t, &pages, &flushes);
	r = run_steps(t, &pages);
	note_result(t, r);
	if (r)
		put_back(t, &pages);
	end_writeback(t, &flushes, r, read_seqcount_retry(&t->losses, losses));
	mutex_unlock(&t->writeback_lock);
	memalloc_noio_restore(noio);
	return r;
}

/* ------------------------------------------------------------------
 * A linear table
 */

bool dmr_writeback_is_linear(struct dmr_table *t)
{
	bool is;

	spin_lock_irq(&t->lock);
	is = !t->nr[DMR_ZERO] && !t->nr[DMR_POOL] && !dmr_table_waits(t);
#ifndef DMR_NO_ALIAS
	is &= !t->is_aliasing;
#endif
	spin_unlock_irq(&t->lock);
	return is;
}

int dmr_writeback_leave_linear(struct dmr_table *t, u32 flags)
{
	struct dmr_meta *meta = t->meta;
	struct dmr_super super = meta->super;
	int r = 0;

	lockdep_assert_held(&meta->lock);
	if (super.flags & DMR_FLAG_LINEAR_OK) {
		spin_lock_irq(&t->lock);
		bitmap_set(t->words_dirty, 0, DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS));
		dmr_word_mark_dirty(t, 0);
		spin_unlock_irq(&t->lock);
		r = dmr_writeback(t);
		super.flags &= ~(DMR_FLAG_LINEAR_OK | DMR_FLAG_NO_POOL);
		if (!t->pool)
			super.flags |= DMR_FLAG_NO_POOL;
	}
	super.flags |= flags;
	/* A write that failed may have left other flags on disk than in memory. */
	if (!r && (super.flags != meta->super.flags || meta->super_is_stale))
		r = dmr_super_write(meta, &super);
	return r;
}

void dmr_writeback_note_linear(struct dmr_table *t)
{
	struct dmr_meta *meta = t->meta;
	struct dmr_super super = meta->super;

	lockdep_assert_held(&meta->lock);
	if ((super.flags & (DMR_FLAG_LINEAR_OK | DMR_FLAG_INCOMPLETE)) ||
	    meta->read_only || !dmr_writeback_is_linear(t))
		return;
	super.flags |= DMR_FLAG_LINEAR_OK;
	super.flags &= ~(DMR_FLAG_HYDRATE | DMR_FLAG_NO_POOL);
	super.incompat &= ~DMR_INCOMPAT_PACK;
	if (dmr_super_write(meta, &super))
		return;
	DMINFO("%s: all blocks are on the base device", dmr_name(meta));
	dmr_queue_event(t->meta);
}

/*
 * Record that all is home, and a linear table over the base the same device. If another
 * thread has meta->lock it may be about to change that: try again later.
 */
static void try_note_linear(struct dmr_table *t)
{
	struct dmr_meta *meta = t->meta;

	if ((READ_ONCE(meta->super.flags) & DMR_FLAG_LINEAR_OK) ||
	    !dmr_writeback_is_linear(t))
		return;
	if (!mutex_trylock(&meta->lock)) {
		mod_delayed_work(t->wq, &t->writeback_work, RETRY);
		return;
	}
	dmr_writeback_note_linear(t);
	mutex_unlock(&meta->lock);
}

/* ------------------------------------------------------------------
 * Settle
 */

void dmr_writeback_begin_settle(struct dmr_table *t)
{
	lockdep_assert_held(&t->meta->message_lock);
	t->losses_before = raw_seqcount_begin(&t->losses);
}

static u64 count_changes(struct dmr_table *t)
{
	u64 nr;

	spin_lock_irq(&t->lock);
	nr = t->nr_changes;
	spin_unlock_irq(&t->lock);
	return nr;
}

int dmr_writeback_settle(struct dmr_table *t)
{
	u64 nr_changes = count_changes(t);
	int r = dmr_writeback(t);

	lockdep_assert_held(&t->meta->message_lock);
	/* A block that was home may be back at a place that this message replaces. */
	if (!r && read_seqcount_retry(&t->losses, t->losses_before))
		r = -EIO;
	if (!r)
		r = dmr_flight_drain(t);
	if (!r) {
		spin_lock_irq(&t->lock);
		/* Unless blocks were taken back since. */
		if (!read_seqcount_retry(&t->losses, t->losses_before))
			t->base_is_unsettled = false;
		t->nr_settled = nr_changes;
		spin_unlock_irq(&t->lock);
	}
	return r;
}

int dmr_writeback_settle_changes(struct dmr_table *t)
{
	return count_changes(t) == t->nr_settled ? 0 : dmr_writeback_settle(t);
}

/* ------------------------------------------------------------------
 * Life
 */

static void do_writeback(struct work_struct *work)
{
	struct dmr_table *t = container_of(to_delayed_work(work),
					   struct dmr_table, writeback_work);

	if (!dmr_writeback(t))
		try_note_linear(t);
}

void dmr_writeback_init(struct dmr_table *t)
{
	bio_list_init(&t->flushes);
	INIT_DELAYED_WORK(&t->writeback_work, do_writeback);
}

int dmr_writeback_alloc(struct dmr_table *t)
{
	unsigned int i;

	t->bounce = kcalloc(NR_BOUNCE, sizeof(*t->bounce), GFP_KERNEL);
	if (!t->bounce)
		return -ENOMEM;
	for (i = 0; i < NR_BOUNCE; i++) {
		t->bounce[i] = kmalloc(DMR_BLOCK_SIZE, GFP_KERNEL);
		if (!t->bounce[i])
			return -ENOMEM;
	}
	return 0;
}

void dmr_writeback_exit(struct dmr_table *t)
{
	unsigned int i;

	for (i = 0; t->bounce && i < NR_BOUNCE; i++)
		kfree(t->bounce[i]);
	kfree(t->bounce);
}
