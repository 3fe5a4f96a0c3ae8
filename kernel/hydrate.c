// SPDX-License-Identifier: GPL-2.0
/*
 * Copy blocks home in the background, until the volume is the same as a linear table
 * over the base. A copy is like a write home (remap.c): its blocks are busy while it
 * runs, and home when it has ended.
 *
 * The state is a flag in the superblock, so hydration goes on after a reload or a
 * crash. While a checkpoint waits there are no copies: the base is being read through
 * a snapshot then, which would have to save a block for each copy.
 */
#include <linux/sched/mm.h>

#include "copy.h"
#include "dmr_table.h"
#include "flight.h"
#include "hold.h"
#include "hydrate.h"
#include "packs.h"
#include "pages.h"
#include "queue.h"
#include "super.h"
#include "words.h"
#include "writeback.h"

/* Blocks of a copy. A write to one of them waits for all of it. */
#define COPY_BLOCKS	64U

/* A limit of speed is kept in each slice of time. */
#define SLICE		(HZ / 10)
#define SLICES_A_SECOND	10U

/* The pause between rounds, and after a round with errors. */
#define ROUND_GAP	HZ
#define ERROR_GAP	(10 * HZ)

/* ------------------------------------------------------------------
 * Copies
 */

static void again(struct dmr_table *t, unsigned long delay)
{
	queue_delayed_work(system_long_wq, &t->hydrate_work, delay);
}

static void copy_ended(int read_err, unsigned long write_err, void *context)
{
	struct dmr_copy *copy = context;
	struct dmr_table *t = copy->page->table;
	bool ok = !read_err && !write_err;
	unsigned long flags;

	if (!ok)
		DMERR_LIMIT("%s: cannot copy blocks of segment %llu back to the base",
			    dmr_name(t->meta), copy->page->seg);
	spin_lock_irqsave(&t->lock, flags);
	ok = ok && !copy->lost;
	dmr_page_came_home(copy->page, copy->first, copy->nr, ok, true);
	dmr_flight_end(t, copy->phase);
	if (!ok)
		t->hydrate_errors++;
	copy->page = NULL;
	t->nr_copies--;
	if (!t->is_paused)
		again(t, 0);
	wake_up_all(&t->page_wait);
	/* Once the lock is released and no copy is left, the table may be freed. */
	spin_unlock_irqrestore(&t->lock, flags);
}

static void start_copy(struct dmr_table *t, struct dmr_copy *copy,
		       struct dmr_entry place)
{
	u64 block = copy->page->seg * DMR_SEG_BLOCKS + copy->first;
	sector_t sector = block * DMR_BLOCK_SECTORS;

	dmr_copy_home(t, place, sector,
		      min_t(sector_t, copy->nr * DMR_BLOCK_SECTORS,
			    t->volume_sectors - sector), copy_ended, copy);
}

static bool can_copy(struct dmr_table *t, struct dmr_page *page, unsigned int i)
{
	struct dmr_entry place = dmr_page_entry(page, i);
	u64 block = page->seg * DMR_SEG_BLOCKS + i;

	if (test_bit(i, page->busy) || dmr_hold_find(t, block, block))
		return false;
	return place.kind == DMR_ZERO || dmr_copy_is_possible(t, place);
}

/* Find what can be copied at once, from block @i of the page on. */
static bool find_run(struct dmr_table *t, struct dmr_page *page, unsigned int i,
		     struct dmr_copy *copy, struct dmr_entry *place)
{
	unsigned int nr = 1, max = COPY_BLOCKS;

	lockdep_assert_held(&t->lock);
	while (i < DMR_SEG_BLOCKS && !can_copy(t, page, i))
		i++;
	if (i == DMR_SEG_BLOCKS)
		return false;
	*place = dmr_page_entry(page, i);
#ifndef DMR_NO_PACKS
	if (place->kind == DMR_PACK)
		max = dmr_packs_run(*place);
#endif
	while (nr < max && i + nr < DMR_SEG_BLOCKS &&
	       can_copy(t, page, i + nr) &&
	       dmr_entry_goes_on(*place, nr, dmr_page_entry(page, i + nr)))
		nr++;
	copy->page = page;
	copy->first = i;
	copy->nr = nr;
	return true;
}

static void lock_run(struct dmr_table *t, struct dmr_copy *copy)
{
	dmr_page_make_busy(copy->page, copy->first, copy->nr);
	copy->phase = dmr_flight_begin(t);
	copy->lost = false;
	t->nr_copies++;
	t->hydrate_cursor = copy->page->seg * DMR_SEG_BLOCKS + copy->first + copy->nr;
}

static bool is_all_base(struct dmr_page *page)
{
	return page->nr_base == DMR_SEG_BLOCKS;
}

enum step {
	STARTED,
	NOTHING,	/* in this segment */
	LATER,		/* too many pages wait for a write-back */
};

static enum step copy_from(struct dmr_table *t, struct dmr_copy *copy,
			   unsigned int *ret_nr)
{
	u64 seg = dmr_block_seg(t->hydrate_cursor);
	struct dmr_entry place;
	struct dmr_page *page;
	enum step step;

	if (READ_ONCE(t->words[seg]) == DMR_WORD_BASE)
		return NOTHING;
	if (dmr_page_get(t, seg, &page)) {
		t->hydrate_errors++;
		return NOTHING;
	}
	spin_lock_irq(&t->lock);
	if (dmr_page_is_throttled(page)) {
		dmr_queue_writeback(t);
		step = LATER;
	} else if (find_run(t, page, dmr_block_index(t->hydrate_cursor), copy, &place)) {
		lock_run(t, copy);
		*ret_nr = copy->nr;
		step = STARTED;
	} else {
		/* A crash came between the write of this page and that of its word. */
		if (is_all_base(page) && page->state == DMR_PAGE_CLEAN) {
			page->changed = true;
			dmr_page_mark_dirty(page);
		}
		step = NOTHING;
	}
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	if (step == STARTED)
		start_copy(t, copy, place);
	return step;
}

