// SPDX-License-Identifier: GPL-2.0
/*
 * The remap table in memory: words, and a bounded cache of pages. See table.h.
 *
 * A page whose segment is mapped otherwise, or that is put out of the cache, is
 * given back behind an RCU grace period, so map looks into pages without locks.
 * What waits for a page meanwhile is woken from there.
 */
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "table.h"

/* Pages that are there from the beginning, so that all goes on without memory. */
#define MIN_PAGES	32U

/* Pages that wait for a commit, at most: it looks at them with the lock held. */
#define MAX_DIRTY	2048U

/* Looks of the clock before it takes a page that was in use lately. */
#define CLOCK_MAX	128U

/* Pages that are put out of the cache for one that is taken, at most. */
#define PUTS_MAX	32U

/* ------------------------------------------------------------------
 * Counting
 */

unsigned int dmr_table_blocks_in(struct dmr_table *t, u64 seg)
{
	return dmr_blocks_in_seg(t->volume_sectors, seg);
}

/* Of a page, in all; those past the end of the volume are BASE, and no blocks. */
static void count_page(struct dmr_table *t, u64 seg, unsigned int nr_base,
		       unsigned int nr_zero, int sign)
{
	unsigned int past = DMR_SEG_BLOCKS - dmr_table_blocks_in(t, seg);

	t->nr[DMR_BASE] += sign * ((s64)nr_base - past);
	t->nr[DMR_ZERO] += sign * (s64)nr_zero;
	t->nr[DMR_POOL] += sign * ((s64)DMR_SEG_BLOCKS - nr_base - nr_zero);
}

static void count_word(struct dmr_table *t, u64 seg, u64 word, int sign)
{
	u64 hints = word >> 4;

	if (dmr_word_is_whole(word))
		t->nr[word & DMR_WORD_KIND] += sign * (s64)dmr_table_blocks_in(t, seg);
	else if (word == DMR_WORD_BAD)
		t->nr[DMR_POOL] += sign * (s64)dmr_table_blocks_in(t, seg);
	else if ((word & DMR_WORD_TAGS) == DMR_WORD_AWAY)
		count_page(t, seg, dmr_hint_base(hints), dmr_hint_zero(hints), sign);
	else
		count_page(t, seg, dmr_word_page(word)->nr_base,
			   dmr_word_page(word)->nr_zero, sign);
}

/* ------------------------------------------------------------------
 * Words
 */

static void store_word(struct dmr_table *t, u64 seg, u64 word)
{
	/* Pairs with dmr_table_word(). */
	smp_store_release(&t->words[seg], word);
}

void dmr_table_word_dirty(struct dmr_table *t, u64 seg)
{
	__set_bit(seg / DMR_SEG_BLOCKS, t->words_dirty);
	WRITE_ONCE(t->words_wait, true);
	queue_delayed_work(t->wq, &t->commit_work, HZ);
}

void dmr_table_set_word(struct dmr_table *t, u64 seg, u64 word)
{
	count_word(t, seg, t->words[seg], -1);
	count_word(t, seg, word, 1);
	store_word(t, seg, word);
	dmr_table_word_dirty(t, seg);
}

/* A look at a word that is on disk, as it is in memory. */
static u64 word_from_disk(struct dmr_table *t, u64 seg, __le64 value)
{
	struct dmr_entry entry;

	if (!dmr_word_unpack(t->seed, seg, le64_to_cpu(value), &entry)) {
		DMERR_LIMIT("%s: the table's word of segment %llu is damaged: its blocks cannot be read",
			    dmr_meta_name(t->meta), seg);
		return DMR_WORD_BAD;
	}
	if (entry.kind != DMR_PAGE)
		return dmr_word_of(entry);
	/* A hint; and that all of it is BASE only the page itself can say. */
	if (dmr_hint_base(entry.block) == DMR_SEG_BLOCKS)
		entry.block = dmr_page_hints(DMR_SEG_BLOCKS - 1, 0);
	return entry.block << 4 | DMR_WORD_AWAY;
}

