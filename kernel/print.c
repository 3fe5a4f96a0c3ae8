// SPDX-License-Identifier: GPL-2.0
/*
 * The message table: print places. It ends with a settle.
 */
#include <linux/sched/signal.h>

#include "dmr_table.h"
#include "pages.h"
#include "print.h"
#include "ranges.h"
#include "words.h"
#include "writeback.h"

/* Look at so many blocks before others get the processor. */
#define RUN_MAX		(16 * DMR_SEG_BLOCKS)

struct print {
	struct dmr_table *table;
	const struct dmr_pool_range *only;
	struct dmr_page *page;		/* NULL, or pinned: the scan has read it */
	bool may_stop;			/* it has read one */

	/* A run of blocks that is not printed yet, and the answer so far. */
	char *result;
	unsigned int maxlen;
	unsigned int sz;
	u64 first;
	u64 len;			/* 0: none */
	struct dmr_entry place;
};

/* ------------------------------------------------------------------
 * Looking
 */

static void leave_page(struct print *p)
{
	if (p->page)
		dmr_page_put_scanned(p->page);
	p->page = NULL;
}

/*
 * Find the place of @block, and the length of the run from there, at most @max. -EAGAIN: a
 * suspend or a resume waits, and the next page would have to be read.
 */
static int find_run(struct print *p, u64 block, u64 max, struct dmr_entry *place,
		    u64 *ret_len)
{
	struct dmr_table *t = p->table;
	bool found;
	int r = 0;

	do {
		rcu_read_lock();
		found = dmr_words_peek(t, block, place);
		if (found)
			*ret_len = dmr_words_run(t, block, max, *place);
		rcu_read_unlock();
		if (!found) {
			if (p->may_stop && READ_ONCE(t->meta->is_awaited))
				return -EAGAIN;
			p->may_stop = true;
			leave_page(p);
			r = dmr_page_get_to_scan(t, dmr_block_seg(block), &p->page);
		}
	} while (!found && !r);
	return r;
}

/* The same; a block whose page is damaged is a run with the kind PAGE. */
static int find_any_run(struct print *p, u64 block, u64 max, struct dmr_entry *place,
			u64 *ret_len)
{
	int r = find_run(p, block, max, place, ret_len);

	if (r != -EUCLEAN)
		return r;
	place->kind = DMR_PAGE;
	place->block = 0;
	*ret_len = 1;
	return 0;
}

static bool overlaps(const struct dmr_pool_range *only, struct dmr_entry place, u64 len)
{
	u64 first = dmr_entry_pool_block(place);

	/* A pack may be as long as a segment. */
	if (place.kind == DMR_PACK)
		len = DMR_SEG_BLOCKS;
	return dmr_entry_in_pool(place) && first < only->first + only->len &&
	       first + len > only->first;
}

/*
 * Skip segments from block @at on that lie whole outside of what is asked for, up to the end of
 * the words that one bit of words_pool stands for: most do.
 */
static u64 skip_whole(const struct print *p, u64 at, u64 end)
{
	u64 seg = dmr_block_seg(at), last = dmr_block_seg(end - 1) + 1;

	if (!p->only)
		return at;
	seg = dmr_words_next_pool(p->table, seg, last);
	last = min(last, (seg / DMR_SEG_BLOCKS + 1) * DMR_SEG_BLOCKS);
	rcu_read_lock();
	for (; seg < last; seg++) {
		u64 word = dmr_word_get(p->table, seg);

		if (!dmr_word_is_whole(word) ||
		    overlaps(p->only, dmr_word_place(word), DMR_SEG_BLOCKS))
			break;
	}
	rcu_read_unlock();
	return clamp(seg * DMR_SEG_BLOCKS, at, end);
}

/* The same for the blocks of a segment whose page is in memory: few of them are asked for. */
static u64 skip_entries(const struct print *p, u64 at, u64 end)
{
	u64 word, last = min(end, (dmr_block_seg(at) + 1) * DMR_SEG_BLOCKS);
	struct dmr_page *page;

	if (!p->only)
		return at;
	rcu_read_lock();
	word = dmr_word_get(p->table, dmr_block_seg(at));
	page = dmr_word_is_here(word) ? dmr_word_page(word) : NULL;
	while (page && at < last &&
	       !overlaps(p->only, dmr_page_entry(page, dmr_block_index(at)), 1))
		at++;
	rcu_read_unlock();
	return at;
}