/* ------------------------------------------------------------------
 * The worker
 */

static bool is_on(struct dmr_table *t)
{
	return READ_ONCE(t->meta->super.flags) & DMR_FLAG_HYDRATE;
}

static bool may_copy(struct dmr_table *t)
{
	return is_on(t) && !READ_ONCE(t->is_paused) && t->base &&
	       !t->meta->read_only &&
	       !(READ_ONCE(t->meta->super.flags) & DMR_FLAG_FROZEN);
}

static struct dmr_copy *free_copy(struct dmr_table *t)
{
	unsigned int i;

	for (i = 0; i < DMR_MAX_COPIES; i++) {
		if (!READ_ONCE(t->copies[i].page))
			return &t->copies[i];
	}
	return NULL;
}

/* Begin a slice if one is due. False: this one is used up, the worker runs in the next. */
static bool take_slice(struct dmr_table *t)
{
	u32 mib = READ_ONCE(t->meta->super.hydrate_mib);

	if (!mib)
		return true;
	if (time_after_eq(jiffies, t->slice_end)) {
		s64 more = mib * (s64)(SZ_1M / DMR_BLOCK_SIZE) / SLICES_A_SECOND;

		/* A copy may take more than is left: the next slice gets less. */
		t->slice_left = min(t->slice_left + more, more);
		t->slice_end = jiffies + SLICE;
	}
	if (t->slice_left > 0)
		return true;
	again(t, SLICE);
	return false;
}

static void end_of_round(struct dmr_table *t)
{
	bool failed;

	/* Copies that run will bring the worker here again. */
	if (READ_ONCE(t->nr_copies))
		return;
	spin_lock_irq(&t->lock);
	failed = t->hydrate_errors;
	t->hydrate_errors = 0;
	t->hydrate_cursor = 0;
	spin_unlock_irq(&t->lock);
	/* A write-back ends hydration; if no change waits there would be none. */
	if (dmr_writeback_is_linear(t))
		mod_delayed_work(t->wq, &t->writeback_work, 0);
	again(t, failed ? ERROR_GAP : ROUND_GAP);
}

static void do_hydrate(struct work_struct *work)
{
	struct dmr_table *t = container_of(to_delayed_work(work),
					   struct dmr_table, hydrate_work);
	unsigned int noio = memalloc_noio_save();
	u64 end = t->nr_segs * DMR_SEG_BLOCKS;
	struct dmr_copy *copy;
	unsigned int nr;

	while (may_copy(t) && take_slice(t)) {
		copy = free_copy(t);
		if (!copy)
			break;
		if (t->hydrate_cursor >= end) {
			end_of_round(t);
			break;
		}
		switch (copy_from(t, copy, &nr)) {
		case STARTED:
			t->slice_left -= nr;
			break;
		case NOTHING:
			t->hydrate_cursor = (dmr_block_seg(t->hydrate_cursor) + 1) *
					    DMR_SEG_BLOCKS;
			break;
		case LATER:
			again(t, SLICE);
			goto out;
		}
		cond_resched();
	}
out:
	memalloc_noio_restore(noio);
}

/* ------------------------------------------------------------------
 * Control
 */

static int write_flag(struct dmr_table *t, bool on, u32 mib)
{
	struct dmr_super super = t->meta->super;

	lockdep_assert_held(&t->meta->lock);
	super.flags &= ~DMR_FLAG_HYDRATE;
	if (on)
		super.flags |= DMR_FLAG_HYDRATE;
	super.hydrate_mib = mib;
	return dmr_super_write(t->meta, &super);
}

int dmr_hydrate_start(struct dmr_table *t, u32 mib)
{
	int r;

	if (t->meta->super.flags & DMR_FLAG_LINEAR_OK)
		return 0;
	r = write_flag(t, true, mib);
	if (r)
		return r;
	t->slice_end = jiffies;
	dmr_hydrate_kick(t);
	return 0;
}

int dmr_hydrate_stop(struct dmr_table *t)
{
	return is_on(t) ? write_flag(t, false, 0) : 0;
}

void dmr_hydrate_pause(struct dmr_table *t)
{
	spin_lock_irq(&t->lock);
	t->is_paused = true;
	/* Have the worker end bios that would keep a suspend waiting: give_up(). */
	queue_work(t->wq, &t->io_work);
	spin_unlock_irq(&t->lock);
	cancel_delayed_work_sync(&t->hydrate_work);
	wait_event(t->page_wait, !READ_ONCE(t->nr_copies));
	/* Wait until the last one has left copy_ended(). */
	spin_lock_irq(&t->lock);
	spin_unlock_irq(&t->lock);
}

void dmr_hydrate_kick(struct dmr_table *t)
{
	spin_lock_irq(&t->lock);
	if (!t->is_paused && is_on(t))
		mod_delayed_work(system_long_wq, &t->hydrate_work, 0);
	spin_unlock_irq(&t->lock);
}

void dmr_hydrate_resume(struct dmr_table *t)
{
	spin_lock_irq(&t->lock);
	t->is_paused = false;
	spin_unlock_irq(&t->lock);
	dmr_hydrate_kick(t);
}

const char *dmr_hydrate_state(struct dmr_table *t)
{
	if (!is_on(t))
		return "off";
	return may_copy(t) ? "on" : "paused";
}

void dmr_hydrate_init(struct dmr_table *t)
{
	t->is_paused = true;
	INIT_DELAYED_WORK(&t->hydrate_work, do_hydrate);
}
