// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of a message of the remap table, cut where segments end. See parts.h.
 */
#include <linux/sched/signal.h>

#include "packs.h"
#include "pages.h"
#include "parts.h"
#include "super.h"
#include "words.h"
#include "writeback.h"

int dmr_parts_check(struct dmr_table *t, const char *verb, const char *ranges,
		    const struct dmr_range_rules *rules)
{
	int r = dmr_ranges_check(ranges, rules);

	if (r == -ERANGE)
		DMERR("%s: %s: a place is not within the %llu blocks of the pool",
		      dmr_name(t->meta), verb, rules->pool_blocks);
	else if (r)
		DMERR("%s: %s: not ranges \"first,len%s;...\" in hex within %llu blocks",
		      dmr_name(t->meta), verb,
		      rules->nr_places == 2 ? ",old,new" :
		      rules->nr_places ? ",place" : "", rules->limit);
	return r;
}

int dmr_parts_run(struct dmr_table *t, const char *ranges,
		  const struct dmr_range_rules *rules, dmr_part_fn fn)
{
	struct dmr_range range;
	int r = 0;

	while (!r && dmr_range_next(&ranges, rules, &range) > 0) {
		u64 done = 0;

		while (!r && done < range.len) {
			u64 block = range.first + done;
			struct dmr_part part = {
				.seg = dmr_block_seg(block),
				.first = dmr_block_index(block),
				.place[0] = dmr_entry_plus(range.place[0], done),
				.place[1] = dmr_entry_plus(range.place[1], done),
			};

			part.nr = min_t(u64, range.len - done,
					DMR_SEG_BLOCKS - part.first);
			r = fn(t, &part);
			done += part.nr;
		}
	}
	return r;
}

bool dmr_parts_name_kind(const char *ranges, const struct dmr_range_rules *rules,
			 enum dmr_kind kind)
{
	struct dmr_range range;
	unsigned int i;

	while (dmr_range_next(&ranges, rules, &range) > 0) {
		for (i = 0; i < rules->nr_places; i++) {
			if (range.place[i].kind == kind)
				return true;
		}
	}
	return false;
}

#ifndef DMR_NO_PACKS
/* Read them anew: a place where a pack was may have another by now. */
static void forget_packs(struct dmr_table *t, const char *ranges,
			 const struct dmr_range_rules *rules)
{
	struct dmr_range range;
	unsigned int i;

	while (dmr_range_next(&ranges, rules, &range) > 0) {
		for (i = 0; i < rules->nr_places; i++) {
			if (range.place[i].kind == DMR_PACK)
				dmr_packs_forget(t, dmr_entry_pool_block(range.place[i]));
		}
	}
}

int dmr_parts_admit_packs(struct dmr_table *t, const char *ranges,
			  const struct dmr_range_rules *rules)
{
	struct dmr_super super = t->meta->super;
	int r;

	lockdep_assert_held(&t->meta->lock);
	/* Of a linear table no entry changes: there is none in the pool. */
	if (!dmr_parts_name_kind(ranges, rules, DMR_PACK) || (super.flags & DMR_FLAG_LINEAR_OK))
		return 0;
	r = dmr_packs_begin(t);
	if (r) {
		DMERR("%s: cannot get the memory to read packs", dmr_name(t->meta));
		return r;
	}
	if (!(super.incompat & DMR_INCOMPAT_PACK)) {
		super.incompat |= DMR_INCOMPAT_PACK;
		r = dmr_super_write(t->meta, &super);
	}
	/* Both copies must say so: a crash may leave either. */
	if (!r)
		r = dmr_super_refresh(t->meta);
	if (!r && t->meta->super_is_stale)
		r = -EIO;
	if (r)
		DMERR("%s: cannot note that blocks are in packs: error %d",
		      dmr_name(t->meta), r);
	else
		forget_packs(t, ranges, rules);
	return r;
}
#else
int dmr_parts_admit_packs(struct dmr_table *t, const char *ranges,
			  const struct dmr_range_rules *rules)
{
	if (!dmr_parts_name_kind(ranges, rules, DMR_PACK))
		return 0;
	DMERR("%s: this version cannot read packs", dmr_name(t->meta));
	return -EOPNOTSUPP;
}
#endif

int dmr_parts_may_continue(struct dmr_table *t)
{
	if (signal_pending(current))
		return -ERESTARTSYS;
	return READ_ONCE(t->meta->is_awaited) ? -EBUSY : 0;
}

int dmr_part_change(struct dmr_table *t, const struct dmr_part *part,
		    struct dmr_entry to, dmr_change_fn change)
{
	struct dmr_page *page;
	int r = 0;

	if (READ_ONCE(t->nr_dirty) >= t->max_dirty)
		r = dmr_writeback(t);
	if (!r)
		r = dmr_page_get(t, part->seg, &page);
	if (r)
		return r;
	dmr_words_pack(t, part->seg, part->first, part->nr, to, t->scratch);
	spin_lock_irq(&t->lock);
	change(t, part, page);
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	return 0;
}

bool dmr_part_fits_word(struct dmr_table *t, const struct dmr_part *part, struct dmr_entry place)
{
	/* The last segment may be a short one, and anywhere in a pack. */
	return !part->first && part->nr == dmr_words_blocks_in(t, part->seg) &&
	       (place.kind != DMR_PACK || !dmr_entry_slot(place));
}
