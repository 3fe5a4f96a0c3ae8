// SPDX-License-Identifier: GPL-2.0
/*
 * Bios on their way through the table: each 4 KiB block is read from the volume, from zeros
 * or from a pool, while writes go home.
 *
 * A device without a remap table has a path of its own in target.c, although this one with
 * all words BASE would do the same: that costs more. In counted instructions, reads and
 * writes of 4 KiB have 0.99 of the speed of dm-linear or more without a table, and 0.97 to
 * 0.98 with a table in which all words are BASE. The command
 * "tests/bench/target/run.sh --only counted --table steady" prints both ratios.
 *
 * map sends a bio on at once if it can: a read to the place of its first block, as
 * far as the run there goes; a write to the base. A bio that has to wait or to sleep
 * goes to the worker of deferred.c, which sends it on by pieces.
 *
 * A write that touches blocks which are not BASE comes home:
 *
 *   1. its blocks are made busy: other writes to them wait in the page, and no
 *      copy home starts. If one is busy already, or held (hold.h), the write itself
 *      waits. Reads go on from the old place
 *   2. a first or last block that it covers in part is copied home (copy.c)
 *   3. the write goes to the base
 *   4. when it has completed its blocks are home: reads find them on the base,
 *      and the change waits for a write-back. They are not busy any more
 *
 * If the write fails, its blocks stay at the old place, which nothing overwrites.
 */
#include <linux/blkdev.h>

#include "copy.h"
#include "dirty.h"
#include "dmr_table.h"
#include "flight.h"
#include "flush.h"
#include "hold.h"
#include "packs.h"
#include "pages.h"
#include "queue.h"
#include "remap.h"
#include "units.h"
#include "watch.h"
#include "words.h"

static enum dmr_route to_base(struct dmr_table *t, struct bio *bio)
{
	if (!t->base)
		return DMR_FAIL;
	bio_set_dev(bio, t->base);
	return DMR_ISSUE;
}

/* For writes only: a read may be a part of a bio, which has no struct dmr_io. */
static enum dmr_route write_to_base(struct dmr_table *t, struct bio *bio)
{
	dmr_io_of(bio)->at_base = true;
	return to_base(t, bio);
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

/* Was @block copied home, and no flush has made that stable yet? */
static bool is_fresh_copy(struct dmr_page *page, u64 block)
{
	unsigned int i = dmr_block_index(block);

	return test_bit(i, page->home) && test_bit(i, page->copied);
}

/* Would @bio overwrite a part of such a block, of which the rest may be taken back? */
static bool splits_copy(struct dmr_table *t, struct dmr_page *page, struct bio *bio)
{
	return (!dmr_copy_covers_start(bio) && is_fresh_copy(page, dmr_bio_first_block(bio))) ||
	       (!dmr_copy_covers_end(t, bio) && is_fresh_copy(page, dmr_bio_last_block(bio)));
}

static bool is_busy(struct dmr_page *page, unsigned int first, unsigned int nr)
{
	return find_next_bit(page->busy, first + nr, first) < first + nr;
}

/* Lock the blocks of @bio, a write, if they have to come home. Under t->lock. */
static enum dmr_route lock_home(struct dmr_table *t, struct bio *bio,
				struct dmr_pieces *pieces)
{
	u64 block = dmr_bio_first_block(bio);
	unsigned int first = dmr_block_index(block);
	unsigned int nr = dmr_bio_last_block(bio) - block + 1;
	u64 word = t->words[dmr_block_seg(block)];
	struct dmr_io *io = dmr_io_of(bio);
	struct dmr_hold *hold;
	struct dmr_page *page;

