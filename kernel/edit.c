// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that give blocks another place.
 *
 *   remap   compare and swap two places that hold the same
 *   set     set places unconditionally, in a batch on the suspended device
 *
 * remap ends with a settle.
 */
#include "dirty.h"
#include "dmr_table.h"
#include "edit.h"
#include "pages.h"
#include "parts.h"
#include "super.h"
#include "watch.h"
#include "words.h"
#include "writeback.h"

/* ------------------------------------------------------------------
 * remap
 */

/* Remap a segment that is mapped whole, which matches or does not. 1: nothing is left to do. */
static int remap_whole(struct dmr_table *t, const struct dmr_part *part)
{
	u64 word;
	int r = 0;

	spin_lock_irq(&t->lock);
	word = t->words[part->seg];
	if (dmr_word_is_whole(word) &&
	    !dmr_entry_equal(dmr_entry_plus(dmr_word_place(word), part->first),
			     part->place[0])) {
		r = 1;
	} else if (dmr_word_is_whole(word) && dmr_part_fits_word(t, part, part->place[1])) {
		dmr_word_set(t, part->seg, dmr_word_of(part->place[1]));
		r = 1;
	}
	spin_unlock_irq(&t->lock);
	return r;
}

static void swap_equal(struct dmr_table *t, const struct dmr_part *part,
		       struct dmr_page *page)
{
	unsigned int i;

	for (i = 0; i < part->nr; i++) {
		struct dmr_entry old = dmr_page_entry(page, part->first + i);

		if (dmr_entry_equal(old, dmr_entry_plus(part->place[0], i)))
			dmr_page_change(page, part->first + i,
					part->place[1].kind, t->scratch[i]);
	}
}

static int remap_part(struct dmr_table *t, const struct dmr_part *part)
{
	int r;

	if (remap_whole(t, part))
		return 0;
	r = dmr_parts_may_continue(t);
	return r ? r : dmr_part_change(t, part, part->place[1], swap_equal);
}

int dmr_edit_remap(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = {
		.limit = dmr_nr_blocks(t->volume_sectors),
		.nr_places = 2,
		.pool_blocks = t->pool_blocks,
	};
	int r = dmr_parts_check(t, "remap", ranges, &rules);

	if (!r && dmr_parts_name_kind(ranges, &rules, DMR_BASE)) {
		DMERR("%s: remap: old and new place must not be the base; use watch and alias",
		      dmr_name(t->meta));
		r = -EINVAL;
	}
	if (!r)
		r = dmr_super_check_writable(t->meta, "remap");
	if (!r) {
		mutex_lock(&t->meta->lock);
		r = dmr_parts_admit_packs(t, ranges, &rules);
		mutex_unlock(&t->meta->lock);
	}
	if (!r)
		r = dmr_parts_run(t, ranges, &rules, remap_part);
	return r ? r : dmr_writeback_settle(t);
}

/* ------------------------------------------------------------------
 * begin, set, end
 */

static int check_suspended(struct dmr_table *t, const char *verb)
{
	if (t->meta->suspended)
		return dmr_super_check_writable(t->meta, verb);
	DMERR("%s: %s: suspend the device first", dmr_name(t->meta), verb);
	return -EBUSY;
}

static int check_in_batch(struct dmr_table *t, const char *verb)
{
	int r = check_suspended(t, verb);

	if (!r && !(t->meta->super.flags & DMR_FLAG_INCOMPLETE)) {
		DMERR("%s: %s: send begin first", dmr_name(t->meta), verb);
		r = -EINVAL;
	}
	return r;
}

int dmr_edit_begin(struct dmr_table *t)
{
	int r;

	mutex_lock(&t->meta->lock);
	r = check_suspended(t, "begin");
	if (!r)
		r = dmr_writeback_leave_linear(t, DMR_FLAG_INCOMPLETE);
	mutex_unlock(&t->meta->lock);
	return r;
}

int dmr_edit_end(struct dmr_table *t)
{
	struct dmr_meta *meta = t->meta;
	struct dmr_super super;
	int r;

	mutex_lock(&meta->lock);
	r = check_in_batch(t, "end");
	if (!r)
		r = dmr_writeback(t);
	if (!r) {
		super = meta->super;
		super.flags &= ~DMR_FLAG_INCOMPLETE;
		r = dmr_super_write(meta, &super);
	}
	if (!r)
		dmr_writeback_note_linear(t);
	mutex_unlock(&meta->lock);
	return r;
}

/* Map the whole segment anew; a page that it had goes. */
static void set_whole(struct dmr_table *t, const struct dmr_part *part)
{
	u64 word = dmr_word_of(part->place[0]);
	u64 old;

	/* A write-back has pages on lists of its own. */
	mutex_lock(&t->writeback_lock);
	spin_lock_irq(&t->lock);
#ifndef DMR_NO_ALIAS
	dmr_watch_clear(t, part->seg, part->first, part->nr);
#endif
	old = t->words[part->seg];
	if (dmr_word_is_here(old))
		dmr_page_replace(dmr_word_page(old), word);
	else
		dmr_word_set(t, part->seg, word);
	spin_unlock_irq(&t->lock);
	mutex_unlock(&t->writeback_lock);
}

static void swap_all(struct dmr_table *t, const struct dmr_part *part,
		     struct dmr_page *page)
{
	unsigned int i;

#ifndef DMR_NO_ALIAS
	dmr_watch_clear(t, part->seg, part->first, part->nr);
#endif
	for (i = 0; i < part->nr; i++)
		dmr_page_change(page, part->first + i, part->place[0].kind,
				t->scratch[i]);
}

static int set_part(struct dmr_table *t, const struct dmr_part *part)
{
	if (!dmr_part_fits_word(t, part, part->place[0]))
		return dmr_part_change(t, part, part->place[0], swap_all);
	set_whole(t, part);
	return 0;
}

static int mark_part(struct dmr_table *t, const struct dmr_part *part)
{
	dmr_dirty_set(t->meta, part->seg, 1);
	return 0;
}

int dmr_edit_set(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = {
		.limit = dmr_nr_blocks(t->volume_sectors),
		.nr_places = 1,
		.pool_blocks = t->pool_blocks,
	};
	int r = dmr_parts_check(t, "set", ranges, &rules);

	if (r)
		return r;
	mutex_lock(&t->meta->lock);
	r = check_in_batch(t, "set");
	if (!r)
		r = dmr_parts_admit_packs(t, ranges, &rules);
	/* Like a write this changes the content: bits are stable before entries change. */
	if (!r) {
		dmr_parts_run(t, ranges, &rules, mark_part);
		r = dmr_dirty_flush(t->meta);
	}
	if (!r)
		r = dmr_parts_run(t, ranges, &rules, set_part);
	mutex_unlock(&t->meta->lock);
	return r;
}
