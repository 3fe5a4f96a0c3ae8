// SPDX-License-Identifier: GPL-2.0
/*
 * Bios on their way through the table.
 *
 * map sends a bio on at once where it can: a read to the place that the longest
 * run from its first block lies at, a write to the base. What has to wait or to
 * sleep goes to the worker, which does the same by pieces.
 *
 * A write that touches blocks which are not BASE comes home:
 *
 *   1. its blocks are made busy: other writes to them wait in the page, and no
 *      copy home starts. Where one is busy already, it waits itself. Reads go on
 *      from the old place
 *   2. a first or last block that it does not cover is copied home, and the base is
 *      flushed: should it lose its cache later, the writer hears of it, and writes
 *      again what it has written, but not the rest of the block
 *   3. the write goes to the base
 *   4. when it has completed its blocks are home: reads find them on the base,
 *      and the change waits for a commit. They are not busy any more
 *
 * A write that fails leaves the old place, of which nothing was overwritten.
 */
#include <linux/blkdev.h>
#include <linux/sched/mm.h>

#include "table.h"

enum route {
	GO,		/* its device and sector are set: submit it */
	TAKEN,		/* it was ended, or waits for something */
	WORK,		/* only the worker can do this */
	FAIL,
};

/* A first or last block of which a write covers a part. */
struct piece {
	sector_t sector;
	sector_t count;
	struct dmr_entry place;		/* of the block */
};

struct pieces {
	unsigned int nr;
	struct piece piece[2];
};

static u64 first_block(struct bio *bio)
{
	return bio->bi_iter.bi_sector / DMR_BLOCK_SECTORS;
}

static u64 last_block(struct bio *bio)
{
	return (bio_end_sector(bio) - 1) / DMR_BLOCK_SECTORS;
}

static struct dmr_io *io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct dmr_io));
}

static enum route to_base(struct dmr_table *t, struct bio *bio)
{
	if (!t->base)
		return FAIL;
	bio_set_dev(bio, t->base);
	return GO;
}

/* Not of a read, which may be a part of a bio and has no struct dmr_io then. */
static enum route write_to_base(struct dmr_table *t, struct bio *bio)
{
	io_of(bio)->at_base = true;
	return to_base(t, bio);
}

/* ------------------------------------------------------------------
 * Waiting
 */

void dmr_remap_defer(struct dmr_table *t, struct bio_list *bios)
{
	lockdep_assert_held(&t->lock);
	if (bio_list_empty(bios))
		return;
	bio_list_merge_init(&t->deferred, bios);
	queue_work(t->wq, &t->io_work);
}

static void defer(struct dmr_table *t, struct bio *bio)
{
	unsigned long flags;

	/* Nobody may poll for what another thread issues; see map_write(). */
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	spin_lock_irqsave(&t->lock, flags);
	bio_list_add(&t->deferred, bio);
	queue_work(t->wq, &t->io_work);
	spin_unlock_irqrestore(&t->lock, flags);
}

static void wait_in(struct bio_list *list, struct bio *bio)
{
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	bio_list_add(list, bio);
}

/* ------------------------------------------------------------------
 * Writes
 */

/* Are blocks @first to @last of the page BASE? */
static bool all_base(struct dmr_page *page, unsigned int first, unsigned int last)
{
	for (; first <= last; first++) {
		if (dmr_page_entry(page, first).kind != DMR_BASE)
			return false;
	}
	return true;
}

static bool covers_start(struct bio *bio)
{
	return !(bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS);
}

static bool covers_end(struct dmr_table *t, struct bio *bio)
{
	sector_t end = bio_end_sector(bio);

	return !(end % DMR_BLOCK_SECTORS) || end == t->volume_sectors;
}

static void add_piece(struct dmr_table *t, struct dmr_page *page, u64 block,
		      struct pieces *pieces)
{
	struct dmr_entry place = dmr_page_entry(page, dmr_block_index(block));
	struct piece *piece = &pieces->piece[pieces->nr];

