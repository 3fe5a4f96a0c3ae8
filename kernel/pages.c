// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of the remap table: a bounded cache.
 *
 * A page whose segment is mapped otherwise, or that is evicted, is given back behind
 * an RCU grace period, so map looks into pages without locks. Then the bios and
 * threads that wait for a free page are woken.
 */
#include <linux/bitmap.h>
#include <linux/log2.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "dmr_table.h"
#include "pages.h"
#include "queue.h"
#include "watch.h"
#include "words.h"

/* Pages that the clock looks at; in the second half it takes one that was in use lately, too. */
#define CLOCK_MAX	128U

/* Evict at most so many pages for one that is taken. */
#define PUTS_MAX	32U

/* ------------------------------------------------------------------
 * Taking and giving back
 */

static u64 page_hints(struct dmr_page *page)
{
	return dmr_page_hints(page->nr_base, page->nr_zero);
}

static struct dmr_page *new_page(struct dmr_table *t, gfp_t gfp)
{
	/* kmalloc aligns a power of two to itself: words have tags in the low bits. */
	size_t size = roundup_pow_of_two(sizeof(struct dmr_page));
	struct dmr_page *page = kzalloc(size, gfp);

	BUILD_BUG_ON(roundup_pow_of_two(sizeof(struct dmr_page)) <= DMR_WORD_TAGS);
	if (!page)
		return NULL;
	/* Not a page of memory, which can be 64 KiB: cache_mib counts 4 KiB. */
	page->entries = kmalloc(DMR_BLOCK_SIZE, gfp);
	if (!page->entries) {
		kfree(page);
		return NULL;
	}
	page->table = t;
	bio_list_init(&page->waiters);
	INIT_LIST_HEAD(&page->list);
	t->nr_pages++;
	return page;
}

int dmr_pages_alloc(struct dmr_table *t)
{
	while (t->nr_pages < min(DMR_MIN_PAGES, t->max_pages)) {
		struct dmr_page *page = new_page(t, GFP_KERNEL);

		if (!page)
			return -ENOMEM;
		list_add(&page->list, &t->free);
		t->nr_spare++;
	}
	return 0;
}

void dmr_page_free(struct dmr_page *page)
{
	kfree(page->entries);
	kfree(page);
}

static void end_grace(struct rcu_head *rcu)
{
	struct dmr_page *page = container_of(rcu, struct dmr_page, rcu);
	struct dmr_table *t = page->table;
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	list_add(&page->list, &t->free);
	if (!bio_list_empty(&t->deferred))
		queue_work(t->wq, &t->io_work);
	wake_up_all(&t->page_wait);
	spin_unlock_irqrestore(&t->lock, flags);
}

void dmr_page_retire(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	lockdep_assert_held(&t->lock);
	if (page->state == DMR_PAGE_DIRTY || page->state == DMR_PAGE_WRITING)
		WRITE_ONCE(t->nr_dirty, t->nr_dirty - 1);
	list_del_init(&page->list);
	page->state = DMR_PAGE_FREE;
	t->nr_spare++;
	dmr_queue_bios(t, &page->waiters);
	call_rcu(&page->rcu, end_grace);
}

void dmr_page_replace(struct dmr_page *page, u64 word)
{
	struct dmr_table *t = page->table;

	dmr_word_set(t, page->seg, word);
	dmr_page_retire(page);
}

static bool evict_page(struct dmr_table *t)
{
	unsigned int looks = CLOCK_MAX;
	struct dmr_page *page, *next;

	list_for_each_entry_safe(page, next, &t->clean, list) {
		if (!page->nr_pins && bio_list_empty(&page->waiters) &&
		    (!READ_ONCE(page->referenced) || looks < CLOCK_MAX / 2)) {
			u64 word = page->on_disk ?
				   page_hints(page) << 4 | DMR_WORD_AWAY :
				   page->disk_word;

			/* The entries stay the same, so no count changes. */
			dmr_word_store(t, page->seg, word);
			dmr_page_retire(page);
			return true;
		}
		WRITE_ONCE(page->referenced, false);
		list_move_tail(&page->list, &t->clean);
		if (!--looks)
			break;
	}
	return false;
}

struct dmr_page *dmr_page_take(struct dmr_table *t)
{
	struct dmr_page *page;
	unsigned int puts;

