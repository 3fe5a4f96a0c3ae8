// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a remap table: made, loaded, brought to another size, counted.
 */
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "copy.h"
#include "deferred.h"
#include "dmr_table.h"
#include "hydrate.h"
#include "packs.h"
#include "pages.h"
#include "table.h"
#include "watch.h"
#include "words.h"
#include "writeback.h"

/* Pages that may wait for a write-back: it looks at all of them under the lock. */
#define MAX_DIRTY	2048U

#ifndef DMR_NO_PACKS
/* Decoded groups of packs that are kept. */
#define DEFAULT_PACK_MIB	8U
#endif

/* Words that a resize looks at without a pause. */
#define PIECE_SEGS	4096U

/* ------------------------------------------------------------------
 * Load
 */

/* Convert a word from its form on disk; one that is damaged is logged. */
static u64 word_from_disk(struct dmr_table *t, u64 seg, __le64 value)
{
	struct dmr_entry entry;

	if (!dmr_word_unpack(t->seed, seg, le64_to_cpu(value), &entry)) {
		DMERR_LIMIT("%s: the table's word of segment %llu is damaged: its blocks cannot be read",
			    dmr_name(t->meta), seg);
		return DMR_WORD_BAD;
	}
	if (entry.kind != DMR_PAGE)
		return dmr_word_of(entry);
	/* The counts are hints: only the page itself can say that all of it is BASE. */
	if (dmr_hint_base(entry.block) == DMR_SEG_BLOCKS)
		entry.block = dmr_page_hints(DMR_SEG_BLOCKS - 1, 0);
	return entry.block << 4 | DMR_WORD_AWAY;
}

static int read_blocks(struct dmr_table *t, blk_opf_t opf, u64 block, unsigned int nr,
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

/* Load @nr blocks of words, the first of which is that of @seg. */
static int load_words(struct dmr_table *t, u64 seg, unsigned int nr, __le64 *buf)
{
	u64 end = min(seg + (u64)nr * DMR_SEG_BLOCKS, t->nr_segs);
	unsigned int i;
	int r;

	r = read_blocks(t, REQ_OP_READ | REQ_META, dmr_word_block(seg), nr, buf);
	if (r)
		return r;
	for (i = 0; seg < end; seg++, i++) {
		t->words[seg] = word_from_disk(t, seg, buf[i]);
		dmr_word_count(t, seg, t->words[seg], 1);
		dmr_word_note(t, seg, t->words[seg]);
	}
	return 0;
}

/* Without a stack in the log: the caller reports a lack of memory. */
static void *alloc_quietly(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_NOWARN);
}