/* ------------------------------------------------------------------
 * Pages
 */

static u64 page_hints(struct dmr_page *page)
{
	return dmr_page_hints(page->nr_base, page->nr_zero);
}

static struct dmr_page *new_page(struct dmr_table *t, gfp_t gfp)
{
	struct dmr_page *page = kzalloc(sizeof(*page), gfp);

	if (!page)
		return NULL;
	page->entries = (__le64 *)__get_free_page(gfp);
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

static void free_page_struct(struct dmr_page *page)
{
	free_page((unsigned long)page->entries);
	kfree(page);
}

static void is_free(struct rcu_head *rcu)
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

/* Nobody finds @page any more; some may be looking at it. */
static void retire(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	lockdep_assert_held(&t->lock);
	if (page->state == DMR_PAGE_DIRTY || page->state == DMR_PAGE_COMMITTING)
		WRITE_ONCE(t->nr_dirty, t->nr_dirty - 1);
	list_del_init(&page->list);
	page->state = DMR_PAGE_FREE;
	t->nr_spare++;
	dmr_remap_defer(t, &page->waiters);
	call_rcu(&page->rcu, is_free);
}

void dmr_page_replace(struct dmr_page *page, u64 word)
{
	struct dmr_table *t = page->table;

	dmr_table_set_word(t, page->seg, word);
	retire(page);
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

			/* Of the same entries, so nothing is to be counted. */
			store_word(t, page->seg, word);
			retire(page);
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
	/* The next ones will want some, too, and a grace period is long. */
	for (puts = 0; puts < PUTS_MAX && t->nr_spare < t->max_pages / 16 + 1 &&
	     (!page || t->nr_pages >= t->max_pages); puts++) {
		if (!evict_page(t)) {
			if (!t->nr_spare)
				dmr_writeback_kick(t);
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
	store_word(t, page->seg, (unsigned long)page);
}

void dmr_page_mark_dirty(struct dmr_page *page)
{
	struct dmr_table *t = page->table;

	if (page->state != DMR_PAGE_CLEAN)
		return;
	page->state = DMR_PAGE_DIRTY;
	list_move_tail(&page->list, &t->dirty);
	WRITE_ONCE(t->nr_dirty, t->nr_dirty + 1);
	if (t->nr_dirty > t->max_dirty / 2)
		dmr_writeback_kick(t);
	else
		queue_delayed_work(t->wq, &t->commit_work, HZ);
}

static void page_recount(struct dmr_page *page, u64 hints)
{
	unsigned int i;

	count_page(page->table, page->seg, dmr_hint_base(hints),
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
	count_page(page->table, page->seg, page->nr_base, page->nr_zero, 1);
}

/* One entry more (or less) of @kind. */
static void count_entry(struct dmr_page *page, enum dmr_kind kind, int by)
{
	if (kind == DMR_BASE)
		page->nr_base += by;
	else if (kind == DMR_ZERO)
		page->nr_zero += by;
	page->table->nr[kind ? kind : DMR_POOL] += by;
}

void dmr_page_change(struct dmr_page *page, unsigned int i, enum dmr_kind kind,
		     __le64 packed)
{
	lockdep_assert_held(&page->table->lock);
	count_entry(page, dmr_page_entry(page, i).kind, -1);
	count_entry(page, kind, 1);
	WRITE_ONCE(page->entries[i], packed);
	clear_bit(i, page->taken);
	/* Behind the entry, or map could see the one before it was home. */
	smp_mb__before_atomic();
	clear_bit(i, page->home);
	page->changed = true;
	dmr_page_mark_dirty(page);
}

/* The write or copy home of block @i has completed. */
static void set_home(struct dmr_page *page, unsigned int i, bool copied)
{
	enum dmr_kind kind = dmr_page_entry(page, i).kind;

	if (kind == DMR_BASE)
		return;
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
		/* Not where `remap` or `alias` came between. */
		if (!test_bit(i, page->home))
			continue;
		clear_bit(i, page->taken);
		clear_bit(i, page->home);
		dmr_watch_clear(page->table, page->seg, i, 1);
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
	if (!dmr_broken(copyup))
		bitmap_set(page->busy, first, nr);
	dmr_page_pin(page);
	/* Before it is: so there is a limit on what waits for a commit. */
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
	/* Not before: a write that fails, or is not sent, leaves a copy to take back. */
	if (ok && !copied)
		bitmap_clear(page->copied, first, nr);
	for (i = first; ok && i < first + nr; i++)
		set_home(page, i, copied);
	dmr_remap_defer(page->table, &page->waiters);
	dmr_page_unpin(page);
}

void dmr_table_pack(struct dmr_table *t, u64 seg, unsigned int first,
		    unsigned int nr, struct dmr_entry place, __le64 *to)
{
	u64 index = seg * DMR_SEG_BLOCKS + first;
	unsigned int i;

	for (i = 0; i < nr; i++)
		to[i] = cpu_to_le64(dmr_entry_pack(t->seed, false, index + i,
						   dmr_entry_plus(place, i)));
}

static void page_fill(struct dmr_page *page, u64 seg, u64 word)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };
	struct dmr_table *t = page->table;
	struct dmr_entry place = dmr_entry_body(word);
	unsigned int nr = dmr_table_blocks_in(t, seg);

	dmr_table_pack(t, seg, 0, nr, place, page->entries);
	dmr_table_pack(t, seg, nr, DMR_SEG_BLOCKS - nr, base, page->entries + nr);
	page->seg = seg;
	page->disk_word = word;
	page->nr_base = DMR_SEG_BLOCKS - nr + (place.kind == DMR_BASE ? nr : 0);
	page->nr_zero = place.kind == DMR_ZERO ? nr : 0;
}

void dmr_page_check(struct dmr_page *page)
{
	struct dmr_table *t = page->table;
	static const struct dmr_entry base = { .kind = DMR_BASE };
	unsigned int nr = dmr_table_blocks_in(t, page->seg);
	u64 index = page->seg * DMR_SEG_BLOCKS;
	unsigned int i, nr_bad = 0;
	struct dmr_entry entry;

	/* A crash can leave others there when the volume becomes smaller. */
	dmr_table_pack(t, page->seg, nr, DMR_SEG_BLOCKS - nr, base,
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
			    dmr_meta_name(t->meta), nr_bad, page->seg);
}

/* ------------------------------------------------------------------
 * For those who may sleep
 */

int dmr_table_io(struct dmr_table *t, blk_opf_t opf, u64 block, unsigned int nr,
		 void *vmalloced)
{
	struct dm_io_region where = {
		.bdev = t->meta->bdev,
		.sector = block * DMR_BLOCK_SECTORS,
		.count = nr * DMR_BLOCK_SECTORS,
	};
	struct dm_io_request req = {
		.bi_opf = opf,
		.mem.type = DM_IO_VMA,
		.mem.ptr.vma = vmalloced,
		.client = t->io,
	};

	return dmr_dm_io(&req, 1, &where, NULL);
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
	store_word(t, seg, (unsigned long)page | DMR_WORD_LOADING);
}

void dmr_page_end_load(struct dmr_page *page, int r, struct bio_list *failed)
{
	struct dmr_table *t = page->table;

	lockdep_assert_held(&t->lock);
	t->page_reads++;
	if (r) {
		bio_list_merge_init(failed, &page->waiters);
		store_word(t, page->seg, page_hints(page) << 4 | DMR_WORD_AWAY);
		dmr_page_give_back(page);
		return;
	}
	page->on_disk = true;
	page_recount(page, page_hints(page));
	page_install(page);
	/*
	 * Before those that want a page themselves: they would put this one out, and
	 * where more wait than there are pages nobody would ever get anywhere.
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

int dmr_page_get(struct dmr_table *t, u64 seg, struct dmr_page **ret)
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
		if (page && !dmr_word_is_whole(word))
			dmr_page_begin_load(t, page, seg);
		spin_unlock_irq(&t->lock);

		if (word == DMR_WORD_BAD)
			return -EUCLEAN;
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

void dmr_page_put(struct dmr_page *page)
{
	spin_lock_irq(&page->table->lock);
	dmr_page_unpin(page);
	spin_unlock_irq(&page->table->lock);
}

/* ------------------------------------------------------------------
 * Looking up
 */

bool dmr_table_look_up(struct dmr_table *t, u64 block, struct dmr_entry *place)
{
	u64 word = dmr_table_word(t, dmr_block_seg(block));
	struct dmr_page *page;

	if (dmr_word_is_whole(word)) {
		*place = dmr_entry_plus(dmr_entry_body(word), dmr_block_index(block));
		return true;
	}
	if (unlikely(!dmr_word_is_here(word))) {
		place->kind = DMR_PAGE;
		place->block = 0;
		return word == DMR_WORD_BAD;
	}
	page = dmr_word_page(word);
	if (!READ_ONCE(page->referenced))
		WRITE_ONCE(page->referenced, true);
	*place = dmr_page_entry(page, dmr_block_index(block));
	return true;
}

u64 dmr_table_run(struct dmr_table *t, u64 block, u64 max, struct dmr_entry place)
{
	struct dmr_entry next;
	u64 len = 1;

	while (len < max) {
		u64 word = dmr_table_word(t, dmr_block_seg(block + len));
		u64 step = 1;

		if (dmr_word_is_whole(word))
			step = DMR_SEG_BLOCKS - dmr_block_index(block + len);
		if (!dmr_table_look_up(t, block + len, &next) ||
		    !dmr_entry_equal(next, dmr_entry_plus(place, len)))
			break;
		len += step;
	}
	return min(len, max);
}

/* ------------------------------------------------------------------
 * Load and size
 */

/* The words in @nr blocks of them, the first of which is that of @seg. */
static int load_words(struct dmr_table *t, u64 seg, unsigned int nr, __le64 *buf)
{
	u64 end = min(seg + (u64)nr * DMR_SEG_BLOCKS, t->nr_segs);
	unsigned int i;
	int r;

	r = dmr_table_io(t, REQ_OP_READ | REQ_META, dmr_word_block(seg), nr, buf);
	if (r)
		return r;
	for (i = 0; seg < end; seg++, i++) {
		t->words[seg] = word_from_disk(t, seg, buf[i]);
		count_word(t, seg, t->words[seg], 1);
	}
	return 0;
}

/* Who loads the table is told if there is none: that needs no stack in the log. */
static void *alloc_quietly(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_NOWARN);
}

int dmr_table_load(struct dmr_table *t, bool fresh)
{
	u64 group_segs = DMR_GROUP_SEGS, seg;
	__le64 *buf;
	int r = 0;

	if (fresh) {
		for (seg = 0; seg < t->nr_segs; seg++) {
			t->words[seg] = DMR_WORD_BASE;
			count_word(t, seg, DMR_WORD_BASE, 1);
		}
		return 0;
	}
	buf = alloc_quietly(DMR_GROUP_WORD_BLOCKS * DMR_BLOCK_SIZE);
	if (!buf)
		return -ENOMEM;
	for (seg = 0; !r && seg < t->nr_segs; seg += group_segs) {
		u64 nr = min(t->nr_segs - seg, group_segs);

		r = load_words(t, seg, DIV_ROUND_UP_ULL(nr, DMR_SEG_BLOCKS), buf);
		cond_resched();
	}
	vfree(buf);
	return r;
}

static u64 *alloc_words(u64 nr_segs)
{
	return alloc_quietly(array_size(nr_segs, sizeof(u64)));
}

static unsigned long *alloc_word_bits(u64 nr_segs)
{
	u64 nr = DIV_ROUND_UP_ULL(nr_segs, DMR_SEG_BLOCKS);

	return kvcalloc(BITS_TO_LONGS(nr), sizeof(long), GFP_KERNEL);
}

/* Entries from block @end of @seg on, which are past the end, become BASE. */
static int clear_past(struct dmr_table *t, u64 seg, unsigned int end)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };
	struct dmr_page *page;
	unsigned int i;
	int r;