	lockdep_assert_held(&t->lock);
	page = list_first_entry_or_null(&t->free, struct dmr_page, list);
	if (page) {
		list_del_init(&page->list);
		t->nr_spare--;
	} else if (t->nr_pages < t->max_pages) {
		page = new_page(t, GFP_NOWAIT | __GFP_NOWARN);
	}
	/* Evict ahead of demand: a page is free only after a grace period. */
	for (puts = 0; puts < PUTS_MAX && t->nr_spare < t->max_pages / 16 + 1 &&
	     (!page || t->nr_pages >= t->max_pages); puts++) {
		if (!evict_page(t)) {
			if (!t->nr_spare)
				dmr_queue_writeback(t);
			break;
		}
	}
	if (page) {
		bitmap_zero(page->home, DMR_SEG_BLOCKS);
		bitmap_zero(page->copied, DMR_SEG_BLOCKS);
		bitmap_zero(page->taken, DMR_SEG_BLOCKS);
		bitmap_zero(page->busy, DMR_SEG_BLOCKS);
		page->changed = false;
		page->on_disk = false;
		page->nr_pins = 0;
		page->referenced = true;
	}
	return page;
}

void dmr_page_give_back(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	page->state = DMR_PAGE_FREE;
	list_add(&page->list, &t->free);
	t->nr_spare++;
	if (!bio_list_empty(&t->deferred))
		queue_work(t->wq, &t->io_work);
	wake_up_all(&t->page_wait);
}

static void page_install(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	lockdep_assert_held(&t->lock);
	page->state = DMR_PAGE_CLEAN;
	list_add_tail(&page->list, &t->clean);
	dmr_word_store(t, page->seg, (unsigned long)page);
}

/* ------------------------------------------------------------------
 * Entries and blocks
 */

void dmr_page_mark_dirty(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	if (page->state != DMR_PAGE_CLEAN)
		return;
	page->state = DMR_PAGE_DIRTY;
	list_move_tail(&page->list, &t->dirty);
	WRITE_ONCE(t->nr_dirty, t->nr_dirty + 1);
	if (t->nr_dirty > t->max_dirty / 2)
		dmr_queue_writeback(t);
	else
		queue_delayed_work(t->wq, &t->writeback_work, HZ);
}

/* Count one entry more (or less) of @kind. */
static void count_entry(struct dmr_page *page, enum dmr_kind kind, int by)
{
	if (kind == DMR_BASE)
		page->nr_base += by;
	else if (kind == DMR_ZERO)
		page->nr_zero += by;
	page->table->nr[dmr_count_as(kind)] += by;
}

void dmr_page_change(struct dmr_page *page, unsigned int i, enum dmr_kind kind,
		     __le64 packed)
{
	lockdep_assert_held(&page->table->lock);
	page->table->nr_changes++;
	count_entry(page, dmr_page_entry(page, i).kind, -1);
	count_entry(page, kind, 1);
	WRITE_ONCE(page->entries[i], packed);
	clear_bit(i, page->taken);
	/* Clear the bit behind the entry, or map could see the entry from before it was home. */
	smp_mb__before_atomic();
	clear_bit(i, page->home);
	page->changed = true;
	dmr_page_mark_dirty(page);
}

/* Make block @i home: the write or copy has completed. */
static void set_home(struct dmr_page *page, unsigned int i, bool copied)
{
	enum dmr_kind kind = dmr_page_entry(page, i).kind;

	if (kind == DMR_BASE)
		return;
	page->table->nr_changes++;
	count_entry(page, kind, -1);
	count_entry(page, DMR_BASE, 1);
	if (copied) {
		__set_bit(i, page->copied);
		/* Pairs with is_home(). */
		smp_wmb();
	}
	set_bit(i, page->home);
}

unsigned int dmr_page_take_back(struct dmr_page *page)
{
	unsigned int i, nr = 0;

	lockdep_assert_held(&page->table->lock);
	for_each_set_bit(i, page->copied, DMR_SEG_BLOCKS) {
		/* Skip a block that `remap` or `alias` has changed since. */
		if (!test_bit(i, page->home))
			continue;
		clear_bit(i, page->taken);
		clear_bit(i, page->home);
		page->table->nr_changes++;
#ifndef DMR_NO_ALIAS
		dmr_watch_clear(page->table, page->seg, i, 1);
#endif
		count_entry(page, DMR_BASE, -1);
		count_entry(page, dmr_page_entry(page, i).kind, 1);
		nr++;
	}
	bitmap_zero(page->copied, DMR_SEG_BLOCKS);
	return nr;
}

void dmr_page_make_busy(struct dmr_page *page, unsigned int first, unsigned int nr)
{
	lockdep_assert_held(&page->table->lock);
	bitmap_set(page->busy, first, nr);
	dmr_page_pin(page);
	/* Ahead of the change, so that dmr_page_is_throttled() limits what waits. */
	dmr_page_mark_dirty(page);
}