	if (place.kind == DMR_BASE)
		return;
	piece->sector = block * DMR_BLOCK_SECTORS;
	piece->count = min_t(sector_t, DMR_BLOCK_SECTORS,
			     t->volume_sectors - piece->sector);
	piece->place = place;
	pieces->nr++;
}

/* What must be copied home before @bio may go; false: it cannot be. */
static bool find_pieces(struct dmr_table *t, struct dmr_page *page,
			struct bio *bio, struct pieces *pieces)
{
	u64 first = first_block(bio), last = last_block(bio);
	unsigned int i;

	pieces->nr = 0;
	if (!covers_start(bio))
		add_piece(t, page, first, pieces);
	if (!covers_end(t, bio) && (first != last || !pieces->nr))
		add_piece(t, page, last, pieces);
	for (i = 0; i < pieces->nr; i++) {
		struct dmr_entry place = pieces->piece[i].place;

		if (place.kind == DMR_PAGE ||
		    (place.kind == DMR_POOL && place.block >= t->pool_blocks))
			return false;
	}
	return true;
}

/* Home because it was copied there, which no flush has made stable yet. */
static bool is_fresh_copy(struct dmr_page *page, u64 block)
{
	unsigned int i = dmr_block_index(block);

	return test_bit(i, page->home) && test_bit(i, page->copied);
}

/* Would a part of such a block be the writer's, and a part still ours to take back? */
static bool splits_copy(struct dmr_table *t, struct dmr_page *page, struct bio *bio)
{
	return (!covers_start(bio) && is_fresh_copy(page, first_block(bio))) ||
	       (!covers_end(t, bio) && is_fresh_copy(page, last_block(bio)));
}

static bool is_busy(struct dmr_page *page, unsigned int first, unsigned int nr)
{
	return find_next_bit(page->busy, first + nr, first) < first + nr;
}

/* Under the lock. WORK with *@pieces: all is ready but them. */
static enum route lock_home(struct dmr_table *t, struct bio *bio,
			    struct pieces *pieces)
{
	u64 block = first_block(bio);
	unsigned int first = dmr_block_index(block);
	unsigned int nr = last_block(bio) - block + 1;
	u64 word = t->words[dmr_block_seg(block)];
	struct dmr_io *io = io_of(bio);
	struct dmr_page *page;

	if (word == DMR_WORD_BASE)
		return GO;
	if (word == DMR_WORD_BAD)
		return FAIL;
	if (!dmr_word_is_here(word))
		return WORK;
	page = dmr_word_page(word);
	if (splits_copy(t, page, bio)) {
		wait_in(&t->unflushed, bio);
		dmr_writeback_kick(t);
		return TAKEN;
	}
	if (all_base(page, first, first + nr - 1) &&
	    find_next_bit(page->copied, first + nr, first) >= first + nr)
		return GO;
	if (is_busy(page, first, nr)) {
		wait_in(&page->waiters, bio);
		return TAKEN;
	}
	if (dmr_page_is_throttled(page)) {
		wait_in(&t->throttled, bio);
		dmr_writeback_kick(t);
		return TAKEN;
	}
	if (!find_pieces(t, page, bio, pieces))
		return FAIL;
	/* map cannot copy. */
	if (pieces->nr && !io->in_work)
		return WORK;
	dmr_page_make_busy(page, first, nr);
	io->homing = true;
	io->page = page;
	io->first = first;
	io->nr = nr;
	return pieces->nr ? WORK : GO;
}

/* Without the lock, where nothing has to change. */
static bool is_home(struct dmr_table *t, struct bio *bio)
{
	unsigned int first = dmr_block_index(first_block(bio));
	unsigned int last = dmr_block_index(last_block(bio));
	u64 word = dmr_table_word(t, dmr_block_seg(first_block(bio)));
	struct dmr_page *page;
	unsigned int losses;

	if (word == DMR_WORD_BASE)
		return true;
	if (!dmr_word_is_here(word))
		return false;
	/* What is copied can be taken back, and must not be from under a write. */
	losses = raw_seqcount_begin(&t->losses);
	page = dmr_word_page(word);
	if (!all_base(page, first, last))
		return false;
	/* Pairs with set_home(). */
	smp_rmb();
	return find_next_bit(page->copied, last + 1, first) > last &&
	       !read_seqcount_retry(&t->losses, losses);
}