	if (t->words[seg] == DMR_WORD_BASE)
		return 0;
	r = dmr_page_get(t, seg, &page);
	if (r)
		return r;
	dmr_table_pack(t, seg, 0, DMR_SEG_BLOCKS, base, t->scratch);
	spin_lock_irq(&t->lock);
	for (i = end; i < DMR_SEG_BLOCKS; i++) {
		if (dmr_page_entry(page, i).kind != DMR_BASE)
			dmr_page_change(page, i, DMR_BASE, t->scratch[i]);
	}
	/* A page that was made for this only must not turn into its word again. */
	page->changed = true;
	dmr_page_mark_dirty(page);
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	return 0;
}

/* The segments that @t has and a volume of @nr_segs has not. */
static void cut_segs(struct dmr_table *t, u64 nr_segs)
{
	u64 seg;

	spin_lock_irq(&t->lock);
	for (seg = nr_segs; seg < t->nr_segs; seg++) {
		u64 word = t->words[seg];

		count_word(t, seg, word, -1);
		t->words[seg] = DMR_WORD_BASE;
		if (dmr_word_is_here(word))
			retire(dmr_word_page(word));
	}
	spin_unlock_irq(&t->lock);
}

/* Count all anew, since a last segment that is not whole changes, too. */
static void count_all(struct dmr_table *t)
{
	u64 seg;

	memset(t->nr, 0, sizeof(t->nr));
	for (seg = 0; seg < t->nr_segs; seg++)
		count_word(t, seg, t->words[seg], 1);
}