	if (word == DMR_WORD_BASE)
		return DMR_ISSUE;
	if (word == DMR_WORD_BAD)
		return DMR_FAIL;
	hold = dmr_hold_find(t, block, block + nr - 1);
	if (unlikely(hold)) {
		dmr_queue_in(&hold->waiters, bio);
		return DMR_TAKEN;
	}
	if (!dmr_word_is_here(word))
		return DMR_DEFER;
	page = dmr_word_page(word);
	if (splits_copy(t, page, bio)) {
		dmr_queue_in(&t->unflushed, bio);
		dmr_queue_writeback(t);
		return DMR_TAKEN;
	}
	if (all_base(page, first, first + nr - 1) &&
	    find_next_bit(page->copied, first + nr, first) >= first + nr)
		return DMR_ISSUE;
	if (is_busy(page, first, nr)) {
		dmr_queue_in(&page->waiters, bio);
		return DMR_TAKEN;
	}
	if (dmr_page_is_throttled(page)) {
		dmr_queue_in(&t->throttled, bio);
		dmr_queue_writeback(t);
		return DMR_TAKEN;
	}
	if (!dmr_copy_find_pieces(t, page, bio, pieces))
		return DMR_FAIL;
	/* map cannot copy. */
	if (pieces->nr && !io->in_work)
		return DMR_DEFER;
	dmr_page_make_busy(page, first, nr);
	io->homing = true;
	io->page = page;
	io->first = first;
	io->nr = nr;
	return pieces->nr ? DMR_DEFER : DMR_ISSUE;
}

/* Need nothing change for @bio, a write? Takes no lock. */
static bool is_home(struct dmr_table *t, struct bio *bio)
{
	unsigned int first = dmr_block_index(dmr_bio_first_block(bio));
	unsigned int last = dmr_block_index(dmr_bio_last_block(bio));
	u64 word = dmr_word_get(t, dmr_block_seg(dmr_bio_first_block(bio)));
	struct dmr_page *page;
	unsigned int losses;

	if (word == DMR_WORD_BASE)
		return true;
	if (!dmr_word_is_here(word))
		return false;
	/* A copy can be taken back, but not from under a write. */
	losses = raw_seqcount_begin(&t->losses);
	page = dmr_word_page(word);
	if (!all_base(page, first, last))
		return false;
	/* Pairs with set_home(). */
	smp_rmb();
	return find_next_bit(page->copied, last + 1, first) > last &&
	       !read_seqcount_retry(&t->losses, losses);
}

#ifndef DMR_NO_ALIAS
/* Under t->lock. */
static void forget_marks(struct dmr_table *t, struct bio *bio)
{
	u64 block = dmr_bio_first_block(bio), seg = dmr_block_seg(block);

	if (dmr_watch_has(t, seg, seg))
		dmr_watch_clear(t, seg, dmr_block_index(block),
				dmr_bio_last_block(bio) - block + 1);
}
#endif

/* May @bio go to the base at once, and does nothing have to know of it? */
static bool is_plain_write(struct dmr_table *t, struct bio *bio)
{
#ifndef DMR_NO_ALIAS
	u64 seg = dmr_block_seg(dmr_bio_first_block(bio));

	if (unlikely(dmr_watch_has(t, seg, seg)))
		return false;
#endif
	return is_home(t, bio);
}

enum dmr_route dmr_remap_route_write(struct dmr_table *t, struct bio *bio,
				     struct dmr_pieces *pieces)
{
	unsigned long flags;
	enum dmr_route route;

	pieces->nr = 0;
	if (is_plain_write(t, bio))
		return write_to_base(t, bio);

	spin_lock_irqsave(&t->lock, flags);
#ifndef DMR_NO_ALIAS
	forget_marks(t, bio);
#endif
	route = lock_home(t, bio, pieces);
	spin_unlock_irqrestore(&t->lock, flags);
	return route == DMR_ISSUE ? write_to_base(t, bio) : route;
}

/* ------------------------------------------------------------------
 * Reads and discards
 */

unsigned int dmr_remap_run_sectors(struct dmr_table *t, struct bio *bio,
				   struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;
	u64 max = dmr_bio_last_block(bio) - dmr_bio_first_block(bio) + 1;
	u64 len;

	/* A pool that has become smaller; see dmr_remap_route_read(). */
	if (place.kind == DMR_POOL && place.block < t->pool_blocks)
		max = min(max, t->pool_blocks - place.block);
#ifndef DMR_NO_PACKS
	if (place.kind == DMR_PACK)
		max = min_t(u64, max, dmr_packs_run(place));
#endif
	len = dmr_words_run(t, dmr_bio_first_block(bio), max, place);
	return min_t(u64, len * DMR_BLOCK_SECTORS - into, bio_sectors(bio));
}

enum dmr_route dmr_remap_route_read(struct dmr_table *t, struct bio *bio,
				    struct dmr_entry place)
{
	unsigned int into = bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS;

