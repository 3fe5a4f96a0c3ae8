// SPDX-License-Identifier: GPL-2.0
/*
 * The message shed: space of the base is given back.
 *
 * A unit of the base (units.h) can be discarded while no block of it is BASE, in memory and
 * in the table that a crash leaves, no I/O in flight uses the base there, and none comes:
 *
 *   1. a settle: what is POOL or ZERO in memory from now on is not BASE on disk either, as
 *      only alias makes BASE blocks POOL or ZERO; and reads and writes of the base that saw
 *      an older table have ended
 *   2. the blocks are held: no write or copy brings one home
 *   3. no block is BASE, and none is busy, which a write is that came before
 *   4. the discard. Writes that came meanwhile go on when it has ended
 *
 * If the power fails the discard has happened or not, and nothing reads there. A block that
 * is ZERO can come home then, if the base reads zeros: it is a copy home like those of
 * hydrate.c, stable behind the next flush of the base, and back at its old place if that fails.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "dmr_table.h"
#include "hold.h"
#include "pages.h"
#include "parts.h"
#include "shed.h"
#include "super.h"
#include "units.h"
#include "words.h"
#include "writeback.h"

/* Bytes that are read back at a time. */
#define READ_SIZE	SZ_64K

/*
 * Is no block of these, which are held, BASE or busy? 1, 0, or -errno where the message is to
 * end. A page that cannot be read counts as BASE.
 */
static int find_away(struct dmr_table *t, u64 first, u64 end)
{
	struct dmr_page *page;
	int r = 1;

	while (r > 0 && first < end) {
		u64 next = min(end, (dmr_block_seg(first) + 1) * DMR_SEG_BLOCKS);

		spin_lock_irq(&t->lock);
		r = dmr_unit_look(t, first, next);
		spin_unlock_irq(&t->lock);
		if (r != -EAGAIN) {
			/* The blocks are held, so they stay away. */
			first = next;
			continue;
		}
		r = dmr_parts_may_continue(t);
		if (r)
			return r;
		r = dmr_page_get(t, dmr_block_seg(first), &page);
		if (r)
			return r == -ERESTARTSYS ? r : 0;
		dmr_page_put(page);
		r = 1;
	}
	return r;
}

/* ------------------------------------------------------------------
 * Zeros come home
 */

/* What a message needs. */
struct shed {
	struct dmr_table *t;
	struct dmr_hold hold;
	unsigned int unit;
	void *buf;			/* READ_SIZE bytes; NULL: zeros stay where they are */
};

/* A range that is in one segment, and was discarded. */
struct given {
	u64 seg;
	unsigned int first;
	unsigned int end;
	unsigned int losses;		/* t->nr_losses before that */
};

static bool has_zeros(struct dmr_table *t, const struct given *given)
{
	u64 block = given->seg * DMR_SEG_BLOCKS + given->first, word;
	struct dmr_entry place;
	unsigned int i;
	bool has;

	rcu_read_lock();
	word = dmr_word_get(t, given->seg);
	has = word == DMR_WORD_ZERO;
	/* If the page is not here any more, it may have some. */
	for (i = given->first; !dmr_word_is_whole(word) && !has && i < given->end; i++, block++)
		has = !dmr_words_look_up(t, block, &place) || place.kind == DMR_ZERO;
	rcu_read_unlock();
	return has;
}

/* Check that the base reads zeros there: a thin pool that is read-only ignores discards. */
static int check_zeros(struct shed *shed, const struct given *given)
{
	struct dmr_table *t = shed->t;
	struct dm_io_region where = {
		.bdev = t->base,
		.sector = (given->seg * DMR_SEG_BLOCKS + given->first) * DMR_BLOCK_SECTORS,
	};
	struct dm_io_request req = {
		.bi_opf = REQ_OP_READ,
		.mem.type = DM_IO_KMEM,
		.mem.ptr.addr = shed->buf,
		.client = t->io,
	};
	u64 left = (given->end - given->first) * DMR_BLOCK_SECTORS;
	int r;

	for (; left; left -= where.count, where.sector += where.count) {
		where.count = min_t(u64, left, READ_SIZE >> SECTOR_SHIFT);
		r = dmr_parts_may_continue(t);
		if (r)
			return r;
		r = dmr_dm_io(&req, 1, &where, NULL);
		if (r)
			return r;
		if (!memchr_inv(shed->buf, 0, where.count << SECTOR_SHIFT))
			continue;
		DMERR("%s: shed: the base %pg does not read zeros where it was discarded (sector %llu)",
		      dmr_name(t->meta), t->base, (u64)where.sector);
		return -EIO;
	}
	return 0;
}