/* Arrays for another number of segments. */
struct new_words {
	u64 *words;
	unsigned long *dirty;
	unsigned long *stale;
	unsigned long *taken;
};

static void free_new(struct new_words *new)
{
	vfree(new->words);
	kvfree(new->dirty);
	kvfree(new->stale);
	kvfree(new->taken);
}

static int alloc_new(struct new_words *new, u64 nr_segs)
{
	new->words = alloc_words(nr_segs);
	new->dirty = alloc_word_bits(nr_segs);
	new->stale = alloc_word_bits(nr_segs);
	new->taken = alloc_word_bits(nr_segs);
	if (new->words && new->dirty && new->stale && new->taken)
		return 0;
	free_new(new);
	return -ENOMEM;
}

/* No commit runs, so words_taken is all zeros. */
static void swap_words(struct dmr_table *t, struct new_words *new, u64 nr_segs)
{
	u64 old = min(t->nr_segs, nr_segs), seg;
	u64 nr_longs = BITS_TO_LONGS(DIV_ROUND_UP_ULL(old, DMR_SEG_BLOCKS));

	memset64(new->words, DMR_WORD_BASE, nr_segs);
	spin_lock_irq(&t->lock);
	memcpy(new->words, t->words, old * sizeof(u64));
	memcpy(new->dirty, t->words_dirty, nr_longs * sizeof(long));
	memcpy(new->stale, t->hints_stale, nr_longs * sizeof(long));
	/* Bits past the end of a smaller volume. */
	for (seg = DIV_ROUND_UP_ULL(nr_segs, DMR_SEG_BLOCKS);
	     seg < nr_longs * BITS_PER_LONG; seg++) {
		__clear_bit(seg, new->dirty);
		__clear_bit(seg, new->stale);
	}
	swap(t->words, new->words);
	swap(t->words_dirty, new->dirty);
	swap(t->hints_stale, new->stale);
	swap(t->words_taken, new->taken);
	for (seg = t->nr_segs; seg < nr_segs; seg++)
		dmr_table_word_dirty(t, seg);
	t->nr_segs = nr_segs;
	spin_unlock_irq(&t->lock);
}

