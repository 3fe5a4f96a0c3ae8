// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that change the remap table, or print it.
 *
 *   remap   compare and swap two places that hold the same
 *   set     set places unconditionally, in a batch on the suspended device
 *   watch   mark BASE blocks; a write to one clears its mark
 *   alias   give a BASE block another place if its mark is still there: user space
 *           has read and hashed the block meanwhile, and the new place holds the same
 *   punch   discard blocks of the pool that nothing names any more
 *   table   print places
 *
 * remap, watch, alias and table end with a settle; punch begins with one.
 */
#include <linux/blkdev.h>

#include "dirty.h"
#include "dmr_table.h"
#include "edit.h"
#include "pages.h"
#include "ranges.h"
#include "super.h"
#include "watch.h"
#include "words.h"
#include "writeback.h"

/* A range, or a part of one, that is within a segment. */
struct part {
	u64 seg;
	unsigned int first;
	unsigned int nr;
	struct dmr_entry place[2];
};

typedef int (*part_fn)(struct dmr_table *t, const struct part *part);

static int check(struct dmr_table *t, const char *verb, const char *ranges,
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

static int run_parts(struct dmr_table *t, const char *ranges,
		     const struct dmr_range_rules *rules, part_fn fn)
{
	struct dmr_range range;
	int r = 0;

	while (!r && dmr_range_next(&ranges, rules, &range) > 0) {
		u64 done = 0;

		while (!r && done < range.len) {
			u64 block = range.first + done;
			struct part part = {
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

/* Do the ranges name a place of @kind? */
static bool names_kind(const char *ranges, const struct dmr_range_rules *rules,
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

static int check_writable(struct dmr_table *t, const char *verb)
{
	if (!t->meta->read_only)
		return 0;
	DMERR("%s: %s: the device is read-only", dmr_name(t->meta), verb);
	return -EROFS;
}

/* Change entries of a pinned page; the new ones are in t->scratch. Under t->lock. */
typedef void (*change_fn)(struct dmr_table *t, const struct part *part,
			  struct dmr_page *page);

/* Have @change change a part's entries to @to; write back before if too much waits. */
static int change_part(struct dmr_table *t, const struct part *part,
		       struct dmr_entry to, change_fn change)
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

static bool covers(struct dmr_table *t, const struct part *part)
{
	return !part->first && part->nr == dmr_words_blocks_in(t, part->seg);
}

/* ------------------------------------------------------------------
 * remap
 */

/* Remap a segment that is mapped whole, which matches or does not. 1: nothing is left to do. */
static int remap_whole(struct dmr_table *t, const struct part *part)
{
	u64 word;
	int r = 0;

	spin_lock_irq(&t->lock);
	word = t->words[part->seg];
	if (dmr_word_is_whole(word) &&
	    !dmr_entry_equal(dmr_entry_plus(dmr_entry_body(word), part->first),
			     part->place[0])) {
		r = 1;
	} else if (dmr_word_is_whole(word) && covers(t, part)) {
		dmr_word_set(t, part->seg, dmr_word_of(part->place[1]));
		r = 1;
	}
	spin_unlock_irq(&t->lock);
	return r;
}

static void swap_equal(struct dmr_table *t, const struct part *part,
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

static int remap_part(struct dmr_table *t, const struct part *part)
{
	if (remap_whole(t, part))
		return 0;
	return change_part(t, part, part->place[1], swap_equal);
}

int dmr_edit_remap(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = {
		.limit = dmr_nr_blocks(t->volume_sectors),
		.nr_places = 2,
		.pool_blocks = t->pool_blocks,
	};
	int r = check(t, "remap", ranges, &rules);

	if (!r && names_kind(ranges, &rules, DMR_BASE)) {
		DMERR("%s: remap: old and new place must not be the base; use watch and alias",
		      dmr_name(t->meta));
		r = -EINVAL;
	}
	if (!r)
		r = check_writable(t, "remap");
	if (!r)
		r = run_parts(t, ranges, &rules, remap_part);
	return r ? r : dmr_writeback_settle(t);
}

/* ------------------------------------------------------------------
 * begin, set, end
 */

/*
 * Prepare the disk for the first entry that is not BASE: write all words, which were
 * never initialised, then clear DMR_FLAG_LINEAR_OK, so that they are read.
 */
static int leave_linear(struct dmr_table *t, u32 flags)
{
	struct dmr_meta *meta = t->meta;
	struct dmr_super super = meta->super;
	int r = 0;
	u64 seg;

	lockdep_assert_held(&meta->lock);
	if (super.flags & DMR_FLAG_LINEAR_OK) {
		spin_lock_irq(&t->lock);
		for (seg = 0; seg < t->nr_segs; seg += DMR_SEG_BLOCKS)
			dmr_word_mark_dirty(t, seg);
		spin_unlock_irq(&t->lock);
		r = dmr_writeback(t);
		super.flags &= ~DMR_FLAG_LINEAR_OK;
	}
	super.flags |= flags;
	/* A write that failed may have left other flags on disk than in memory. */
	if (!r && (super.flags != meta->super.flags || meta->super_is_stale))
		r = dmr_super_write(meta, &super);
	return r;
}

static int check_suspended(struct dmr_table *t, const char *verb)
{
	if (t->meta->suspended)
		return check_writable(t, verb);
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
		r = leave_linear(t, DMR_FLAG_INCOMPLETE);
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
static void set_whole(struct dmr_table *t, const struct part *part)
{
	u64 word = dmr_word_of(part->place[0]);
	u64 old;

	/* A write-back has pages on lists of its own. */
	mutex_lock(&t->writeback_lock);
	spin_lock_irq(&t->lock);
	dmr_watch_clear(t, part->seg, part->first, part->nr);
	old = t->words[part->seg];
	if (dmr_word_is_here(old))
		dmr_page_replace(dmr_word_page(old), word);
	else
		dmr_word_set(t, part->seg, word);
	spin_unlock_irq(&t->lock);
	mutex_unlock(&t->writeback_lock);
}

static void swap_all(struct dmr_table *t, const struct part *part,
		     struct dmr_page *page)
{
	unsigned int i;

	dmr_watch_clear(t, part->seg, part->first, part->nr);
	for (i = 0; i < part->nr; i++)
		dmr_page_change(page, part->first + i, part->place[0].kind,
				t->scratch[i]);
}

static int set_part(struct dmr_table *t, const struct part *part)
{
	if (!covers(t, part))
		return change_part(t, part, part->place[0], swap_all);
	set_whole(t, part);
	return 0;
}

static int mark_part(struct dmr_table *t, const struct part *part)
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
	int r = check(t, "set", ranges, &rules);

	if (r)
		return r;
	mutex_lock(&t->meta->lock);
	r = check_in_batch(t, "set");
	/* Like a write this changes the content: bits are stable before entries change. */
	if (!r) {
		run_parts(t, ranges, &rules, mark_part);
		r = dmr_dirty_flush(t->meta);
	}
	if (!r)
		r = run_parts(t, ranges, &rules, set_part);
	mutex_unlock(&t->meta->lock);
	return r;
}

/* ------------------------------------------------------------------
 * watch and alias
 */

static void set_marks(struct dmr_table *t, const struct part *part,
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

static int watch_part(struct dmr_table *t, const struct part *part)
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

int dmr_edit_watch(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = { .limit = dmr_nr_blocks(t->volume_sectors) };
	int r;

	if (!strcmp(ranges, "-")) {
		dmr_watch_drop_all(t);
		return 0;
	}
	r = check(t, "watch", ranges, &rules);
	if (!r)
		r = check_writable(t, "watch");
	if (!r)
		r = run_parts(t, ranges, &rules, watch_part);
	/* Then all writes have ended that saw no marks. */
	if (!r)
		r = dmr_writeback_settle(t);
	return r;
}

static bool find_marks(struct dmr_table *t, const struct part *part)
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

static void swap_marked(struct dmr_table *t, const struct part *part,
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

static int alias_part(struct dmr_table *t, const struct part *part)
{
	if (!find_marks(t, part))
		return 0;
	return change_part(t, part, part->place[0], swap_marked);
}

int dmr_edit_alias(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = {
		.limit = dmr_nr_blocks(t->volume_sectors),
		.nr_places = 1,
		.pool_blocks = t->pool_blocks,
	};
	int r = check(t, "alias", ranges, &rules);

	if (!r && names_kind(ranges, &rules, DMR_BASE)) {
		DMERR("%s: alias: the new place is z or in the pool",
		      dmr_name(t->meta));
		r = -EINVAL;
	}
	if (r)
		return r;
	/* Hold the lock, or a write-back could note a linear table between the two. */
	mutex_lock(&t->meta->lock);
	r = check_writable(t, "alias");
	if (!r)
		r = leave_linear(t, 0);
	if (!r)
		r = run_parts(t, ranges, &rules, alias_part);
	mutex_unlock(&t->meta->lock);
	return r ? r : dmr_writeback_settle(t);
}

/* ------------------------------------------------------------------
 * punch
 */

int dmr_edit_punch(struct dmr_table *t, const char *ranges)
{
	const struct dmr_range_rules rules = { .limit = t->pool_blocks };
	struct dmr_range range;
	int r = check(t, "punch", ranges, &rules);

	if (!r)
		r = check_writable(t, "punch");
	if (!r && !bdev_max_discard_sectors(t->pool)) {
		DMERR("%s: punch: the pool device %pg takes no discards",
		      dmr_name(t->meta), t->pool);
		r = -EOPNOTSUPP;
	}
	if (!r)
		r = dmr_writeback_settle(t);
	while (!r && dmr_range_next(&ranges, &rules, &range) > 0)
		r = blkdev_issue_discard(t->pool,
					 range.first * DMR_BLOCK_SECTORS,
					 range.len * DMR_BLOCK_SECTORS, GFP_NOIO);
	return r;
}

/* ------------------------------------------------------------------
 * table
 */

/* A run of blocks that is not printed yet, and the answer so far. */
struct print {
	char *result;
	unsigned int maxlen;
	unsigned int sz;
	u64 first;
	u64 len;			/* 0: none */
	struct dmr_entry place;
};

/* Find the place of @block, and the length of the run from there, at most @max. */
static int find_run(struct dmr_table *t, u64 block, u64 max,
		    struct dmr_entry *place, u64 *ret_len)
{
	struct dmr_page *page;
	bool found;
	int r;

	for (;;) {
		rcu_read_lock();
		found = dmr_words_look_up(t, block, place);
		if (found)
			*ret_len = dmr_words_run(t, block, max, *place);
		rcu_read_unlock();
		if (found)
			return 0;
		r = dmr_page_get(t, dmr_block_seg(block), &page);
		if (r)
			return r;
		dmr_page_put(page);
	}
}

/* Print the run; false: there is no room. */
static bool print_run(struct print *p)
{
	/* The longest range, and " <next>" with its zero byte. */
	const unsigned int room = sizeof(";400000000000,400000000000,p400000000000") +
				  sizeof(" 2199023255552");
	unsigned int sz = p->sz, maxlen = p->maxlen;
	char *result = p->result;

	if (!p->len || p->place.kind == DMR_PAGE)
		return true;
	if (sz && sz + room >= maxlen)
		return false;
	DMEMIT("%s%llx,%llx,", sz ? ";" : "", p->first, p->len);
	if (p->place.kind == DMR_POOL)
		DMEMIT("p%llx", p->place.block);
	else
		DMEMIT("%c", p->place.kind == DMR_BASE ? 'b' : 'z');
	p->sz = sz;
	return true;
}

static void print_end(struct print *p, u64 next)
{
	unsigned int sz = p->sz, maxlen = p->maxlen;
	char *result = p->result;

	DMEMIT("%s %llu", sz ? "" : "-", next);
}

int dmr_edit_print(struct dmr_table *t, u64 first, u64 count, char *result,
		   unsigned int maxlen)
{
	struct print p = { .result = result, .maxlen = maxlen, .first = first };
	struct dmr_entry place;
	u64 end, len;
	int r;

	if (first > dmr_nr_blocks(t->volume_sectors)) {
		DMERR("%s: table: the volume has %llu blocks only",
		      dmr_name(t->meta), dmr_nr_blocks(t->volume_sectors));
		return -EINVAL;
	}
	end = first + min(count, dmr_nr_blocks(t->volume_sectors) - first);
	while (first < end) {
		r = find_run(t, first, end - first, &place, &len);
		if (r == -EUCLEAN) {
			place.kind = DMR_PAGE;
			place.block = 0;
			len = 1;
		} else if (r) {
			return r;
		}
		if (!p.len || !dmr_entry_equal(place, dmr_entry_plus(p.place, p.len))) {
			if (!print_run(&p))
				break;
			p.first = first;
			p.len = 0;
			p.place = place;
		}
		p.len += len;
		first += len;
		cond_resched();
	}
	/* The answer ends before a run that has no room. */
	if (first < end || !print_run(&p))
		first = p.first;
	print_end(&p, first);
	/*
	 * Settle behind it: a block that has come home since the last write-back is on
	 * disk where it was before, and the caller who reads "b" may free that place.
	 */
	r = dmr_writeback_settle(t);
	return r ? r : 1;
}