/* @bio is within a segment. The caller is in an RCU read-side critical section. */
static enum route route_write(struct dmr_table *t, struct bio *bio,
			      struct pieces *pieces)
{
	bool watched = dmr_is_watched(t);
	unsigned long flags;
	enum route route;
	u64 block;

	pieces->nr = 0;
	if (likely(!watched) && is_home(t, bio))
		return write_to_base(t, bio);

	block = first_block(bio);
	spin_lock_irqsave(&t->lock, flags);
	if (watched)
		dmr_watch_clear(t, dmr_block_seg(block), dmr_block_index(block),
				last_block(bio) - block + 1);
	route = lock_home(t, bio, pieces);
	spin_unlock_irqrestore(&t->lock, flags);
	return route == GO ? write_to_base(t, bio) : route;
}

/* The part of a write that is in one segment. */
static void accept_segment(struct bio *bio)
{
	sector_t start = bio->bi_iter.bi_sector;
	unsigned int room = DMR_SEG_SECTORS - (start & (DMR_SEG_SECTORS - 1));

	if (bio_sectors(bio) > room)
		dm_accept_partial_bio(bio, room);
}

/* ------------------------------------------------------------------
 * Reads and discards
 */

static unsigned int run_sectors(struct dmr_table *t, struct bio *bio,
				struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;
	u64 max = last_block(bio) - first_block(bio) + 1;
	u64 len;

	/* A pool that has become smaller; see route_read(). */
	if (place.kind == DMR_POOL && place.block < t->pool_blocks)
		max = min(max, t->pool_blocks - place.block);
	len = dmr_table_run(t, first_block(bio), max, place);
	return min_t(u64, len * DMR_BLOCK_SECTORS - into, bio_sectors(bio));
}

static enum route route_read(struct dmr_table *t, struct bio *bio,
			     struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;

	switch (place.kind) {
	case DMR_BASE:
		return to_base(t, bio);
	case DMR_ZERO:
		zero_fill_bio(bio);
		bio_endio(bio);
		return TAKEN;
	case DMR_POOL:
		if (unlikely(place.block >= t->pool_blocks))
			return FAIL;
		bio_set_dev(bio, t->pool);
		bio->bi_iter.bi_sector = place.block * DMR_BLOCK_SECTORS + into;
		return GO;
	case DMR_PAGE:
		break;
	}
	return FAIL;
}

/* What the base does not take at the moment changes nothing. */
static enum route discard_base(struct dmr_table *t, struct bio *bio)
{
	if (t->base && bdev_max_discard_sectors(t->base))
		return to_base(t, bio);
	bio_endio(bio);
	return TAKEN;
}

/* The longest run of @place; in map, or for the worker a part of its own. */
static enum route map_read(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	unsigned int len;

	if (!dmr_table_look_up(t, first_block(bio), &place))
		return WORK;
	len = run_sectors(t, bio, place);
	if (len < bio_sectors(bio))
		dm_accept_partial_bio(bio, len);
	return route_read(t, bio, place);
}

static enum route map_discard(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	unsigned int len;

	if (dmr_is_watched(t) ||
	    !dmr_table_look_up(t, first_block(bio), &place) ||
	    place.kind != DMR_BASE)
		return WORK;
	len = run_sectors(t, bio, place);
	if (len < bio_sectors(bio))
		dm_accept_partial_bio(bio, len);
	return discard_base(t, bio);
}

/* ------------------------------------------------------------------
 * map
 */

static int map_result(struct dmr_table *t, struct bio *bio, enum route route)
{
	switch (route) {
	case GO:
		return DM_MAPIO_REMAPPED;
	case WORK:
		defer(t, bio);
		break;
	case FAIL:
		bio_io_error(bio);
		break;
	case TAKEN:
		break;
	}
	return DM_MAPIO_SUBMITTED;
}