/*
 * What is new is BASE, and stable: the caller writes the superblock then. What
 * is cut off is forgotten, and where a part of it is in the page of the last
 * segment, cleared; should a crash prevent that, it is when the volume grows.
 */
int dmr_table_resize(struct dmr_table *t, u64 volume_sectors)
{
	u64 old_blocks = DIV_ROUND_UP_ULL(t->volume_sectors, DMR_BLOCK_SECTORS);
	u64 new_blocks = DIV_ROUND_UP_ULL(volume_sectors, DMR_BLOCK_SECTORS);
	u64 end = min(old_blocks, new_blocks);
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	struct new_words new;
	int r;

	r = alloc_new(&new, nr_segs);
	if (r)
		return r;
	dmr_watch_drop_all(t);
	if (dmr_block_index(end))
		r = clear_past(t, dmr_block_seg(end), dmr_block_index(end));
	if (r) {
		free_new(&new);
		DMERR("%s: the table's page of segment %llu, which has another end now, cannot be cleared: error %d",
		      dmr_meta_name(t->meta), dmr_block_seg(end), r);
		return r;
	}
	mutex_lock(&t->commit_lock);
	if (new_blocks < old_blocks)
		cut_segs(t, nr_segs);
	swap_words(t, &new, nr_segs);
	spin_lock_irq(&t->lock);
	t->volume_sectors = volume_sectors;
	count_all(t);
	spin_unlock_irq(&t->lock);
	mutex_unlock(&t->commit_lock);
	free_new(&new);
	return t->meta->super.flags & DMR_FLAG_LINEAR_OK ? 0 : dmr_table_writeback(t);
}

