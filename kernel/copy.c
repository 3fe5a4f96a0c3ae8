// SPDX-License-Identifier: GPL-2.0
/*
 * Copies of blocks to the base, by kcopyd.
 *
 * A write that covers a part of a block which is not home has the block copied home
 * first. The base is flushed behind that copy: should it lose its cache later, the writer
 * learns of it and writes again what it has written, but not the rest of the block.
 */
#include <linux/blkdev.h>
#include <linux/sched/mm.h>

#include "copy.h"
#include "dmr_table.h"
#include "flush.h"
#include "packs.h"
#include "words.h"

void dmr_copy_home(struct dmr_table *t, struct dmr_entry place, sector_t sector,
		   sector_t count, dm_kcopyd_notify_fn fn, void *context)
{
	struct dm_io_region to = {
		.bdev = t->base,
		.sector = sector,
		.count = count,
	};
	struct dm_io_region from = {
		.bdev = t->pool,
		.sector = place.block * DMR_BLOCK_SECTORS +
			  sector % DMR_BLOCK_SECTORS,
		.count = count,
	};

#ifndef DMR_NO_PACKS
	if (place.kind == DMR_PACK) {
		dmr_packs_copy_home(t, place, sector, count, fn, context);
		return;
	}
#endif
	if (place.kind == DMR_POOL)
		dm_kcopyd_copy(t->kcopyd, &from, 1, &to, 0, fn, context);
	else
		dm_kcopyd_zero(t->kcopyd, 1, &to, 0, fn, context);
}

/* ------------------------------------------------------------------
 * What is to be copied
 */

static void add_piece(struct dmr_table *t, struct dmr_page *page, u64 block,
		      struct dmr_pieces *pieces)
{
	struct dmr_entry place = dmr_page_entry(page, dmr_block_index(block));
	struct dmr_piece *piece = &pieces->piece[pieces->nr];

	if (place.kind == DMR_BASE)
		return;
	piece->sector = block * DMR_BLOCK_SECTORS;
	piece->count = min_t(sector_t, DMR_BLOCK_SECTORS,
			     t->volume_sectors - piece->sector);
	piece->place = place;
	pieces->nr++;
}

bool dmr_copy_find_pieces(struct dmr_table *t, struct dmr_page *page,
			  struct bio *bio, struct dmr_pieces *pieces)
{
	u64 first = dmr_bio_first_block(bio), last = dmr_bio_last_block(bio);
	unsigned int i;

	pieces->nr = 0;
	if (!dmr_copy_covers_start(bio))
		add_piece(t, page, first, pieces);
	if (!dmr_copy_covers_end(t, bio) && (first != last || !pieces->nr))
		add_piece(t, page, last, pieces);
	for (i = 0; i < pieces->nr; i++) {
		struct dmr_entry place = pieces->piece[i].place;

		if (place.kind != DMR_ZERO && !dmr_copy_is_possible(t, place))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------
 * Copying, flushing, issuing
 */

/* Have the worker copy again, once: in kcopyd's own thread it would wait for itself. */
static bool copy_again(struct dmr_table *t, struct bio *bio)
{
	struct dmr_io *io = dmr_io_of(bio);
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
 * Issue the writes whose copies are on the base, once these are stable there. If any
 * flush of the base fails meanwhile, the copies may be lost.
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
	/* No write-back follows here that would act on it. */
	if (r)
		dmr_flush_base_lost(t, true);
	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&bios))) {
		struct dmr_io *io = dmr_io_of(bio);

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
 * End a piece of a copy-up. kcopyd zeroes in the way that the base supports when it
 * begins. If the base has lost write zeroes by then, copy again: kcopyd asks again.
 */
static void copied(int read_err, unsigned long write_err, void *context)
{
	struct bio *bio = context;
	struct dmr_io *io = dmr_io_of(bio);
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

void dmr_copy_up(struct dmr_table *t, struct bio *bio, struct dmr_pieces *pieces)
{
	unsigned int i;

	bio_set_dev(bio, t->base);
	dmr_io_of(bio)->losses = READ_ONCE(t->nr_losses);
	atomic_set(&dmr_io_of(bio)->copies, pieces->nr);
	for (i = 0; i < pieces->nr; i++) {
		struct dmr_piece *piece = &pieces->piece[i];

		dmr_copy_home(t, piece->place, piece->sector, piece->count,
			      copied, bio);
	}
}

void dmr_copy_up_again(struct dmr_table *t, struct bio *bio)
{
	struct dmr_pieces pieces;
	bool found;

	spin_lock_irq(&t->lock);
	found = dmr_copy_find_pieces(t, dmr_io_of(bio)->page, bio, &pieces);
	spin_unlock_irq(&t->lock);
	if (found)
		dmr_copy_up(t, bio, &pieces);
	else
		bio_io_error(bio);
}

void dmr_copy_init(struct dmr_table *t)
{
	bio_list_init(&t->recopies);
	bio_list_init(&t->copied_up);
	INIT_WORK(&t->flush_work, do_flush);
}