	switch (place.kind) {
	case DMR_BASE:
		return to_base(t, bio);
	case DMR_ZERO:
		zero_fill_bio(bio);
		bio_endio(bio);
		return DMR_TAKEN;
	case DMR_POOL:
		if (unlikely(place.block >= t->pool_blocks))
			return DMR_FAIL;
		bio_set_dev(bio, t->pool);
		bio->bi_iter.bi_sector = place.block * DMR_BLOCK_SECTORS + into;
		return DMR_ISSUE;
#ifndef DMR_NO_PACKS
	case DMR_PACK:
		if (unlikely(!dmr_copy_is_possible(t, place)))
			return DMR_FAIL;
		dmr_packs_read(t, bio, place);
		return DMR_TAKEN;
#endif
	default:
		return DMR_FAIL;
	}
}

/* A discard that the base does not support at the moment changes nothing. */
enum dmr_route dmr_remap_route_discard(struct dmr_table *t, struct bio *bio)
{
	if (t->base && bdev_max_discard_sectors(t->base))
		return to_base(t, bio);
	bio_endio(bio);
	return DMR_TAKEN;
}

/*
 * May @bio not wait, so that it is to be refused where it might? Of a bio that is polled for,
 * device-mapper takes EAGAIN for itself: it sends it again in a thread of its own, where the next
 * EAGAIN goes to the program. So its submitter waits.
 */
static bool would_block(struct bio *bio)
{
	if (!(bio->bi_opf & REQ_NOWAIT))
		return false;
	if (!(bio->bi_opf & REQ_POLLED))
		return true;
	bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
	return false;
}

/*
 * Accept as much of a read as lies in one run. A read that may not wait is refused whole, as the
 * block layer refuses to split one: a device could refuse a part when another part is in flight.
 * The EAGAIN of the whole comes in another context then, in which io_uring cannot hand the read
 * to a thread that may wait. So the program gets it, which has not asked for that, and the same
 * whenever it tries again. The worker splits one that is polled for; see would_block().
 */
static enum dmr_route map_read(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	enum dmr_route route;
	unsigned int len;

	if (!dmr_words_look_up(t, dmr_bio_first_block(bio), &place))
		return DMR_DEFER;
	len = dmr_remap_run_sectors(t, bio, place);
	if (len < bio_sectors(bio)) {
		if (bio->bi_opf & REQ_NOWAIT) {
			if (bio->bi_opf & REQ_POLLED)
				return DMR_DEFER;
			bio_wouldblock_error(bio);
			return DMR_TAKEN;
		}
		dm_accept_partial_bio(bio, len);
	}
	route = dmr_remap_route_read(t, bio, place);
	if (route == DMR_ISSUE && unlikely(!bdev_nowait(bio->bi_bdev)) &&
	    would_block(bio)) {
		bio_wouldblock_error(bio);
		return DMR_TAKEN;
	}
	return route;
}

/* Are the segments in which @bio begins and ends BASE, all of them? */
static bool has_base_ends(struct dmr_table *t, struct bio *bio)
{
	return dmr_word_get(t, dmr_block_seg(dmr_bio_first_block(bio))) == DMR_WORD_BASE &&
	       dmr_word_get(t, dmr_block_seg(dmr_bio_last_block(bio))) == DMR_WORD_BASE;
}

static enum dmr_route map_discard(struct dmr_table *t, struct bio *bio)
{
	struct dmr_entry place;
	unsigned int len;

#ifndef DMR_NO_ALIAS
	if (dmr_watch_has(t, dmr_block_seg(dmr_bio_first_block(bio)),
			  dmr_block_seg(dmr_bio_last_block(bio))))
		return DMR_DEFER;
#endif
	if (!dmr_words_look_up(t, dmr_bio_first_block(bio), &place) ||
	    place.kind != DMR_BASE)
		return DMR_DEFER;
	len = dmr_remap_run_sectors(t, bio, place);
	/* The worker may discard more, with blocks beside it that the base has nothing of. */
	if (dmr_units_exist(t) && (len < bio_sectors(bio) || !has_base_ends(t, bio)))
		return DMR_DEFER;
	if (len < bio_sectors(bio))
		dm_accept_partial_bio(bio, len);
	return dmr_remap_route_discard(t, bio);
}

/* ------------------------------------------------------------------
 * map
 */

static int map_result(struct dmr_table *t, struct bio *bio, enum dmr_route route)
{
	switch (route) {
	case DMR_ISSUE:
		return DM_MAPIO_REMAPPED;
	case DMR_DEFER:
		dmr_queue_bio(t, bio);
		break;
	case DMR_FAIL:
		bio_io_error(bio);
		break;
	case DMR_TAKEN:
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
		dmr_io_of(bio)->at_base = true;
		return DM_MAPIO_REMAPPED;
	}
	dmr_queue_flush(t, bio);
	return DM_MAPIO_SUBMITTED;
}

/*
 * Accept the part of a write that is in one segment, unless it may not wait: see map_read(). There
 * can be none of it then.
 */
static bool accept_segment(struct bio *bio)
{
	sector_t start = bio->bi_iter.bi_sector;
	unsigned int room = DMR_SEG_SECTORS - (start & (DMR_SEG_SECTORS - 1));

	if (likely(bio_sectors(bio) <= room))
		return true;
	if (would_block(bio))
		return false;
	dm_accept_partial_bio(bio, room);
	return true;
}

/* Not inline: many kernels zero the whole stack frame of a function, here *pieces. */
static noinline int map_change(struct dmr_table *t, struct bio *bio)
{
	struct dmr_pieces pieces;

	return map_result(t, bio, dmr_remap_route_write(t, bio, &pieces));
}

static int map_write(struct dmr_table *t, struct dmr_target *rt, struct bio *bio,
		     struct dmr_io *io)
{
	enum req_op op = bio_op(bio);

