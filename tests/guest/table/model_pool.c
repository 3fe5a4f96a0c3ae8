// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that change the pool: its owner takes blocks that no place names. See
 * model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model_steps.h"

#define GARBAGE		(1ULL << 40)	/* contents of that number and above */

/* [@block, @block + @nr) gets these contents: no more than fit into a segment. */
void write_pool(uint64_t block, uint64_t nr, uint64_t (*content)(uint64_t block))
{
	static uint64_t words[SEG_SECTORS];
	uint64_t i;

	for (i = 0; i < nr * BLOCK_SECTORS; i++) {
		uint64_t at = block + i / BLOCK_SECTORS;

		if (i % BLOCK_SECTORS == 0)
			c.b.pool[at] = content(at);
		words[i] = word_of_content(c.b.pool[at], i);
	}
	must(write_words(c.pool_fd, block * BLOCK_SECTORS, nr * BLOCK_SECTORS, words),
	     "write to the pool");
}

static uint64_t garbage(uint64_t block)
{
	static uint64_t next = GARBAGE;

	(void)block;
	return next++;
}

void settle(void)
{
	struct place place;

	ask_table(0, 1, &place);
}

/* Use the blocks of the pool that have been collected for others, once nobody names them. */
static void reuse(void)
{
	unsigned int i;

	settle();
	for (i = 0; i < message.nr; i++) {
		write_pool(message.ranges[i].first, message.ranges[i].len, garbage);
		atomic_fetch_add(&c.hard[H_GARBAGE], message.ranges[i].len);
	}
}

/* What nobody names as it is. */
void do_reuse(void)
{
	unsigned int tries = 1 + below(&rng, 20);

	blocks_count_refs(&c.b);
	begin_message(NULL);
	while (tries-- && has_room()) {
		struct range range = { .first = below(&rng, c.b.pool_nr) };
		uint64_t max = 1 + below(&rng, 8);

		while (range.len < max && range.first + range.len < c.b.pool_nr &&
		       !c.b.refs[range.first + range.len] &&
		       c.b.pool[range.first + range.len] < GARBAGE)
			range.len++;
		if (range.len && !has_range(range.first, range.len))
			add_range(range);
	}
	if (message.nr)
		reuse();
}

/* Blocks of the pool that nobody names any more, and somebody did in @before. */
static void add_fresh(const uint32_t *before)
{
	uint64_t i;

	for (i = 0; i < c.b.pool_nr && has_room(); i++)
		if (before[i] && !c.b.refs[i])
			add_range((struct range){ .first = i, .len = 1 });
}

/*
 * What a write has just gone home from, while reads that came before it may still
 * be under way there: only a settle waits for those.
 */
void do_reuse_fresh(void)
{
	uint32_t *before = malloc(c.b.pool_nr * sizeof(*before));
	unsigned int tries = 50;

	if (!before)
		die("no memory");
	begin_message(NULL);
	do {
		blocks_count_refs(&c.b);
		memcpy(before, c.b.refs, c.b.pool_nr * sizeof(*before));
		usleep(200);
		blocks_count_refs(&c.b);
		add_fresh(before);
	} while (!message.nr && --tries);
	free(before);
	if (message.nr)
		reuse();
}

bool move_all(struct place first, uint64_t len, struct place to)
{
	uint64_t i;

	begin_message("remap");
	for (i = 0; i < c.b.nr; i++) {
		struct range range = { .first = i, .len = 1 };

		range.from = may_in_pool(may_get(&c.b, i));
		if (range.from.kind != first.kind || range.from.block < first.block ||
		    range.from.block >= first.block + len)
			continue;
		if (!has_room()) {
			send_message();
			remap_is_done();
			begin_message("remap");
		}
		range.to = nth(to, range.from.block - first.block);
		add_range(range);
	}
	if (!message.nr)
		return false;
	send_message();
	remap_is_done();
	return true;
}

/* As compaction does it: move whoever is there away, and use it at once. */
void do_evacuate(void)
{
	uint64_t block = pick_block(&rng), first, len = 1 + below(&rng, 16), may;
	struct place from = { .kind = 'p' }, to;
	unsigned int tries;

	may = may_get(&c.b, block);
	for (tries = 0; tries < 100 && !(may & MAY_POOL); tries++) {
		block = pick_block(&rng);
		may = may_get(&c.b, block);
	}
	first = MAY_BLOCK(may);
	if (!(may & MAY_POOL))
		return;
	if (len > c.b.pool_nr - first)
		len = c.b.pool_nr - first;
	from.block = first;
	if (!find_equal(from, &len, &to) ||
	    (to.kind == 'p' && to.block < first + len && first < to.block + len))
		return;
	move_all(from, len, to);
	begin_message(NULL);
	add_range((struct range){ .first = first, .len = len });
	reuse();
	came_up(H_EVACUATE);
}

/* Give the pool back what it had, where nobody looks. */
void do_refill(void)
{
	uint64_t i, nr = 0;

	blocks_count_refs(&c.b);
	for (i = 0; i < c.b.pool_nr; i++)
		nr += c.b.pool[i] >= GARBAGE;
	if (nr < c.b.pool_nr / 4)
		return;
	for (i = 0; i < c.b.pool_nr; i++)
		if (c.b.pool[i] >= GARBAGE && !c.b.refs[i])
			write_pool(i, 1, first_content);
}
