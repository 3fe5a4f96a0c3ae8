// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that move blocks while the threads run. See model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model_steps.h"

/* How many blocks from @block on lie in a row from where @block may lie. */
static uint64_t run_of(uint64_t block, uint64_t max, struct place *ret_place)
{
	uint64_t may = may_get(&c.b, block), n = 1;

	if (may & MAY_IN_POOL)
		*ret_place = may_in_pool(may);
	else if (may & MAY_ZERO)
		*ret_place = (struct place){ .kind = 'z' };
	else
		return 0;
	while (n < max && block + n < c.b.nr && may_be(&c.b, block + n, nth(*ret_place, n)))
		n++;
	return n;
}

/* One of the blocks of the pool that had first_content(@nr) at the beginning. */
static struct place any_copy(uint64_t nr)
{
	nr += c.nr_contents * below(&rng, c.b.pool_nr / c.nr_contents);
	return (struct place){ 'p', nr };
}

/* By chance such a block, or a slot of a pack. */
static bool choose_copy(uint64_t nr, struct place *place)
{
	if (one_in(&rng, 3))
		return find_packed(nr, place);
	*place = any_copy(nr);
	return true;
}

bool find_equal(struct place from, uint64_t *len, struct place *to)
{
	uint64_t nr = from.kind == 'k' ? packed_content(from) : from.block % c.nr_contents, n;

	if (!choose_copy(nr, to) || is_same(from, *to))
		return false;
	for (n = 0; n < *len; n++) {
		uint64_t content = blocks_content(&c.b, nth(from, n));

		if (content == NO_BLOCK || blocks_content(&c.b, nth(*to, n)) != content)
			break;
	}
	*len = n;
	return n;
}

/* Another place for what is at @from. */
static bool choose_equal(struct range *range)
{
	if (range->from.kind == 'z') {
		/* A block of zeros in the pool has no neighbour of that kind. */
		range->len = 1;
		return choose_copy(ZERO_CONTENTS * below(&rng, c.nr_contents / ZERO_CONTENTS),
				   &range->to) &&
		       !blocks_content(&c.b, range->to) &&
		       !(may_get(&c.b, range->first) & MAY_IN_POOL);
	}
	if (!blocks_content(&c.b, range->from) && one_in(&rng, 2)) {
		range->len = 1;
		range->to = (struct place){ .kind = 'z' };
		return true;
	}
	return find_equal(range->from, &range->len, &range->to);
}

void remap_is_done(void)
{
	uint64_t i, k;

	for (i = 0; i < message.nr; i++) {
		const struct range *range = &message.ranges[i];

		if (range->to.kind == 'k')
			came_up(H_PACK_TO);
		else if (range->from.kind == 'k')
			came_up(H_PACK_FROM);
		for (k = 0; k < range->len; k++) {
			struct place to = nth(range->to, k);

			/* A discard may have made zeros of it again. */
			if (range->from.kind == 'z' && !alone)
				may_add(&c.b, range->first + k, to);
			else
				may_move(&c.b, range->first + k, nth(range->from, k), to);
		}
	}
}

void do_remap(void)
{
	unsigned int tries = 1 + below(&rng, one_in(&rng, 3) ? 200 : 30);

	begin_message("remap");
	while (tries-- && has_room()) {
		struct range range = { .first = pick_block(&rng) };

		range.len = run_of(range.first, 1 + below(&rng, one_in(&rng, 8) ? 1000 : 40),
				   &range.from);
		if (range.len && choose_equal(&range) && !has_range(range.first, range.len))
			add_range(range);
	}
	if (!message.nr)
		return;
	send_message();
	remap_is_done();
	atomic_fetch_add(&c.hard[H_REMAP], message.nr);
}

/* Any @max blocks in the pool, in a row. */
static struct place any_in_pool(uint64_t max)
{
	struct place place = { 'p', below(&rng, c.b.pool_nr - max) };

	if (!one_in(&rng, 3))
		return place;
	place = pack_place(&c.b, below(&rng, c.b.nr_packs));
	return nth(place, below(&rng, SEG_BLOCKS - max));
}

/*
 * Blocks that are not where the message says. (Not zeros: somebody may discard
 * the block just now.)
 */
void do_remap_wrong(void)
{
	unsigned int tries = 1 + below(&rng, 30);

	begin_message("remap");
	while (tries-- && has_room()) {
		struct range range = { .first = pick_block(&rng) };
		uint64_t max = 1 + below(&rng, 20);

		range.from = any_in_pool(max);
		while (range.len < max && range.first + range.len < c.b.nr &&
		       !may_be(&c.b, range.first + range.len, nth(range.from, range.len)))
			range.len++;
		range.to = any_in_pool(max);
		if (one_in(&rng, 4))
			range.to = (struct place){ .kind = 'z' };
		if (range.len && !has_range(range.first, range.len))
			add_range(range);
	}
	if (!message.nr)
		return;
	send_message();
	atomic_fetch_add(&c.hard[H_REMAP_WRONG], message.nr);
}

/* The place of the pool that has what @words are, if any. */
static bool find_content(uint64_t block, const uint64_t *words, struct place *place)
{
	unsigned int i, n = block_sectors(&c.b, block);
	uint64_t content;

	if (!word_to_content(words[0], &content) || content >= c.nr_contents)
		return false;
	for (i = 1; i < n; i++)
		if (words[i] != word_of_content(content, i))
			return false;
	if (!content && one_in(&rng, 2)) {
		*place = (struct place){ .kind = 'z' };
		return true;
	}
	return choose_copy(content, place) && blocks_content(&c.b, *place) == content;
}