static int map_flush(struct dmr_table *t, struct bio *bio)
{
	if (!t->base) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	bio_set_dev(bio, t->base);
	if (likely(!dmr_table_waits(t))) {
		io_of(bio)->at_base = true;
		return DM_MAPIO_REMAPPED;
	}
	dmr_writeback_defer(t, bio);
	return DM_MAPIO_SUBMITTED;
}

static bool would_block(struct dmr_table *t, struct bio *bio)
{
	return (bio->bi_opf & REQ_NOWAIT) &&
	       ((t->base && !bdev_nowait(t->base)) ||
		(t->pool && !bdev_nowait(t->pool)));
}

/* Not inline: many kernels zero all that a function has on its stack. */
static noinline int map_change(struct dmr_table *t, struct bio *bio)
{
	struct pieces pieces;

	return map_result(t, bio, route_write(t, bio, &pieces));
}

static int map_write(struct dmr_table *t, struct dmr_target *rt, struct bio *bio,
		     struct dmr_io *io)
{
	enum req_op op = bio_op(bio);

	if (likely(op != REQ_OP_DISCARD)) {
		accept_segment(bio);
	} else if (!READ_ONCE(t->nr[DMR_POOL]) &&
		   !bdev_max_discard_sectors(t->base)) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (unlikely(bio->bi_opf & REQ_FUA))
		io->fua = true;
	if (unlikely(op == REQ_OP_WRITE_ZEROES)) {
		io->sector = bio->bi_iter.bi_sector;
		io->sectors = bio_sectors(bio);
	}
	if (unlikely(!dmr_is_stable(rt->meta, bio))) {
		bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
		dmr_dirty_defer(rt->meta, bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (unlikely(op == REQ_OP_DISCARD))
		return map_result(t, bio, map_discard(t, bio));
	if (likely(!dmr_is_watched(t) && is_home(t, bio)))
		return map_result(t, bio, write_to_base(t, bio));
	return map_change(t, bio);
}

int dmr_remap_map(struct dmr_table *t, struct dmr_target *rt, struct bio *bio)
{
	struct dmr_io *io = io_of(bio);
	bool write = op_is_write(bio_op(bio));
	int r;

	io->counted = false;
	io->fua = false;
	io->homing = false;
	io->committed = false;
	io->at_base = false;
	io->in_work = false;
	io->copy_failed = false;
	io->copied_again = false;
	if (!bio_sectors(bio))
		return map_flush(t, bio);
	if (unlikely(would_block(t, bio))) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	/* Those above us that had it open for writing still can. */
	if (unlikely(write && rt->read_only))
		return DM_MAPIO_KILL;
	rcu_read_lock();
	io->phase = dmr_flight_begin(t);
	io->counted = true;
	if (write)
		r = map_write(t, rt, bio, io);
	else
		r = map_result(t, bio, map_read(t, bio));
	rcu_read_unlock();
	return r;
}

int dmr_remap_end_write(struct dmr_table *t, struct bio *bio, struct dmr_io *io,
			blk_status_t *error)
{
	unsigned long flags;

	if (io->homing) {
		io->homing = false;
		spin_lock_irqsave(&t->lock, flags);
		dmr_page_came_home(io->page, io->first, io->nr, !*error, false);
		spin_unlock_irqrestore(&t->lock, flags);
	}
	/* Its entry may be in memory only, even if another write changed it. */
	if (io->fua && !*error && !io->committed && dmr_table_waits(t)) {
		io->committed = true;
		io->at_base = false;
		dmr_writeback_defer(t, bio);
		return DM_ENDIO_INCOMPLETE;
	}
	return DM_ENDIO_DONE;
}

/* If it is the base that has failed it, its cache may be lost. */
void dmr_remap_note_error(struct dmr_table *t, struct bio *bio, blk_status_t error)
{
	if (io_of(bio)->at_base && error != BLK_STS_AGAIN &&
	    error != BLK_STS_DM_REQUEUE && error != BLK_STS_NOSPC)
		dmr_writeback_base_lost(t, true);
}

/* ------------------------------------------------------------------
 * The worker: pages
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
				    dmr_meta_name(t->meta), page->seg, r);
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
		wait_in(&dmr_word_page(word)->waiters, bio);
		is = COMING;
	} else if (!dmr_word_is_here(word) && (split || !dmr_word_is_whole(word))) {
		page = dmr_page_take(t);
		if (!page)
			is = NO_MEMORY;
	}
	if (page && !dmr_word_is_whole(word)) {
		dmr_page_begin_load(t, page, seg);
		wait_in(&page->waiters, bio);
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
 * The worker: bios. False: no page is to be had, try again later.
 */

static void submit_or_end(struct bio *bio, enum route route)
{
	if (route == GO)
		submit_bio_noacct(bio);
	else if (route == FAIL)
		bio_io_error(bio);
}

/* The first @sectors of @bio, which is what remains, or @bio itself. */
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

/* 1: goes on; 0: @bio waits or has ended; -1: no memory. */
static int have_page(struct dmr_table *t, struct bio *bio, bool split)
{
	switch (want_page(t, bio, dmr_block_seg(first_block(bio)), split)) {
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
		found = dmr_table_look_up(t, first_block(bio), &place);
		len = found ? run_sectors(t, bio, place) : 0;
		rcu_read_unlock();
		if (!found) {
			r = have_page(t, bio, false);
			if (r <= 0)
				return !r;
			part = NULL;
			continue;
		}
		part = cut_off(t, bio, len);
		submit_or_end(part, route_read(t, part, place));
	} while (part != bio);
	return true;
}

/* Once. Not here: kcopyd must not wait for itself. */
static bool copy_again(struct dmr_table *t, struct bio *bio)
{
	struct dmr_io *io = io_of(bio);
	unsigned long flags;

	if (io->copied_again)
		return false;
	io->copied_again = true;
	io->copy_failed = false;
	spin_lock_irqsave(&t->lock, flags);
	bio_list_add(&t->recopies, bio);
	queue_work(t->wq, &t->io_work);
	spin_unlock_irqrestore(&t->lock, flags);
	return true;
}

/*
 * Copies for these writes are on the base: they go when these are stable there. Should a
 * flush fail meanwhile, any flush, they may be lost.
 */
static void do_flush(struct work_struct *work)
{
	struct dmr_table *t = container_of(work, struct dmr_table, flush_work);
	unsigned int noio = memalloc_noio_save();
	struct bio_list bios;
	struct blk_plug plug;
	struct bio *bio;
	int r = 0;

	spin_lock_irq(&t->lock);
	bios = t->copied_up;
	bio_list_init(&t->copied_up);
	spin_unlock_irq(&t->lock);
	if (!bio_list_empty(&bios))
		r = dmr_flush_base(t->meta, t->base);
	/* No commit follows that would act on it. */
	if (r)
		dmr_writeback_base_lost(t, true);
	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&bios))) {
		struct dmr_io *io = io_of(bio);

		if (!r && io->losses == READ_ONCE(t->nr_losses)) {
			io->at_base = true;
			submit_bio_noacct(bio);
		} else if (!copy_again(t, bio)) {
			bio_io_error(bio);
		}
	}
	blk_finish_plug(&plug);
	memalloc_noio_restore(noio);
}