/* Make all blocks that are ZERO home. Under t->lock. */
static void zeros_came_home(struct dmr_page *page, const struct given *given)
{
	unsigned int i, nr;

	for (i = given->first; i < given->end; i += nr) {
		enum dmr_kind kind = dmr_page_entry(page, i).kind;

		for (nr = 1; i + nr < given->end &&
		     dmr_page_entry(page, i + nr).kind == kind; nr++)
			;
		if (kind != DMR_ZERO)
			continue;
		dmr_page_make_busy(page, i, nr);
		dmr_page_came_home(page, i, nr, true, true);
	}
}

static int bring_home(struct shed *shed, const struct given *given)
{
	struct dmr_table *t = shed->t;
	struct dmr_page *page;
	int r;

	if (!has_zeros(t, given))
		return 0;
	r = check_zeros(shed, given);
	if (!r && READ_ONCE(t->nr_dirty) >= t->max_dirty)
		r = dmr_writeback(t);
	if (!r)
		r = dmr_page_get(t, given->seg, &page);
	if (r)
		return r;
	spin_lock_irq(&t->lock);
	/* A write-back takes back what came home before the base lost its cache, not this. */
	if (t->nr_losses != given->losses)
		r = -EIO;
	else
		zeros_came_home(page, given);
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	return r;
}

/* ------------------------------------------------------------------
 * The message
 */

static int give_back(struct shed *shed, u64 first, u64 end)
{
	struct dmr_table *t = shed->t;
	unsigned int losses = READ_ONCE(t->nr_losses);
	int r;

	r = blkdev_issue_discard(t->base, first * DMR_BLOCK_SECTORS,
				 (end - first) * DMR_BLOCK_SECTORS, GFP_NOIO);
	while (!r && shed->buf && first < end) {
		u64 next = min(end, (dmr_block_seg(first) + 1) * DMR_SEG_BLOCKS);
		const struct given given = {
			.seg = dmr_block_seg(first),
			.first = dmr_block_index(first),
			.end = dmr_block_index(next - 1) + 1,
			.losses = losses,
		};

		r = bring_home(shed, &given);
		first = next;
	}
	return r;
}

/* Discard runs of units that are away, of those that are held. */
static int shed_held(struct shed *shed)
{
	u64 first = shed->hold.first, end;
	int r = 0, away = 0;

	while (!r && first < shed->hold.end) {
		for (end = first; end < shed->hold.end; end += shed->unit) {
			away = find_away(shed->t, end, end + shed->unit);
			if (away <= 0)
				break;
		}
		r = min(away, 0);
		/* A block that was home since the settle is read there, maybe. */
		if (!r && read_seqcount_retry(&shed->t->losses, shed->t->losses_before))
			r = -EIO;
		if (!r && end > first)
			r = give_back(shed, first, end);
		first = end + shed->unit;
	}
	return r;
}

/* Hold blocks, once a discard from above that holds some of them has ended. */
static void hold(struct shed *shed, u64 first, u64 end)
{
	struct dmr_table *t = shed->t;

	spin_lock_irq(&t->lock);
	wait_event_lock_irq(t->page_wait, !dmr_hold_find(t, first, end - 1), t->lock);
	dmr_hold_begin(t, &shed->hold, first, end);
	spin_unlock_irq(&t->lock);
}

