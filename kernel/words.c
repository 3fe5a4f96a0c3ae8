// SPDX-License-Identifier: GPL-2.0
/*
 * Words of the remap table in memory. See dmr_table.h.
 */
#include "dmr_table.h"
#include "words.h"

/* ------------------------------------------------------------------
 * Counting
 */

unsigned int dmr_words_blocks_in(struct dmr_table *t, u64 seg)
{
	return dmr_blocks_in_seg(t->volume_sectors, seg);
}

void dmr_word_count_page(struct dmr_table *t, u64 seg, unsigned int nr_base,
			 unsigned int nr_zero, int sign)
{
	unsigned int past = DMR_SEG_BLOCKS - dmr_words_blocks_in(t, seg);

	t->nr[DMR_BASE] += sign * ((s64)nr_base - past);
	t->nr[DMR_ZERO] += sign * (s64)nr_zero;
	t->nr[DMR_POOL] += sign * ((s64)DMR_SEG_BLOCKS - nr_base - nr_zero);
}

void dmr_word_count(struct dmr_table *t, u64 seg, u64 word, int sign)
{
	u64 hints = word >> 4;

	if (dmr_word_is_whole(word))
		t->nr[dmr_count_as(dmr_word_place(word).kind)] +=
			sign * (s64)dmr_words_blocks_in(t, seg);
	else if (word == DMR_WORD_BAD)
		t->nr[DMR_POOL] += sign * (s64)dmr_words_blocks_in(t, seg);
	else if ((word & DMR_WORD_TAGS) == DMR_WORD_AWAY)
		dmr_word_count_page(t, seg, dmr_hint_base(hints), dmr_hint_zero(hints), sign);
	else
		dmr_word_count_page(t, seg, dmr_word_page(word)->nr_base,
				    dmr_word_page(word)->nr_zero, sign);
}

/* ------------------------------------------------------------------
 * Words
 */

void dmr_word_note(struct dmr_table *t, u64 seg, u64 word)
{
	u64 block = seg / DMR_SEG_BLOCKS;

	if (!dmr_word_is_plain(word) && !test_bit(block, t->words_pool))
		set_bit(block, t->words_pool);
}

void dmr_word_store(struct dmr_table *t, u64 seg, u64 word)
{
	lockdep_assert_held(&t->lock);
	t->nr_stores++;
	dmr_word_note(t, seg, word);
	/* Pairs with dmr_word_get(). */
	smp_store_release(&t->words[seg], word);
}

void dmr_word_mark_dirty(struct dmr_table *t, u64 seg)
{
	__set_bit(seg / DMR_SEG_BLOCKS, t->words_dirty);
	WRITE_ONCE(t->words_wait, true);
	queue_delayed_work(t->wq, &t->writeback_work, HZ);
}

void dmr_word_set(struct dmr_table *t, u64 seg, u64 word)
{
	t->nr_changes++;
	dmr_word_count(t, seg, t->words[seg], -1);
	dmr_word_count(t, seg, word, 1);
	dmr_word_store(t, seg, word);
	dmr_word_mark_dirty(t, seg);
}

u64 dmr_words_next_pool(struct dmr_table *t, u64 seg, u64 end)
{
	u64 nr = DIV_ROUND_UP_ULL(end, DMR_SEG_BLOCKS);
	u64 at = find_next_bit(t->words_pool, nr, seg / DMR_SEG_BLOCKS);

	return clamp(at * DMR_SEG_BLOCKS, seg, end);
}

/* ------------------------------------------------------------------
 * Entries
 */

void dmr_words_pack(struct dmr_table *t, u64 seg, unsigned int first,
		    unsigned int nr, struct dmr_entry place, __le64 *to)
{
	u64 index = seg * DMR_SEG_BLOCKS + first;
	unsigned int i;

	for (i = 0; i < nr; i++)
		to[i] = cpu_to_le64(dmr_entry_pack(t->seed, false, index + i,
						   dmr_entry_plus(place, i)));
}

/* Find the place of @block, and the page that says so; *@ret_page is NULL if the word does. */
static bool find_place(struct dmr_table *t, u64 block, struct dmr_entry *place,
		       struct dmr_page **ret_page)
{
	u64 word = dmr_word_get(t, dmr_block_seg(block));
	struct dmr_page *page;

	*ret_page = NULL;
	if (dmr_word_is_whole(word)) {
		*place = dmr_entry_plus(dmr_word_place(word), dmr_block_index(block));
		return true;
	}
	if (unlikely(!dmr_word_is_here(word))) {
		place->kind = DMR_PAGE;
		place->block = 0;
		return word == DMR_WORD_BAD;
	}
	page = dmr_word_page(word);
	*place = dmr_page_entry(page, dmr_block_index(block));
	*ret_page = page;
	return true;
}

bool dmr_words_look_up(struct dmr_table *t, u64 block, struct dmr_entry *place)
{
	struct dmr_page *page;
	bool found = find_place(t, block, place, &page);

	if (page && !READ_ONCE(page->referenced))
		WRITE_ONCE(page->referenced, true);
	return found;
}

bool dmr_words_peek(struct dmr_table *t, u64 block, struct dmr_entry *place)
{
	struct dmr_page *page;

	return find_place(t, block, place, &page);
}

u64 dmr_words_run(struct dmr_table *t, u64 block, u64 max, struct dmr_entry place)
{
	struct dmr_entry next;
	u64 len = 1;

	while (len < max) {
		u64 word = dmr_word_get(t, dmr_block_seg(block + len));
		u64 step = 1;

		if (dmr_word_is_whole(word))
			step = DMR_SEG_BLOCKS - dmr_block_index(block + len);
		if (!dmr_words_peek(t, block + len, &next) ||
		    !dmr_entry_goes_on(place, len, next))
			break;
		len += step;
	}
	return min(len, max);
}