static void flush_copies(struct dmr_table *t, struct bio *bio)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	bio_list_add(&t->copied_up, bio);
	queue_work(t->wq, &t->flush_work);
	spin_unlock_irqrestore(&t->lock, flags);
}

/*
 * A piece of a copy-up has ended. kcopyd asks what the base can do before it makes zeros
 * there, and that may have changed when they arrive: it is asked again.
 */
static void copied(int read_err, unsigned long write_err, void *context)
{
	struct bio *bio = context;
	struct dmr_io *io = io_of(bio);
	struct dmr_table *t = io->page->table;

	if (read_err || write_err)
		io->copy_failed = true;
	if (!atomic_dec_and_test(&io->copies))
		return;
	if (!io->copy_failed)
		flush_copies(t, bio);
	else if (bdev_write_zeroes_sectors(t->base) || !copy_again(t, bio))
		bio_io_error(bio);
}

static void copy_up(struct dmr_table *t, struct bio *bio, struct pieces *pieces)
{
	unsigned int i;

	bio_set_dev(bio, t->base);
	io_of(bio)->losses = READ_ONCE(t->nr_losses);
	atomic_set(&io_of(bio)->copies, pieces->nr);
	for (i = 0; i < pieces->nr; i++) {
		struct piece *piece = &pieces->piece[i];

		dmr_copy_home(t, piece->place, piece->sector, piece->count,
			      copied, bio);
	}
}