/* ------------------------------------------------------------------
 * Life
 */

void dmr_table_use(struct dmr_table *t, struct dmr_target *rt,
		   unsigned int max_pages)
{
	/* A commit that is tried again may be at work with the old ones. */
	mutex_lock(&t->commit_lock);
	spin_lock_irq(&t->lock);
	t->base = rt->base ? rt->base->bdev : NULL;
	t->pool = rt->pool ? rt->pool->bdev : NULL;
	t->pool_blocks = t->pool ?
			 bdev_nr_sectors(t->pool) / DMR_BLOCK_SECTORS : 0;
	/* Pages that exist already stay. */
	t->max_pages = max(max_pages, MIN_PAGES);
	t->max_dirty = min(t->max_pages / 2, MAX_DIRTY);
	spin_unlock_irq(&t->lock);
	mutex_unlock(&t->commit_lock);
}

void dmr_table_write_hints(struct dmr_table *t)
{
	u64 nr = DIV_ROUND_UP_ULL(t->nr_segs, DMR_SEG_BLOCKS);

	spin_lock_irq(&t->lock);
	if (!bitmap_empty(t->hints_stale, nr)) {
		bitmap_or(t->words_dirty, t->words_dirty, t->hints_stale, nr);
		bitmap_zero(t->hints_stale, nr);
		WRITE_ONCE(t->words_wait, true);
	}
	spin_unlock_irq(&t->lock);
}

void dmr_table_stop(struct dmr_table *t)
{
	dmr_hydrate_pause(t);
	cancel_delayed_work_sync(&t->commit_work);
	flush_work(&t->io_work);
}