int dmr_table_load(struct dmr_table *t, bool fresh)
{
	u64 group_segs = DMR_GROUP_SEGS, seg;
	__le64 *buf;
	int r = 0;

#ifndef DMR_NO_PACKS
	if (t->meta->super.incompat & DMR_INCOMPAT_PACK)
		r = dmr_packs_begin(t);
	if (r)
		return r;
#endif
	if (fresh) {
		/* The words are BASE since they were allocated. */
		t->nr[DMR_BASE] = dmr_nr_blocks(t->volume_sectors);
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

/* ------------------------------------------------------------------
 * Size
 */

static u64 *alloc_words(u64 nr_segs)
{
	return alloc_quietly(array_size(nr_segs, sizeof(u64)));
}

static unsigned long *alloc_word_bits(u64 nr_segs)
{
	u64 nr = DIV_ROUND_UP_ULL(nr_segs, DMR_SEG_BLOCKS);

	return kvcalloc(BITS_TO_LONGS(nr), sizeof(long), GFP_KERNEL);
}

/* Make entries from block @end of @seg on BASE, which are past the end of the volume. */
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
	dmr_words_pack(t, seg, 0, DMR_SEG_BLOCKS, base, t->scratch);
	spin_lock_irq(&t->lock);
	for (i = end; i < DMR_SEG_BLOCKS; i++) {
		if (dmr_page_entry(page, i).kind != DMR_BASE)
			dmr_page_change(page, i, DMR_BASE, t->scratch[i]);
	}
	/* Have it written, or a page that was made just now could become its word again. */
	page->changed = true;
	dmr_page_mark_dirty(page);
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	return 0;
}

/* Drop the segments that a volume of @nr_segs does not have. */
static void cut_segs(struct dmr_table *t, u64 nr_segs)
{
	u64 seg;

	spin_lock_irq(&t->lock);
	for (seg = nr_segs; seg < t->nr_segs; seg++) {
		u64 word = t->words[seg];

		dmr_word_count(t, seg, word, -1);
		dmr_word_store(t, seg, DMR_WORD_BASE);
		if (dmr_word_is_here(word))
			dmr_page_retire(dmr_word_page(word));
		if (seg % PIECE_SEGS == 0) {
			spin_unlock_irq(&t->lock);
			cond_resched();
			spin_lock_irq(&t->lock);
		}
	}
	spin_unlock_irq(&t->lock);
}

/*
 * Adopt the size, after @kept segments: the number of blocks in the last of them may
 * change, and those behind it are BASE.
 */
static void count_resized(struct dmr_table *t, u64 kept, u64 volume_sectors)
{
	u64 blocks = dmr_nr_blocks(volume_sectors);

	lockdep_assert_held(&t->lock);
	dmr_word_count(t, kept - 1, t->words[kept - 1], -1);
	t->volume_sectors = volume_sectors;
	dmr_word_count(t, kept - 1, t->words[kept - 1], 1);
	t->nr[DMR_BASE] += blocks - min(blocks, kept * DMR_SEG_BLOCKS);
}

/* Arrays for another number of segments. */
struct new_words {
	u64 *words;
	unsigned long *dirty;
	unsigned long *stale;
	unsigned long *pool;
	unsigned long *taken;
};

static void free_new(struct new_words *new)
{
	vfree(new->words);
	kvfree(new->dirty);
	kvfree(new->stale);
	kvfree(new->pool);
	kvfree(new->taken);
}

static int alloc_new(struct new_words *new, u64 nr_segs)
{
	new->words = alloc_words(nr_segs);
	new->dirty = alloc_word_bits(nr_segs);
	new->stale = alloc_word_bits(nr_segs);
	new->pool = alloc_word_bits(nr_segs);
	new->taken = alloc_word_bits(nr_segs);
	if (new->words && new->dirty && new->stale && new->pool && new->taken)
		return 0;
	free_new(new);
	return -ENOMEM;
}

/* Without the lock: 64 TiB have 256 MiB of words, too many to copy with interrupts off. */
static void copy_words(struct dmr_table *t, u64 *to, u64 nr)
{
	u64 seg;

	for (seg = 0; seg < nr; seg += PIECE_SEGS) {
		u64 piece = min(nr - seg, (u64)PIECE_SEGS);

		/* If words are stored meanwhile, the caller notices, and copies again. */
		data_race(memcpy(to + seg, t->words + seg, piece * sizeof(u64)));
		cond_resched();
	}
}

/*
 * Use the arrays of @new, for a volume of so many sectors. No write-back runs, so
 * words_taken is all zeros.
 */
static void swap_words(struct dmr_table *t, struct new_words *new, u64 volume_sectors)
{
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	u64 kept = min(t->nr_segs, nr_segs);
	u64 kept_bits = DIV_ROUND_UP_ULL(kept, DMR_SEG_BLOCKS);
	u64 nr_bits = DIV_ROUND_UP_ULL(nr_segs, DMR_SEG_BLOCKS);
	unsigned long nr_stores;

	memset64(new->words + kept, DMR_WORD_BASE, nr_segs - kept);
	spin_lock_irq(&t->lock);
	/* The volume is suspended, so words hardly change meanwhile. */
	do {
		nr_stores = t->nr_stores;
		spin_unlock_irq(&t->lock);
		copy_words(t, new->words, kept);
		spin_lock_irq(&t->lock);
	} while (t->nr_stores != nr_stores);
	bitmap_copy_clear_tail(new->dirty, t->words_dirty, kept_bits);
	bitmap_copy_clear_tail(new->stale, t->hints_stale, kept_bits);
	bitmap_copy_clear_tail(new->pool, t->words_pool, kept_bits);
	swap(t->words, new->words);
	swap(t->words_dirty, new->dirty);
	swap(t->hints_stale, new->stale);
	swap(t->words_pool, new->pool);
	swap(t->words_taken, new->taken);
	count_resized(t, kept, volume_sectors);
	t->nr_changes++;
	if (nr_segs > kept) {
		bitmap_set(t->words_dirty, kept / DMR_SEG_BLOCKS,
			   nr_bits - kept / DMR_SEG_BLOCKS);
		dmr_word_mark_dirty(t, kept);
	}
	t->nr_segs = nr_segs;
	spin_unlock_irq(&t->lock);
}

/*
 * New segments are BASE, and stable when this returns: then the caller writes the
 * superblock. Segments that are cut off are dropped, and their entries in the page of
 * the last segment cleared. If a crash prevents that, it happens when the volume grows.
 */
int dmr_table_resize(struct dmr_table *t, u64 volume_sectors)
{
	u64 old_blocks = dmr_nr_blocks(t->volume_sectors);
	u64 new_blocks = dmr_nr_blocks(volume_sectors);
	u64 end = min(old_blocks, new_blocks);
	u64 nr_segs = dmr_nr_segs(volume_sectors);
	struct new_words new;
	int r;

	r = alloc_new(&new, nr_segs);
	if (r)
		return r;
#ifndef DMR_NO_ALIAS
	dmr_watch_drop_all(t);
#endif
	if (dmr_block_index(end))
		r = clear_past(t, dmr_block_seg(end), dmr_block_index(end));
	if (r) {
		free_new(&new);
		DMERR("%s: cannot clear the table's page of segment %llu beyond the new end: error %d",
		      dmr_name(t->meta), dmr_block_seg(end), r);
		return r;
	}
	mutex_lock(&t->writeback_lock);
	if (new_blocks < old_blocks)
		cut_segs(t, nr_segs);
	swap_words(t, &new, volume_sectors);
	mutex_unlock(&t->writeback_lock);
	free_new(&new);
	return t->meta->super.flags & DMR_FLAG_LINEAR_OK ? 0 : dmr_writeback(t);
}

/* ------------------------------------------------------------------
 * Use
 */

void dmr_table_use(struct dmr_table *t, struct dmr_target *rt,
		   unsigned int max_pages)
{
	struct block_device *pool = rt->pool ? rt->pool->bdev : NULL;

	/* A write-back that is retried may be at work with the old devices. */
	mutex_lock(&t->writeback_lock);
#ifndef DMR_NO_PACKS
	/* Another device, which may be a copy, as what is read from there may be damaged. */
	if (t->packs && t->pool != pool)
		dmr_packs_forget_all(t);
#endif
	spin_lock_irq(&t->lock);
	t->base = rt->base ? rt->base->bdev : NULL;
	t->pool = pool;
	t->pool_blocks = t->pool ?
			 bdev_nr_sectors(t->pool) / DMR_BLOCK_SECTORS : 0;
	t->is_used = rt->has_table;
#ifndef DMR_NO_PACKS
	if (!t->packs)
		t->pack_mib = rt->pack_mib ? rt->pack_mib : DEFAULT_PACK_MIB;
#endif
	/* Pages that exist already stay. */
	t->max_pages = max(max_pages, DMR_MIN_PAGES);
	t->max_dirty = min(t->max_pages / 2, MAX_DIRTY);
	spin_unlock_irq(&t->lock);
	mutex_unlock(&t->writeback_lock);
}

void dmr_table_distrust(struct dmr_table *t)
{
	spin_lock_irq(&t->lock);
	/* Any block of words: the flush behind it counts. */
	dmr_word_mark_dirty(t, 0);
	t->nr_changes++;
	t->base_is_unsettled = true;
	spin_unlock_irq(&t->lock);
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

bool dmr_table_is_used(struct dmr_table *t)
{
	return t->is_used;
}

bool dmr_table_has_pool(struct dmr_table *t)
{
	return t->pool;
}

void dmr_table_count(struct dmr_table *t, struct dmr_counts *counts)
{
	spin_lock_irq(&t->lock);
	counts->base = t->nr[DMR_BASE];
	counts->zero = t->nr[DMR_ZERO];
	counts->pool = t->nr[DMR_POOL];
	counts->waiting = t->nr_dirty;
	counts->page_reads = t->page_reads;
	counts->failed = t->writeback_failed;
	spin_unlock_irq(&t->lock);
#ifndef DMR_NO_PACKS
	dmr_packs_count(t, &counts->pack_mib, &counts->groups_read);
#endif
}

/* ------------------------------------------------------------------
 * Life
 */

void dmr_table_stop(struct dmr_table *t)
{
	dmr_hydrate_pause(t);
	cancel_delayed_work_sync(&t->writeback_work);
	flush_work(&t->io_work);
}

void dmr_table_destroy(struct dmr_table *t)
{
	struct dmr_page *page, *next;
	u64 seg;

	/* A last write-back that failed has queued a retry. */
	cancel_delayed_work_sync(&t->writeback_work);
#ifndef DMR_NO_PACKS
	dmr_packs_end(t);
#endif
	/* Wait for pages that come back behind RCU, and queue the worker. */
	rcu_barrier();
#ifndef DMR_NO_PACKS
	if (t->pack_wq)
		destroy_workqueue(t->pack_wq);
#endif
	if (t->wq)
		destroy_workqueue(t->wq);
	for (seg = 0; t->words && seg < t->nr_segs; seg++) {
		if (dmr_word_is_here(t->words[seg]))
			dmr_page_free(dmr_word_page(t->words[seg]));
	}
	list_for_each_entry_safe(page, next, &t->free, list)
		dmr_page_free(page);
#ifndef DMR_NO_ALIAS
	dmr_watch_drop_all(t);
	xa_destroy(&t->watches);
#endif
	dmr_writeback_exit(t);
	if (t->kcopyd)
		dm_kcopyd_client_destroy(t->kcopyd);
	if (t->io)
		dm_io_client_destroy(t->io);
	bioset_exit(&t->bios);
	free_percpu(t->flight);
	kvfree(t->words_dirty);
	kvfree(t->hints_stale);
	kvfree(t->words_pool);
	kvfree(t->words_taken);
	vfree(t->words);
	kfree(t->scratch);
	kfree(t->io_scratch);
	mutex_destroy(&t->writeback_lock);
	kfree(t);
}

static int alloc_table(struct dmr_table *t)
{
	int r;

	t->words = alloc_words(t->nr_segs);
	/* dmr_table_destroy() looks for pages there, and dmr_table_load() may leave them so. */
	if (t->words)
		memset64(t->words, DMR_WORD_BASE, t->nr_segs);
	t->words_dirty = alloc_word_bits(t->nr_segs);
	t->hints_stale = alloc_word_bits(t->nr_segs);
	t->words_pool = alloc_word_bits(t->nr_segs);
	t->words_taken = alloc_word_bits(t->nr_segs);
	t->scratch = kmalloc(DMR_BLOCK_SIZE, GFP_KERNEL);
	t->io_scratch = kmalloc(DMR_BLOCK_SIZE, GFP_KERNEL);
	t->flight = alloc_percpu(struct dmr_flight);
	t->wq = alloc_workqueue("revdedup_table", DMR_WQ_FLAGS, 0);
#ifndef DMR_NO_PACKS
	/* Not by the message that names the first pack: the thread of a queue is made elsewhere. */
	t->pack_wq = alloc_workqueue("revdedup_packs", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!t->pack_wq)
		return -ENOMEM;
#endif
	if (!t->words || !t->words_dirty || !t->hints_stale || !t->words_pool ||
	    !t->words_taken || !t->scratch || !t->io_scratch || !t->flight || !t->wq)
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
	t->max_pages = max(max_pages, DMR_MIN_PAGES);
	spin_lock_init(&t->lock);
	seqcount_spinlock_init(&t->losses, &t->lock);
	mutex_init(&t->writeback_lock);
	INIT_LIST_HEAD(&t->free);
	INIT_LIST_HEAD(&t->clean);
	INIT_LIST_HEAD(&t->dirty);
	INIT_LIST_HEAD(&t->holds);
	init_waitqueue_head(&t->page_wait);
#ifndef DMR_NO_ALIAS
	xa_init_flags(&t->watches, XA_FLAGS_LOCK_IRQ);
#endif
	dmr_copy_init(t);
	dmr_deferred_init(t);
	dmr_writeback_init(t);
	dmr_hydrate_init(t);
	r = alloc_table(t);
	if (!r)
		r = dmr_pages_alloc(t);
	if (r) {
		dmr_table_destroy(t);
		return ERR_PTR(r);
	}
	return t;
}