/* Cut a run down to what is asked for; false: that is nothing. */
static bool cut_run(const struct print *p, u64 *first, u64 *len, struct dmr_entry *place)
{
	u64 start, end;

	if (!p->only)
		return true;
	if (!overlaps(p->only, *place, *len))
		return false;
	if (place->kind == DMR_PACK)
		return true;
	start = max(place->block, p->only->first);
	end = min(place->block + *len, p->only->first + p->only->len);
	*first += start - place->block;
	*len = end - start;
	place->block = start;
	return true;
}

/* ------------------------------------------------------------------
 * Printing
 */

/* Print the run; false: there is no room. */
static bool print_run(struct print *p)
{
	/* The longest range, and " <next>" with its zero byte. */
	const unsigned int room = sizeof(";400000000000,400000000000,k1fffffffff.1ff") +
				  sizeof(" 2199023255552");
	char place[DMR_PLACE_TEXT];
	unsigned int sz = p->sz, maxlen = p->maxlen;
	char *result = p->result;

	if (!p->len || p->place.kind == DMR_PAGE)
		return true;
	if (sz && sz + room >= maxlen)
		return false;
	dmr_place_print(place, p->place);
	DMEMIT("%s%llx,%llx,%s", sz ? ";" : "", p->first, p->len, place);
	p->sz = sz;
	return true;
}

static void print_end(struct print *p, u64 next)
{
	unsigned int sz = p->sz, maxlen = p->maxlen;
	char *result = p->result;

	DMEMIT("%s %llu", sz ? "" : "-", next);
}

/* Add a run to what is to be printed; false: there is no room. */
static bool add_run(struct print *p, u64 first, u64 len, struct dmr_entry place)
{
	if (!p->len || first != p->first + p->len ||
	    !dmr_entry_goes_on(p->place, p->len, place)) {
		if (!print_run(p))
			return false;
		p->first = first;
		p->len = 0;
		p->place = place;
	}
	p->len += len;
	return true;
}

/*
 * Print runs from *@first on; *@first is the block then at which the answer ends, since that has
 * no room any more or somebody waits, or @end.
 */
static int print_runs(struct print *p, u64 *first, u64 end)
{
	u64 at = *first, run, run_len, len;
	struct dmr_entry place;
	bool full = false;
	int r;

	while (at < end && !full) {
		/* There may be much to look at that fills no answer. */
		if (signal_pending(current))
			return -ERESTARTSYS;
		cond_resched();
		run = skip_whole(p, at, end);
		if (run == at)
			run = skip_entries(p, at, end);
		if (run > at) {
			at = run;
			continue;
		}
		r = find_any_run(p, at, min(end - at, (u64)RUN_MAX), &place, &len);
		if (r == -EAGAIN)
			break;
		if (r)
			return r;
		run = at;
		run_len = len;
		full = cut_run(p, &run, &run_len, &place) && !add_run(p, run, run_len, place);
		at += len;
	}
	/* The answer ends before a run that has no room. */
	*first = full || !print_run(p) ? p->first : at;
	return 0;
}

int dmr_print(struct dmr_table *t, u64 first, u64 count, const struct dmr_pool_range *only,
	      char *result, unsigned int maxlen)
{
	struct print p = {
		.table = t, .only = only, .result = result, .maxlen = maxlen,
	};
	u64 nr_blocks = dmr_nr_blocks(t->volume_sectors);
	int r;

	if (first > nr_blocks) {
		DMERR("%s: table: the volume has %llu blocks only", dmr_name(t->meta), nr_blocks);
		return -EINVAL;
	}
	r = print_runs(&p, &first, first + min(count, nr_blocks - first));
	leave_page(&p);
	if (r)
		return r;
	print_end(&p, first);
	/*
	 * Settle behind it: a block that has come home since the last write-back is on
	 * disk where it was before, and the caller who reads "b" may free that place.
	 */
	r = dmr_writeback_settle_changes(t);
	return r ? r : 1;
}
