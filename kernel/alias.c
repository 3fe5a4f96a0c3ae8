// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that share blocks of the live volume with the pool.
 *
 *   watch   mark BASE blocks; a write to one clears its mark
 *   alias   give a BASE block another place if its mark is still there: user space
 *           has read and hashed the block meanwhile, and the new place holds the same
 *
 * Both end with a settle.
 */
#include "alias.h"
#include "dmr_table.h"
#include "pages.h"
#include "parts.h"
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

int dmr_watch(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = { .limit = dmr_nr_blocks(t->volume_sectors) };
	int r;

	if (!strcmp(ranges, "-")) {
		dmr_watch_drop_all(t);
		return 0;
	}
	r = dmr_parts_check(t, "watch", ranges, &rules);
	if (!r)
		r = dmr_parts_check_writable(t, "watch");
	if (!r)
		r = dmr_parts_run(t, ranges, &rules, watch_part);
	/* Then all writes have ended that saw no marks. */
	if (!r)
		r = dmr_writeback_settle(t);
	return r;
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

static int alias_part(struct dmr_table *t, const struct dmr_part *part)
{
	if (!find_marks(t, part))
		return 0;
	return dmr_part_change(t, part, part->place[0], swap_marked);
}

int dmr_alias(struct dmr_table *t, const char *ranges)
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
	if (r)
		return r;
	/* Hold the lock, or a write-back could note a linear table between the two. */
	mutex_lock(&t->meta->lock);
	r = dmr_parts_check_writable(t, "alias");
	if (!r)
		r = dmr_writeback_leave_linear(t, 0);
	if (!r)
		r = dmr_parts_run(t, ranges, &rules, alias_part);
	mutex_unlock(&t->meta->lock);
	return r ? r : dmr_writeback_settle(t);
}