/*
 * Read @nr blocks as a program would that looks for what the pool has already, and
 * make a message of what it finds.
 */
void find_aliases(uint64_t first, uint64_t nr)
{
	uint64_t words[256 * BLOCK_SECTORS], i, sectors = nr * BLOCK_SECTORS;
	struct place place;

	if (sectors > c.b.sectors - first * BLOCK_SECTORS)
		sectors = c.b.sectors - first * BLOCK_SECTORS;
	must(read_words(c.fd, first * BLOCK_SECTORS, sectors, words), "read the volume");
	begin_message("alias " TOKEN);
	for (i = 0; i < nr; i++)
		/* The model has room for one place in the pool. */
		if (!(may_get(&c.b, first + i) & MAY_IN_POOL) &&
		    find_content(first + i, words + i * BLOCK_SECTORS, &place))
			add_range((struct range){ .first = first + i, .len = 1, .to = place });
}

static void count_aliases(uint64_t first, uint64_t nr)
{
	struct place places[256];
	uint64_t i, k;

	ask_table(first, nr, places);
	for (i = 0; i < message.nr; i++) {
		const struct range *range = &message.ranges[i];

		for (k = 0; k < range->len; k++) {
			bool taken = is_same(places[range->first + k - first], nth(range->to, k));

			came_up(taken ? H_ALIAS : H_ALIAS_RACED);
			if (taken && range->to.kind == 'k')
				came_up(H_PACK_ALIAS);
		}
	}
}

static void alias_is_done(void)
{
	uint64_t i, k;

	for (i = 0; i < message.nr; i++)
		for (k = 0; k < message.ranges[i].len; k++)
			may_add(&c.b, message.ranges[i].first + k, nth(message.ranges[i].to, k));
}

/* Where all threads write for a while: blocks of one of them. */
static void choose_hot(void)
{
	uint64_t first = pick_block(&rng), nr = 1;
	uint64_t max = 1 + below(&rng, one_in(&rng, 4) ? 64 : 12);

	while (nr < max && first + nr < c.b.nr && worker_of(first + nr) == worker_of(first))
		nr++;
	atomic_store(&c.hot, first << 8 | nr);
}

void watch(uint64_t first, uint64_t nr)
{
	uint64_t other = pick_block(&rng);

	begin_message("watch " TOKEN);
	add_range((struct range){ .first = first, .len = nr });
	if (one_in(&rng, 3) && !has_range(other, 1))
		add_range((struct range){ .first = other, .len = 1 });
	send_message();
}

/*
 * Half of the time where threads write most, so that they come between, and else
 * where they may leave it alone.
 */
void do_alias(void)
{
	uint64_t hot = atomic_load(&c.hot), first = hot >> 8, nr = hot & 0xff;

	if (!nr || first + nr > c.b.nr || one_in(&rng, 2)) {
		first = pick_block(&rng);
		nr = 1 + below(&rng, 128);
		if (nr > c.b.nr - first)
			nr = c.b.nr - first;
	}
	watch(first, nr);
	if (one_in(&rng, 4))
		wait_for_ops(below(&rng, 40));
	find_aliases(first, nr);
	if (one_in(&rng, 16)) {
		/* Another program watches: ours must read again. */
		send_text("watch " OTHER_TOKEN " 0,1");
		refused(-ESTALE, "alias " TOKEN " 0,1,z");
		came_up(H_ALIAS_STALE);
	} else if (message.nr) {
		if (one_in(&rng, 3))
			wait_for_ops(below(&rng, 40));
		send_message();
		alias_is_done();
		count_aliases(first, nr);
	} else if (one_in(&rng, 2)) {
		send_text("watch -");
	}
	if (one_in(&rng, 3))
		choose_hot();
}

void do_hydrate(void)
{
	char text[64] = "hydrate start";
	struct status status;

	if (hydrating) {
		send_text("hydrate stop");
		/* It waits for no copy that has begun; a settle does, here of a watch. */
		send_text("watch " TOKEN " 0,1");
		hydrating = false;
		hydration_may_run();
		return;
	}
	if (!one_in(&rng, 6))
		snprintf(text, sizeof(text), "hydrate start %u",
			 1 + (unsigned int)below(&rng, 4));
	hydrating = true;
	hydration_may_run();
	send_text(text);
	came_up(H_HYDRATE);
	ask_status(&status);
	if (frozen && !strcmp(status.hydrate, "paused"))
		came_up(H_PAUSED);
	/* Where nothing was left it is over by now. */
	if (frozen && !strcmp(status.hydrate, "on"))
		die("MISS: hydration is not paused, and a checkpoint waits");
}

void do_suspend(void)
{
	suspend();
	switch (below(&rng, 6)) {
	case 0:
		do_remap();
		break;
	case 1:
		do_remap_wrong();
		break;
	case 2:
		do_hydrate();
		break;
	case 3:
		usleep(below(&rng, 2000));
		break;
	}
	resume();
}

void do_reload(void)
{
	load_table();
	if (one_in(&rng, 4))
		do_remap();
	suspend();
	if (one_in(&rng, 4))
		do_remap();
	resume();
	came_up(H_RELOAD);
}
