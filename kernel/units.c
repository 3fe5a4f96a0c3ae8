// SPDX-License-Identifier: GPL-2.0
/*
 * Units of the base. See units.h.
 */
#include <linux/blkdev.h>
#include <linux/lcm.h>
#include <linux/slab.h>

#include "dmr_table.h"
#include "hold.h"
#include "units.h"
#include "words.h"

/* A bio with so many blocks can become a unit longer at both ends. */
#define MAX_BLOCKS	((UINT_MAX >> DMR_BLOCK_SHIFT) - 2 * DMR_SEG_BLOCKS)

unsigned int dmr_unit_blocks(struct dmr_table *t)
{
	unsigned long bytes = max(bdev_discard_granularity(t->base), DMR_BLOCK_SIZE);

	return lcm(bytes, DMR_BLOCK_SIZE) / DMR_BLOCK_SIZE;
}

int dmr_unit_look(struct dmr_table *t, u64 first, u64 end)
{
	u64 word = t->words[dmr_block_seg(first)];
	struct dmr_page *page;

	lockdep_assert_held(&t->lock);
	if (dmr_word_is_whole(word))
		return word != DMR_WORD_BASE;
	if (word == DMR_WORD_BAD)
		return 0;
	if (!dmr_word_is_here(word))
		return -EAGAIN;
	page = dmr_word_page(word);
	for (; first < end; first++) {
		unsigned int i = dmr_block_index(first);
		struct dmr_entry place = dmr_page_entry(page, i);

		if ((place.kind != DMR_ZERO && !dmr_entry_in_pool(place)) ||
		    test_bit(i, page->busy))
			return 0;
	}
	return 1;
}

/* Is no block of these BASE or busy, in any number of segments? Pages on disk count as BASE. */
static bool are_away(struct dmr_table *t, u64 first, u64 end)
{
	while (first < end) {
		u64 next = min(end, (dmr_block_seg(first) + 1) * DMR_SEG_BLOCKS);

		if (dmr_unit_look(t, first, next) != 1)
			return false;
		first = next;
	}
	return true;
}

/* ------------------------------------------------------------------
 * Discards from above
 */

/* A discard of more blocks than a part has that came from above. */
struct wide {
	struct dmr_table *t;
	struct dmr_hold hold;
	struct bio *part;
};

static void wide_ended(struct bio *bio)
{
	struct wide *wide = bio->bi_private;
	struct bio *part = wide->part;
	unsigned long flags;

	spin_lock_irqsave(&wide->t->lock, flags);
	dmr_hold_end(wide->t, &wide->hold);
	spin_unlock_irqrestore(&wide->t->lock, flags);
	/* The part may be what is left of a bio of which others have failed. */
	if (bio->bi_status)
		part->bi_status = bio->bi_status;
	bio_put(bio);
	kfree(wide);
	/* Now the table may go. */
	bio_endio(part);
}

/* Let @range, within @all, reach the borders of units where nothing forbids it. Under t->lock. */
static bool widen(struct dmr_table *t, struct dmr_block_range *range,
		  struct dmr_block_range all)
{
	unsigned int unit = dmr_unit_blocks(t);
	u64 first = range->first / unit * unit;
	u64 end = DIV_ROUND_UP_ULL(range->end, unit) * unit;
	bool can_first = first < range->first && are_away(t, first, all.first);
	bool can_end = end > range->end && end <= t->volume_sectors / DMR_BLOCK_SECTORS &&
		       are_away(t, all.end, end);

	if (can_first)
		range->first = first;
	if (can_end)
		range->end = end;
	return can_first || can_end;
}

bool dmr_unit_discard(struct dmr_table *t, struct bio *part, struct dmr_block_range all)
{
	struct dmr_block_range range = dmr_unit_whole_blocks(part);
	struct wide *wide;
	struct bio *bio;
	bool is_wide;

	if (!dmr_units_exist(t) || range.first >= range.end || range.end - range.first > MAX_BLOCKS)
		return false;
	/* Do without where there is no memory: it is only space. */
	wide = kmalloc(sizeof(*wide), GFP_NOWAIT | __GFP_NOWARN);
	bio = bio_alloc_bioset(t->base, 0, REQ_OP_DISCARD, GFP_NOWAIT, &t->bios);
	spin_lock_irq(&t->lock);
	/* As for shed: a block that was BASE may be read there, now or after a crash. */
	is_wide = wide && bio && !t->base_is_unsettled && !READ_ONCE(t->meta->super_is_stale) &&
		  widen(t, &range, all) && !dmr_hold_find(t, range.first, range.end - 1);
	if (is_wide)
		dmr_hold_begin(t, &wide->hold, range.first, range.end);
	spin_unlock_irq(&t->lock);
	if (!is_wide) {
		if (bio)
			bio_put(bio);
		kfree(wide);
		return false;
	}
	wide->t = t;
	wide->part = part;
	bio->bi_iter.bi_sector = range.first * DMR_BLOCK_SECTORS;
	bio->bi_iter.bi_size = (range.end - range.first) << DMR_BLOCK_SHIFT;
	bio->bi_private = wide;
	bio->bi_end_io = wide_ended;
	submit_bio_noacct(bio);
	return true;
}