/* Sent again, it discards again what is still away, and looks for zeros there. */
static int shed_range(struct shed *shed, const struct dmr_range *range)
{
	struct dmr_table *t = shed->t;
	/* Not a last block that is not whole. */
	u64 limit = min(range->first + range->len, t->volume_sectors / DMR_BLOCK_SECTORS);
	u64 first = DIV_ROUND_UP_ULL(range->first, shed->unit) * shed->unit;
	u64 end = limit / shed->unit * shed->unit;
	/* So many wait at a time. */
	u64 step = max(DMR_SEG_BLOCKS / shed->unit, 1U) * shed->unit;
	int r = 0;

	for (; !r && first < end; first += step) {
		r = dmr_parts_may_continue(t);
		if (r)
			break;
		hold(shed, first, min(end, first + step));
		r = shed_held(shed);
		spin_lock_irq(&t->lock);
		dmr_hold_end(t, &shed->hold);
		spin_unlock_irq(&t->lock);
		cond_resched();
	}
	return r;
}

static const char *why_not(struct dmr_table *t)
{
	u32 flags = READ_ONCE(t->meta->super.flags);

	if (READ_ONCE(t->is_paused))
		return "resume the device first";
	/* The base is the origin of a snapshot then. */
	if (flags & DMR_FLAG_FROZEN)
		return "a checkpoint waits: commit or abort it first";
	if (flags & DMR_FLAG_HYDRATE)
		return "blocks are being copied home: stop hydration first";
	return NULL;
}

/*
 * Write the superblock again if a copy of it is old: that one may say that all is BASE, and
 * be the only one that a crash leaves.
 */
static int check_copies(struct dmr_table *t)
{
	struct dmr_meta *meta = t->meta;
	int r;

	mutex_lock(&meta->lock);
	r = dmr_super_refresh(meta);
	if (!r && meta->super_is_stale)
		r = -EIO;
	mutex_unlock(&meta->lock);
	if (r)
		DMERR("%s: shed: one copy of the superblock cannot be written",
		      dmr_name(meta));
	return r;
}

static int check_base(struct dmr_table *t, bool zeroed)
{
	const char *why = why_not(t);

	if (why) {
		DMERR("%s: shed: %s", dmr_name(t->meta), why);
		return -EBUSY;
	}
	if (!bdev_max_discard_sectors(t->base)) {
		DMERR("%s: shed: the base device %pg takes no discards",
		      dmr_name(t->meta), t->base);
		return -EOPNOTSUPP;
	}
	/* Parts of units are not discarded, so the units must be known. */
	if (zeroed && bdev_discard_alignment(t->base)) {
		DMERR("%s: shed: the base device %pg discards in units that do not begin at its first sector",
		      dmr_name(t->meta), t->base);
		return -EOPNOTSUPP;
	}
	return check_copies(t);
}

static int shed_ranges(struct shed *shed, const char *ranges,
		       const struct dmr_range_rules *rules)
{
	struct dmr_range range;
	int r = dmr_writeback_settle(shed->t);

	while (!r && dmr_range_next(&ranges, rules, &range) > 0)
		r = shed_range(shed, &range);
	/* What came home is stable, and a linear table known. */
	if (!r && shed->buf)
		r = dmr_writeback_settle(shed->t);
	if (!r && shed->buf) {
		mutex_lock(&shed->t->meta->lock);
		dmr_writeback_note_linear(shed->t);
		mutex_unlock(&shed->t->meta->lock);
	}
	return r;
}

int dmr_shed(struct dmr_table *t, const char *ranges, bool zeroed)
{
	const struct dmr_range_rules rules = { .limit = dmr_nr_blocks(t->volume_sectors) };
	struct shed shed = { .t = t };
	int r = dmr_parts_check(t, "shed", ranges, &rules);

	if (!r)
		r = dmr_super_check_writable(t->meta, "shed");
	if (!r)
		r = check_base(t, zeroed);
	if (r)
		return r;
	shed.unit = dmr_unit_blocks(t);
	if (zeroed) {
		shed.buf = kmalloc(READ_SIZE, GFP_KERNEL);
		if (!shed.buf)
			return -ENOMEM;
	}
	r = shed_ranges(&shed, ranges, &rules);
	kfree(shed.buf);
	return r;
}