/* Its blocks are busy, so that their entries are what they were. */
static void work_recopy(struct dmr_table *t, struct bio *bio)
{
	struct pieces pieces;
	bool found;

	spin_lock_irq(&t->lock);
	found = find_pieces(t, io_of(bio)->page, bio, &pieces);
	spin_unlock_irq(&t->lock);
	if (found)
		copy_up(t, bio, &pieces);
	else
		bio_io_error(bio);
}

static bool work_write(struct dmr_table *t, struct bio *bio)
{
	struct pieces pieces;
	enum route route;
	int r;

	io_of(bio)->in_work = true;
	for (;;) {
		rcu_read_lock();
		route = route_write(t, bio, &pieces);
		rcu_read_unlock();
		if (route != WORK)
			break;
		if (pieces.nr) {
			copy_up(t, bio, &pieces);
			return true;
		}
		r = have_page(t, bio, true);
		if (r <= 0)
			return !r;
	}
	submit_or_end(bio, route);
	return true;
}

/* Whole blocks of [@start, @end), as indices of @seg. */
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

/* POOL blocks become ZERO; those that are being written or copied stay. */
static void discard_entries(struct dmr_table *t, struct dmr_page *page,
			    unsigned int first, unsigned int end)
{
	lockdep_assert_held(&t->lock);
	for (; first < end; first++) {
		if (dmr_page_entry(page, first).kind == DMR_POOL &&
		    !test_bit(first, page->busy))
			dmr_page_change(page, first, DMR_ZERO, t->io_scratch[first]);
	}
}

enum discarded {
	DONE,
	NEEDS_PAGE,
	THROTTLED,
};

/* Of @seg, in which the first block is not BASE: blocks [@first, @end). */
static enum discarded discard_in(struct dmr_table *t, struct bio *bio, u64 seg,
				 unsigned int first, unsigned int end)
{
	static const struct dmr_entry zero = { .kind = DMR_ZERO };
	bool all = !first && end == dmr_table_blocks_in(t, seg);
	enum discarded done = DONE;
	struct dmr_page *page;
	u64 word;

	dmr_table_pack(t, seg, first, end - first, zero, t->io_scratch + first);
	spin_lock_irq(&t->lock);
	word = t->words[seg];
	page = dmr_word_page(word);
	if ((word & DMR_WORD_KIND) == DMR_POOL && all)
		dmr_table_set_word(t, seg, DMR_WORD_ZERO);
	else if ((word & DMR_WORD_KIND) == DMR_POOL ||
		 (!dmr_word_is_whole(word) && !dmr_word_is_here(word)))
		done = NEEDS_PAGE;
	else if (dmr_word_is_whole(word))
		done = DONE;
	else if (dmr_page_is_throttled(page))
		done = THROTTLED;
	else
		discard_entries(t, page, first, end);
	if (done == THROTTLED) {
		wait_in(&t->throttled, bio);
		dmr_writeback_kick(t);
	}
	spin_unlock_irq(&t->lock);
	return done;
}

/* Sectors of @bio from its first, within a segment, until one is BASE. */
static unsigned int not_base_sectors(struct dmr_table *t, struct bio *bio)
{
	u64 block = first_block(bio), last = last_block(bio);
	sector_t start = bio->bi_iter.bi_sector;
	struct dmr_entry place;

	last = min(last, block | (DMR_SEG_BLOCKS - 1));
	while (block < last) {
		if (!dmr_table_look_up(t, block + 1, &place) ||
		    place.kind == DMR_BASE)
			break;
		block++;
	}
	return min_t(u64, (block + 1) * DMR_BLOCK_SECTORS - start,
		     bio_sectors(bio));
}