bool dmr_page_is_throttled(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	return page->state == DMR_PAGE_CLEAN && t->nr_dirty >= t->max_dirty;
}

void dmr_page_pin(struct dmr_page *page)
{
	page->nr_pins++;
}

void dmr_page_unpin(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	page->nr_pins--;
	if (!page->nr_pins && !t->nr_spare && !bio_list_empty(&t->deferred))
		queue_work(t->wq, &t->io_work);
	wake_up_all(&t->page_wait);
}

void dmr_page_came_home(struct dmr_page *page, unsigned int first,
			unsigned int nr, bool ok, bool copied)
{
	unsigned int i;

	lockdep_assert_held(&page->table->lock);
	bitmap_clear(page->busy, first, nr);
	/* Only now: a write that fails, or is not sent, leaves a copy to take back. */
	if (ok && !copied)
		bitmap_clear(page->copied, first, nr);
	for (i = first; ok && i < first + nr; i++)
		set_home(page, i, copied);
	dmr_queue_bios(page->table, &page->waiters);
	dmr_page_unpin(page);
}

/* ------------------------------------------------------------------
 * Reading
 */

void dmr_page_check(struct dmr_page *page)
{
	struct dmr_table *t = page->table;
	static const struct dmr_entry base = { .kind = DMR_BASE };
	unsigned int nr = dmr_words_blocks_in(t, page->seg);
	u64 index = page->seg * DMR_SEG_BLOCKS;
	unsigned int i, nr_bad = 0;
	struct dmr_entry entry;

	/* If the volume became smaller a crash can leave other entries past its end. */
	dmr_words_pack(t, page->seg, nr, DMR_SEG_BLOCKS - nr, base,
		       page->entries + nr);
	for (i = 0; i < nr; i++) {
		if (dmr_entry_unpack(t->seed, false, index + i,
				     le64_to_cpu(page->entries[i]), &entry))
			continue;
		page->entries[i] = 0;
		nr_bad++;
	}
	if (nr_bad)
		DMERR_LIMIT("%s: %u entries of the table's page of segment %llu are damaged: these blocks cannot be read",
			    dmr_name(t->meta), nr_bad, page->seg);
}

int dmr_page_read(struct dmr_page *page, io_notify_fn done)
{
	struct dmr_table *t = page->table;
	struct dm_io_region where = {
		.bdev = t->meta->bdev,
		.sector = dmr_page_block(page->seg) * DMR_BLOCK_SECTORS,
		.count = DMR_BLOCK_SECTORS,
	};
	struct dm_io_request req = {
		.bi_opf = REQ_OP_READ | REQ_META,
		.mem.type = DM_IO_KMEM,
		.mem.ptr.addr = page->entries,
		.notify.fn = done,
		.notify.context = page,
		.client = t->io,
	};

	return dmr_dm_io(&req, 1, &where, NULL);
}

static bool is_loading(struct dmr_table *t, u64 seg)
{
	return (READ_ONCE(t->words[seg]) & DMR_WORD_TAGS) == DMR_WORD_LOADING;
}

void dmr_page_begin_load(struct dmr_table *t, struct dmr_page *page, u64 seg)
{
	u64 hints = t->words[seg] >> 4;

	page->seg = seg;
	page->state = DMR_PAGE_LOADING;
	page->nr_base = dmr_hint_base(hints);
	page->nr_zero = dmr_hint_zero(hints);
	dmr_word_store(t, seg, (unsigned long)page | DMR_WORD_LOADING);
}

static void page_recount(struct dmr_page *page, u64 hints)
{
	unsigned int i;

	dmr_word_count_page(page->table, page->seg, dmr_hint_base(hints),
			    dmr_hint_zero(hints), -1);
	page->nr_base = 0;
	page->nr_zero = 0;
	for (i = 0; i < DMR_SEG_BLOCKS; i++) {
		switch (dmr_page_entry(page, i).kind) {
		case DMR_BASE:
			page->nr_base++;
			break;
		case DMR_ZERO:
			page->nr_zero++;
			break;
		default:
			break;
		}
	}
	dmr_word_count_page(page->table, page->seg, page->nr_base, page->nr_zero, 1);
}