	if (likely(op != REQ_OP_DISCARD)) {
		if (unlikely(!accept_segment(bio))) {
			bio_wouldblock_error(bio);
			return DM_MAPIO_SUBMITTED;
		}
	} else if (!READ_ONCE(t->nr[DMR_POOL]) &&
		   !bdev_max_discard_sectors(t->base)) {
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (unlikely(bio->bi_opf & REQ_FUA))
		io->fua = true;
	if (unlikely(op == REQ_OP_WRITE_ZEROES)) {
		io->base = t->base;
		io->sector = bio->bi_iter.bi_sector;
		io->sectors = bio_sectors(bio);
	}
	if (unlikely(!dmr_dirty_is_stable(rt->meta, bio))) {
		bio->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
		dmr_queue_first_write(rt->meta, bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (unlikely(op == REQ_OP_DISCARD))
		return map_result(t, bio, map_discard(t, bio));
	if (likely(is_plain_write(t, bio)))
		return map_result(t, bio, write_to_base(t, bio));
	return map_change(t, bio);
}

int dmr_remap_map(struct dmr_table *t, struct dmr_target *rt, struct bio *bio)
{
	struct dmr_io *io = dmr_io_of(bio);
	bool write = op_is_write(bio_op(bio));
	int r;

	io->counted = false;
	io->fua = false;
	io->homing = false;
	io->written_back = false;
	io->at_base = false;
	io->in_work = false;
	io->copy_failed = false;
	io->copied_again = false;
	if (!bio_sectors(bio))
		return map_flush(t, bio);
	/* A write goes to the base, or to the worker, and then to the base. */
	if (write && t->base && unlikely(!bdev_nowait(t->base)) && would_block(bio)) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	/* A program that had the device open for writing before can still write. */
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

/* ------------------------------------------------------------------
 * After map
 */

void dmr_remap_submit(struct bio *bio, enum dmr_route route)
{
	if (route == DMR_ISSUE)
		submit_bio_noacct(bio);
	else if (route == DMR_FAIL)
		bio_io_error(bio);
}

void dmr_remap_resume(struct dmr_table *t, struct bio *bio)
{
	struct dmr_pieces pieces;
	enum dmr_route route = DMR_DEFER;

	rcu_read_lock();
	if (bio_op(bio) != REQ_OP_DISCARD)
		route = dmr_remap_route_write(t, bio, &pieces);
	rcu_read_unlock();
	if (route == DMR_DEFER)
		dmr_queue_bio(t, bio);
	else
		dmr_remap_submit(bio, route);
}

static int end_write(struct dmr_table *t, struct bio *bio, struct dmr_io *io,
		     blk_status_t *error)
{
	unsigned long flags;

	if (io->homing) {
		io->homing = false;
		spin_lock_irqsave(&t->lock, flags);
		dmr_page_came_home(io->page, io->first, io->nr, !*error, false);
		spin_unlock_irqrestore(&t->lock, flags);
	}
	/* The entry may be in memory only, even one that another write has changed. */
	if (io->fua && !*error && !io->written_back && dmr_table_waits(t)) {
		io->written_back = true;
		io->at_base = false;
		dmr_queue_flush(t, bio);
		return DM_ENDIO_INCOMPLETE;
	}
	return DM_ENDIO_DONE;
}

int dmr_remap_end_io(struct dmr_table *t, struct bio *bio, blk_status_t *error)
{
	struct dmr_io *io = dmr_io_of(bio);

	if (unlikely(io->homing || io->fua) &&
	    end_write(t, bio, io, error) == DM_ENDIO_INCOMPLETE)
		return DM_ENDIO_INCOMPLETE;
	if (likely(io->counted))
		dmr_flight_end(t, io->phase);
	return DM_ENDIO_DONE;
}

void dmr_remap_note_error(struct dmr_table *t, struct bio *bio, blk_status_t error)
{
	if (dmr_io_of(bio)->at_base && error != BLK_STS_AGAIN &&
	    error != BLK_STS_DM_REQUEUE && error != BLK_STS_NOSPC)
		dmr_flush_base_lost(t, true);
}