/* A part whose first block is not BASE. 1: it is done; else as have_page(). */
static int work_discard_part(struct dmr_table *t, struct bio *bio,
			     unsigned int len)
{
	sector_t start = bio->bi_iter.bi_sector;
	u64 seg = dmr_block_seg(first_block(bio));
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

static void forget_marks(struct dmr_table *t, struct bio *bio)
{
	u64 block = first_block(bio), end = last_block(bio) + 1;

	while (dmr_is_watched(t) && block < end) {
		unsigned int first = dmr_block_index(block);
		unsigned int nr = min_t(u64, end - block, DMR_SEG_BLOCKS - first);

		spin_lock_irq(&t->lock);
		dmr_watch_clear(t, dmr_block_seg(block), first, nr);
		spin_unlock_irq(&t->lock);
		block += nr;
	}
}

static bool work_discard(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	unsigned int len;
	struct bio *part;
	bool found;
	int r;

	forget_marks(t, bio);
	do {
		part = NULL;
		rcu_read_lock();
		found = dmr_table_look_up(t, first_block(bio), &place);
		if (found)
			len = place.kind == DMR_BASE ?
			      run_sectors(t, bio, place) :
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
		if (place.kind == DMR_BASE)
			submit_or_end(part, discard_base(t, part));
		else
			bio_endio(part);
	} while (part != bio);
	return true;
}

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
 * A suspend waits for all bios. Those that wait themselves for a commit, or for a
 * page that only a commit can give, while none succeeds, go back where they came
 * from (noflush), or fail. Pages that are not dirty are to be had by and by.
 */
static void give_up(struct dmr_table *t, struct bio_list *bios)
{
	struct dm_target *ti = READ_ONCE(t->meta->ti);
	struct bio_list lost = BIO_EMPTY_LIST;
	struct bio *bio;

	if (!READ_ONCE(t->is_paused) || !READ_ONCE(t->commit_failed) || !ti)
		return;
	spin_lock_irq(&t->lock);
	bio_list_merge_init(&lost, &t->throttled);
	if (t->nr_pages >= t->max_pages && t->nr_dirty >= t->nr_pages)
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
		work_recopy(t, bio);
	while ((bio = bio_list_pop(&bios))) {
		if (work_bio(t, bio))
			continue;
		/* Whoever makes a page free queues us again. */
		bio_list_add_head(&bios, bio);
		break;
	}
	blk_finish_plug(&plug);
	give_up(t, &bios);
	if (!bio_list_empty(&bios)) {
		spin_lock_irq(&t->lock);
		bio_list_merge_head(&t->deferred, &bios);
		/* Who made one free meanwhile could not see that these wait. */
		if (!list_empty(&t->free))
			queue_work(t->wq, &t->io_work);
		queue_delayed_work(t->wq, &t->commit_work, HZ);
		spin_unlock_irq(&t->lock);
	}
	memalloc_noio_restore(noio);
}

void dmr_remap_resume(struct dmr_table *t, struct bio *bio)
{
	struct pieces pieces;
	enum route route = WORK;

	rcu_read_lock();
	if (bio_op(bio) != REQ_OP_DISCARD)
		route = route_write(t, bio, &pieces);
	rcu_read_unlock();
	if (route == WORK)
		defer(t, bio);
	else
		submit_or_end(bio, route);
}

void dmr_remap_init(struct dmr_table *t)
{
	bio_list_init(&t->deferred);
	bio_list_init(&t->throttled);
	bio_list_init(&t->recopies);
	bio_list_init(&t->copied_up);
	bio_list_init(&t->unflushed);
	INIT_LIST_HEAD(&t->loaded);
	INIT_WORK(&t->io_work, do_io);
	INIT_WORK(&t->flush_work, do_flush);
}
