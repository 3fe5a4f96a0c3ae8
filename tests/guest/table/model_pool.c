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

/* Nobody is to name the blocks of the message: punch, and use them for others. */
static void punch(void)
{
	struct place place;
	unsigned int i;

	/* Without discards, ask for something else that ends with a settle. */
	if (send_message() == -EOPNOTSUPP)
		ask_table(0, 1, &place);
	else
		came_up(H_PUNCH);
	for (i = 0; i < message.nr; i++) {
		write_pool(message.ranges[i].first, message.ranges[i].len, garbage);
		atomic_fetch_add(&c.hard[H_GARBAGE], message.ranges[i].len);
	}
}

/* What nobody names as it is. */
void do_punch(void)
{
	unsigned int tries = 1 + below(&rng, 20);

	blocks_count_refs(&c.b);
	begin_message("punch");
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
		punch();
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
 * be under way there: only the settle of the message waits for those.
 */
void do_punch_fresh(void)
{
	uint32_t *before = malloc(c.b.pool_nr * sizeof(*before));
	unsigned int tries = 50;

	if (!before)
		die("no memory");
	begin_message("punch");
	do {
		blocks_count_refs(&c.b);
		memcpy(before, c.b.refs, c.b.pool_nr * sizeof(*before));
		usleep(200);
		blocks_count_refs(&c.b);
		add_fresh(before);
	} while (!message.nr && --tries);
	free(before);
	if (message.nr)
		punch();
}

/* Block @block of the volume, from one block of the pool to another. */
static void add_move(uint64_t block, uint64_t from, uint64_t to)
{
	struct range range = {
		.first = block,
		.len = 1,
		.from = { 'p', from },
		.to = { 'p', to },
	};

	add_range(range);
}

/* Whoever is at [@first, @first + @len) goes to @to. */
static void move_all(uint64_t first, uint64_t len, uint64_t to)
{
	uint64_t i;

	begin_message("remap");
	for (i = 0; i < c.b.nr; i++) {
		uint64_t may = may_get(&c.b, i), block = MAY_BLOCK(may);

		if (!(may & MAY_POOL) || block < first || block >= first + len)
			continue;
		if (!has_room()) {
			send_message();
			remap_is_done();
			begin_message("remap");
		}
		add_move(i, block, to + block - first);
	}
	if (!message.nr)
		return;
	send_message();
	remap_is_done();
}

/* As compaction does it: move whoever is there away, and punch at once. */
void do_evacuate(void)
{
	uint64_t block = pick_block(&rng), first, len = 1 + below(&rng, 16), to, may;
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
	if (!find_equal(first, len, &to) || (to < first + len && first < to + len))
		return;
	move_all(first, len, to);
	begin_message("punch");
	add_range((struct range){ .first = first, .len = len });
	punch();
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