void dmr_page_end_load(struct dmr_page *page, int r, struct bio_list *failed)
{
	struct dmr_table *t = page->table;

	lockdep_assert_held(&t->lock);
	t->page_reads++;
	if (r) {
		bio_list_merge_init(failed, &page->waiters);
		dmr_word_store(t, page->seg, page_hints(page) << 4 | DMR_WORD_AWAY);
		dmr_page_give_back(page);
		return;
	}
	page->on_disk = true;
	page_recount(page, page_hints(page));
	page_install(page);
	/*
	 * At the head, before bios that need a page of their own: these would evict
	 * this page, and where more bios wait than there are pages none would proceed.
	 */
	if (!bio_list_empty(&page->waiters)) {
		bio_list_merge_head(&t->deferred, &page->waiters);
		bio_list_init(&page->waiters);
		queue_work(t->wq, &t->io_work);
	}
	wake_up_all(&t->page_wait);
}

static int load_now(struct dmr_table *t, struct dmr_page *page)
{
	struct bio_list failed = BIO_EMPTY_LIST;
	struct bio *bio;
	int r = dmr_page_read(page, NULL);

	if (!r)
		dmr_page_check(page);
	spin_lock_irq(&t->lock);
	dmr_page_end_load(page, r, &failed);
	spin_unlock_irq(&t->lock);
	while ((bio = bio_list_pop(&failed)))
		bio_io_error(bio);
	return r;
}

/* ------------------------------------------------------------------
 * For callers that sleep
 */

static void page_fill(struct dmr_page *page, u64 seg, u64 word)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };
	struct dmr_table *t = page->table;
	struct dmr_entry place = dmr_word_place(word);
	unsigned int nr = dmr_words_blocks_in(t, seg);

	dmr_words_pack(t, seg, 0, nr, place, page->entries);
	dmr_words_pack(t, seg, nr, DMR_SEG_BLOCKS - nr, base, page->entries + nr);
	page->seg = seg;
	page->disk_word = word;
	page->nr_base = DMR_SEG_BLOCKS - nr + (place.kind == DMR_BASE ? nr : 0);
	page->nr_zero = place.kind == DMR_ZERO ? nr : 0;
}

void dmr_page_split(struct dmr_table *t, struct dmr_page *page, u64 seg,
		    u64 word)
{
	page_fill(page, seg, word);
	spin_lock_irq(&t->lock);
	if (t->words[seg] == word)
		page_install(page);
	else
		dmr_page_give_back(page);
	spin_unlock_irq(&t->lock);
}

static bool has_free(struct dmr_table *t)
{
	return !list_empty_careful(&t->free);
}

static int pin_page(struct dmr_table *t, u64 seg, bool scans, struct dmr_page **ret)
{
	struct dmr_page *page;
	u64 word;
	long r = 0;

	while (r >= 0) {
		page = NULL;
		spin_lock_irq(&t->lock);
		word = t->words[seg];
		if (dmr_word_is_here(word)) {
			*ret = dmr_word_page(word);
			dmr_page_pin(*ret);
			spin_unlock_irq(&t->lock);
			return 0;
		}
		if (word != DMR_WORD_BAD && !is_loading(t, seg))
			page = dmr_page_take(t);
		if (page && !dmr_word_is_whole(word)) {
			dmr_page_begin_load(t, page, seg);
			WRITE_ONCE(page->referenced, !scans);
		}
		spin_unlock_irq(&t->lock);

		if (word == DMR_WORD_BAD)
			return -EUCLEAN;
		/* None becomes free while write-backs fail. */
		if (!page && !is_loading(t, seg) && READ_ONCE(t->writeback_failed) &&
		    READ_ONCE(t->meta->is_awaited))
			return -EBUSY;
		if (page && dmr_word_is_whole(word))
			dmr_page_split(t, page, seg, word);
		else if (page)
			r = load_now(t, page);
		else if (is_loading(t, seg))
			r = wait_event_interruptible(t->page_wait,
						     !is_loading(t, seg));
		else
			r = wait_event_interruptible_timeout(t->page_wait,
							     has_free(t), HZ / 10);
	}
	return r;
}

int dmr_page_get(struct dmr_table *t, u64 seg, struct dmr_page **ret)
{
	return pin_page(t, seg, false, ret);
}

void dmr_page_put(struct dmr_page *page)
{
	spin_lock_irq(&page->table->lock);
	dmr_page_unpin(page);
	spin_unlock_irq(&page->table->lock);
}

int dmr_page_get_to_scan(struct dmr_table *t, u64 seg, struct dmr_page **ret)
{
	return pin_page(t, seg, true, ret);
}

void dmr_page_put_scanned(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	spin_lock_irq(&t->lock);
	dmr_page_unpin(page);
	/* The clock looks at the head next: a scan evicts what it has read itself. */
	if (page->state == DMR_PAGE_CLEAN && !READ_ONCE(page->referenced))
		list_move(&page->list, &t->clean);
	spin_unlock_irq(&t->lock);
}