void dmr_table_destroy(struct dmr_table *t)
{
	struct dmr_page *page, *next;
	u64 seg;

	/* What a last commit that failed has queued. */
	cancel_delayed_work_sync(&t->commit_work);
	/* Pages come back behind RCU, and wake the worker. */
	rcu_barrier();
	if (t->wq)
		destroy_workqueue(t->wq);
	for (seg = 0; t->words && seg < t->nr_segs; seg++) {
		if (dmr_word_is_here(t->words[seg]))
			free_page_struct(dmr_word_page(t->words[seg]));
	}
	list_for_each_entry_safe(page, next, &t->free, list)
		free_page_struct(page);
	dmr_watch_drop_all(t);
	xa_destroy(&t->watches);
	dmr_writeback_exit(t);
	if (t->kcopyd)
		dm_kcopyd_client_destroy(t->kcopyd);
	if (t->io)
		dm_io_client_destroy(t->io);
	bioset_exit(&t->bios);
	free_percpu(t->flight);
	kvfree(t->words_dirty);
	kvfree(t->hints_stale);
	kvfree(t->words_taken);
	vfree(t->words);
	kfree(t->scratch);
	kfree(t->io_scratch);
	mutex_destroy(&t->commit_lock);
	kfree(t);
}

static int alloc_table(struct dmr_table *t)
{
	int r;

	t->words = alloc_words(t->nr_segs);
	/* dmr_table_destroy() looks for pages there. */
	if (t->words)
		memset64(t->words, DMR_WORD_BASE, t->nr_segs);
	t->words_dirty = alloc_word_bits(t->nr_segs);
	t->hints_stale = alloc_word_bits(t->nr_segs);
	t->words_taken = alloc_word_bits(t->nr_segs);
	t->scratch = kmalloc(DMR_BLOCK_SIZE, GFP_KERNEL);
	t->io_scratch = kmalloc(DMR_BLOCK_SIZE, GFP_KERNEL);
	t->flight = alloc_percpu(struct dmr_flight);
	t->wq = alloc_workqueue("revdedup_table", WQ_MEM_RECLAIM, 0);
	if (!t->words || !t->words_dirty || !t->hints_stale || !t->words_taken ||
	    !t->scratch || !t->io_scratch || !t->flight || !t->wq)
		return -ENOMEM;
	r = bioset_init(&t->bios, BIO_POOL_SIZE, 0, 0);
	if (r)
		return r;
	t->io = dm_io_client_create();
	if (IS_ERR(t->io)) {
		r = PTR_ERR(t->io);
		t->io = NULL;
		return r;
	}
	t->kcopyd = dm_kcopyd_client_create(NULL);
	if (IS_ERR(t->kcopyd)) {
		r = PTR_ERR(t->kcopyd);
		t->kcopyd = NULL;
		return r;
	}
	return dmr_writeback_alloc(t);
}

static int alloc_pages_of(struct dmr_table *t)
{
	while (t->nr_pages < min(MIN_PAGES, t->max_pages)) {
		struct dmr_page *page = new_page(t, GFP_KERNEL);

		if (!page)
			return -ENOMEM;
		list_add(&page->list, &t->free);
		t->nr_spare++;
	}
	return 0;
}

struct dmr_table *dmr_table_create(struct dmr_meta *meta, unsigned int max_pages)
{
	struct dmr_table *t = kzalloc(sizeof(*t), GFP_KERNEL);
	int r;

	if (!t)
		return ERR_PTR(-ENOMEM);
	t->meta = meta;
	t->seed = meta->seed;
	t->volume_sectors = meta->super.volume_sectors;
	t->nr_segs = dmr_nr_segs(t->volume_sectors);
	t->max_pages = max(max_pages, MIN_PAGES);
	spin_lock_init(&t->lock);
	seqcount_spinlock_init(&t->losses, &t->lock);
	mutex_init(&t->commit_lock);
	INIT_LIST_HEAD(&t->free);
	INIT_LIST_HEAD(&t->clean);
	INIT_LIST_HEAD(&t->dirty);
	init_waitqueue_head(&t->page_wait);
	xa_init_flags(&t->watches, XA_FLAGS_LOCK_IRQ);
	dmr_remap_init(t);
	dmr_writeback_init(t);
	dmr_hydrate_init(t);
	r = alloc_table(t);
	if (!r)
		r = alloc_pages_of(t);
	if (r) {
		dmr_table_destroy(t);
		return ERR_PTR(r);
	}
	return t;
}
