/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Words of the remap table: where each segment lies, how many blocks of each kind there
 * are, and where a block lies. See dmr_table.h for what a word looks like.
 */
#ifndef DMR_WORDS_H
#define DMR_WORDS_H

#include "dmr_table.h"

static inline bool dmr_word_is_whole(u64 word)
{
	return (word & DMR_WORD_KIND) ||
	       ((word & DMR_WORD_TAGS) == DMR_WORD_PACK && word != DMR_WORD_BAD);
}

/* Where the segment of @word, which is whole, begins. */
static inline struct dmr_entry dmr_word_place(u64 word)
{
	return dmr_entry_body(true, word & DMR_WORD_KIND ? word : word & ~DMR_WORD_TAGS);
}

/* The page is in memory and may be read. */
static inline bool dmr_word_is_here(u64 word)
{
	return !(word & DMR_WORD_TAGS);
}

static inline struct dmr_page *dmr_word_page(u64 word)
{
	return (struct dmr_page *)(unsigned long)(word & ~DMR_WORD_TAGS);
}

/* It maps no block to the pool: most words of most volumes. */
static inline bool dmr_word_is_plain(u64 word)
{
	return word == DMR_WORD_BASE || word == DMR_WORD_ZERO;
}

static inline u64 dmr_word_of(struct dmr_entry place)
{
	return dmr_entry_value(true, place) | (place.kind == DMR_PACK ? DMR_WORD_PACK : 0);
}

/* The word of @seg, with the page that it names. In an RCU read-side critical section. */
static inline u64 dmr_word_get(struct dmr_table *t, u64 seg)
{
	/* Pairs with dmr_word_store(): a page is filled before its word is there. */
	return smp_load_acquire(&t->words[seg]);
}

/* The place of block @i of the page. In an RCU read-side critical section, or under t->lock. */
static inline struct dmr_entry dmr_page_entry(struct dmr_page *page, unsigned int i)
{
	static const struct dmr_entry base = { .kind = DMR_BASE };

	if (test_bit(i, page->home))
		return base;
	/* Pairs with the barriers where a home bit is cleared. */
	smp_rmb();
	return dmr_entry_body(false, le64_to_cpu(READ_ONCE(page->entries[i])));
}

/* What is in packs, or damaged, counts as in the pool. */
static inline enum dmr_kind dmr_count_as(enum dmr_kind kind)
{
	return kind == DMR_BASE || kind == DMR_ZERO ? kind : DMR_POOL;
}

/* Blocks of the volume in @seg. Anywhere. */
unsigned int dmr_words_blocks_in(struct dmr_table *t, u64 seg);

/* Pack the entries of blocks @first, ... of @seg: @place and those that follow it. Anywhere. */
void dmr_words_pack(struct dmr_table *t, u64 seg, unsigned int first,
		    unsigned int nr, struct dmr_entry place, __le64 *to);

/* In an RCU read-side critical section: */

/* The first segment from @seg on, before @end, that may have blocks in the pool; or @end. */
u64 dmr_words_next_pool(struct dmr_table *t, u64 seg, u64 end);
/* Find the place of @block for I/O, which keeps its page in memory. False if it is not there. */
bool dmr_words_look_up(struct dmr_table *t, u64 block, struct dmr_entry *place);
/* The same for a look that says nothing about what I/O will need. */
bool dmr_words_peek(struct dmr_table *t, u64 block, struct dmr_entry *place);
/* How many blocks from @block on, at most @max, lie at @place and behind it? Only peeks. */
u64 dmr_words_run(struct dmr_table *t, u64 block, u64 max, struct dmr_entry place);

/* Under t->lock, or before another thread can find @t: */

/* Add (@sign 1) or subtract (-1) the blocks of @seg, which @word maps. */
void dmr_word_count(struct dmr_table *t, u64 seg, u64 word, int sign);
/* The same for a page with so many entries; blocks past the end of the volume are BASE. */
void dmr_word_count_page(struct dmr_table *t, u64 seg, unsigned int nr_base,
			 unsigned int nr_zero, int sign);
/* Note what kind of word @seg has. */
void dmr_word_note(struct dmr_table *t, u64 seg, u64 word);
/* Set the word of @seg, in memory only, where the counts stay what they are. */
void dmr_word_store(struct dmr_table *t, u64 seg, u64 word);
/* Have the next write-back write the word of @seg. */
void dmr_word_mark_dirty(struct dmr_table *t, u64 seg);
/* Map @seg by @word. */
void dmr_word_set(struct dmr_table *t, u64 seg, u64 word);

#endif
