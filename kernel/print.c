// SPDX-License-Identifier: GPL-2.0
/*
 * The message table: print places. It ends with a settle.
 */
#include "dmr_table.h"
#include "pages.h"
#include "print.h"
#include "words.h"
#include "writeback.h"

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

int dmr_print(struct dmr_table *t, u64 first, u64 count, char *result,
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
