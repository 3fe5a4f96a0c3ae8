// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that share blocks of the live volume with the pool.
 *
 *   watch   mark BASE blocks; a write to one clears its mark
 *   alias   give a BASE block another place if its mark is still there: user space
 *           has read and compared the block meanwhile, and the new place holds the same
 *
 * Both end with a settle. Marks belong to the program whose token they have: if one watches,
 * a block is written, and another one watches, the first must not take these marks for its
 * own, since it has read the block before.
 */
#include "alias.h"
#include "dmr_table.h"
#include "pages.h"
#include "parts.h"
#include "queue.h"
#include "super.h"
#include "watch.h"
#include "words.h"
#include "writeback.h"

static void set_marks(struct dmr_table *t, const struct dmr_part *part,
		      struct dmr_page *page)
{
	struct dmr_watch *watch = xa_load(&t->watches, part->seg);
	unsigned int i;

	for (i = part->first; i < part->first + part->nr; i++) {
		if (!page || (dmr_page_entry(page, i).kind == DMR_BASE &&
			      !test_bit(i, page->busy)))
			__set_bit(i, watch->marks);
	}
}

static int watch_part(struct dmr_table *t, const struct dmr_part *part)
{
	struct dmr_page *page;
	bool done = false;
	int r;

	r = dmr_watch_add(t, part->seg);
	if (r)
		return r;
	spin_lock_irq(&t->lock);
	if (t->words[part->seg] == DMR_WORD_BASE) {
		set_marks(t, part, NULL);
		done = true;
	}
	spin_unlock_irq(&t->lock);
	if (done)
		return 0;
	r = dmr_parts_may_continue(t);
	if (!r)
		r = dmr_page_get(t, part->seg, &page);
	if (r)
		return r;
	spin_lock_irq(&t->lock);
	set_marks(t, part, page);
	dmr_watch_drop_if_empty(t, part->seg, xa_load(&t->watches, part->seg));
	dmr_page_unpin(page);
	spin_unlock_irq(&t->lock);
	return 0;
}

int dmr_watch(struct dmr_table *t, u64 token, const char *ranges)
{
	const struct dmr_range_rules rules = { .limit = dmr_nr_blocks(t->volume_sectors) };
	int r = dmr_parts_check(t, "watch", ranges, &rules);

	if (!r)
		r = dmr_super_check_writable(t->meta, "watch");
	if (r)
		return r;
	if (t->watch_token != token)
		dmr_watch_drop_all(t);
	/* Those of messages before this one stay also if it is interrupted, and sent again. */
	t->watch_token = token;
	/* Until the settle, behind which all writes have ended that saw no marks. */
	t->watch_is_settled = false;
	r = dmr_parts_run(t, ranges, &rules, watch_part);
	if (!r)
		r = dmr_writeback_settle(t);
	t->watch_is_settled = !r;
	return r;
}

void dmr_unwatch(struct dmr_table *t)
{
	dmr_watch_drop_all(t);
}

/* Alias a segment that is BASE and marked all over: its word changes, and it gets no page. */
static bool alias_whole(struct dmr_table *t, const struct dmr_part *part)
{
	struct dmr_watch *watch;
	bool done = false;

	if (!dmr_part_fits_word(t, part, part->place[0]))
		return false;
	spin_lock_irq(&t->lock);
	watch = xa_load(&t->watches, part->seg);
	if (watch && t->words[part->seg] == DMR_WORD_BASE &&
	    find_next_zero_bit(watch->marks, part->nr, 0) >= part->nr) {
		bitmap_zero(watch->marks, DMR_SEG_BLOCKS);
		dmr_word_set(t, part->seg, dmr_word_of(part->place[0]));
		done = true;
	}
	dmr_watch_drop_if_empty(t, part->seg, watch);
	spin_unlock_irq(&t->lock);
	return done;
}

static bool find_marks(struct dmr_table *t, const struct dmr_part *part)
{
	struct dmr_watch *watch;
	unsigned int end = part->first + part->nr;
	bool has;

	spin_lock_irq(&t->lock);
	watch = xa_load(&t->watches, part->seg);
	has = watch && find_next_bit(watch->marks, end, part->first) < end;
	dmr_watch_drop_if_empty(t, part->seg, watch);
	spin_unlock_irq(&t->lock);
	return has;
}

static void swap_marked(struct dmr_table *t, const struct dmr_part *part,
			struct dmr_page *page)
{
	struct dmr_watch *watch = xa_load(&t->watches, part->seg);
	unsigned int i, block;

	for (i = 0; watch && i < part->nr; i++) {
		block = part->first + i;
		if (__test_and_clear_bit(block, watch->marks) &&
		    dmr_page_entry(page, block).kind == DMR_BASE &&
		    !test_bit(block, page->busy))
			dmr_page_change(page, block, part->place[0].kind,
					t->scratch[i]);
	}
	dmr_watch_drop_if_empty(t, part->seg, watch);
}

/* A block that was taken has no mark any more: an alias that is sent again passes over it. */
static int alias_part(struct dmr_table *t, const struct dmr_part *part)
{
	int r;

	if (alias_whole(t, part) || !find_marks(t, part))
		return 0;
	r = dmr_parts_may_continue(t);
	return r ? r : dmr_part_change(t, part, part->place[0], swap_marked);
}

/*
 * Leave the linear table, and let no write-back note it again. Not under meta->lock all the
 * time: reading pages of the table can take long, and first writes would wait for it.
 */
static int begin_alias(struct dmr_table *t, const char *ranges,
		       const struct dmr_range_rules *rules)
{
	int r;

	mutex_lock(&t->meta->lock);
	spin_lock_irq(&t->lock);
	t->is_aliasing = true;
	t->base_is_unsettled = true;
	spin_unlock_irq(&t->lock);
	r = dmr_writeback_leave_linear(t, 0);
	if (!r)
		r = dmr_parts_admit_packs(t, ranges, rules);
	mutex_unlock(&t->meta->lock);
	return r;
}

static void end_alias(struct dmr_table *t)
{
	spin_lock_irq(&t->lock);
	t->is_aliasing = false;
	/* If no block was taken, a write-back notes that the table is linear again. */
	if (!t->nr[DMR_ZERO] && !t->nr[DMR_POOL])
		dmr_queue_writeback(t);
	spin_unlock_irq(&t->lock);
}

static int check_token(struct dmr_table *t, u64 token)
{
	if (t->watch_token == token && t->watch_is_settled)
		return 0;
	DMERR("%s: alias: no marks have the token %llu (any more): watch and read again",
	      dmr_name(t->meta), token);
	return -ESTALE;
}

int dmr_alias(struct dmr_table *t, u64 token, const char *ranges)
{
	const struct dmr_range_rules rules = {
		.limit = dmr_nr_blocks(t->volume_sectors),
		.nr_places = 1,
		.pool_blocks = t->pool_blocks,
	};
	int r = dmr_parts_check(t, "alias", ranges, &rules);

	if (!r && dmr_parts_name_kind(ranges, &rules, DMR_BASE)) {
		DMERR("%s: alias: the new place is z or in the pool",
		      dmr_name(t->meta));
		r = -EINVAL;
	}
	if (!r)
		r = dmr_super_check_writable(t->meta, "alias");
	if (!r)
		r = check_token(t, token);
	if (r)
		return r;
	r = begin_alias(t, ranges, &rules);
	if (!r)
		r = dmr_parts_run(t, ranges, &rules, alias_part);
	if (!r)
		r = dmr_writeback_settle(t);
	end_alias(t);
	return r;
}
