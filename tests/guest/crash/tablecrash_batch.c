// SPDX-License-Identifier: GPL-2.0
/*
 * Roll-backs: batches of `set`, planned, sent, and known to be done. See
 * tablecrash_control.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "lib/dm.h"
#include "tablecrash_control.h"

#define MAX_BATCH	4U		/* segments in a roll-back */

static struct place in_pool(uint64_t block)
{
	struct place place = { IN_POOL, block };

	return place;
}

static bool is_for_all(uint64_t first, uint64_t nr)
{
	uint64_t i;

	for (i = first; i < first + nr; i++)
		if (t.pool.blocks[i].only)
			return false;
	return true;
}

/* @nr blocks in [@first, @end) that anybody may name, or zeros. */
static struct place any_in_pool(uint64_t first, uint64_t end, uint64_t nr)
{
	unsigned int tries;

	for (tries = 0; tries < 16; tries++) {
		uint64_t block = first + below(&c.random, end - first - nr + 1);

		if (is_for_all(block, nr))
			return in_pool(block);
	}
	return (struct place){ .kind = IN_ZERO };
}

/* The same in a frame or a pack: then it can be a whole one. */
static struct place any_run(uint64_t nr)
{
	uint64_t first = POOL_SINGLE + below(&c.random, POOL_FRAMES) * SEG_BLOCKS;

	if (one_in(&c.random, 3))
		first = pool_pack(&t.pool, below(&c.random, POOL_PACKS / 2));
	return any_in_pool(first, first + SEG_BLOCKS, nr);
}

static struct place any_place(uint64_t nr)
{
	switch (below(&c.random, 8)) {
	case 0:
		return (struct place){ .kind = IN_BASE };
	case 1:
		return (struct place){ .kind = IN_ZERO };
	case 2:
		return any_run(nr);
	default:
		return any_in_pool(0, POOL_SINGLE, nr);
	}
}

static void plan_run(uint64_t block, uint64_t nr, struct place place)
{
	uint64_t i;

	for (i = 0; i < nr; i++)
		own.batch.places[block + i] = place_plus(place, i);
}

static void plan_fragments(uint64_t block, uint64_t nr)
{
	uint64_t i;

	for (i = 0; i < nr; i++)
		own.batch.places[block + i] = any_place(1);
}

static void plan_runs(uint64_t block, uint64_t nr)
{
	uint64_t i, n;

	for (i = 0; i < nr; i += n) {
		n = 1 + below(&c.random, 64);
		if (n > nr - i)
			n = nr - i;
		plan_run(block + i, n, one_in(&c.random, 3) ? any_place(n) : any_run(n));
	}
}

/* What segment @seg is to be: whole, zeros, in runs, in fragments; or the base. */
static void plan_seg(uint64_t seg)
{
	uint64_t first = seg * SEG_BLOCKS;
	uint64_t nr = t.pool.nr_places - first;

	if (nr > SEG_BLOCKS)
		nr = SEG_BLOCKS;
	own.batch.segs[seg] = true;
	switch (below(&c.random, 10)) {
	case 0 ... 2:
		plan_run(first, nr, any_run(nr));
		break;
	case 3:
		plan_run(first, nr, (struct place){ .kind = IN_ZERO });
		break;
	case 4 ... 6:
		plan_runs(first, nr);
		break;
	case 7:
	case 8:
		plan_fragments(first, nr);
		break;
	default:
		plan_run(first, nr, (struct place){ .kind = IN_BASE });
		break;
	}
}

/* The words of @block at its planned place. The volume is suspended. */
bool plan_words(uint64_t block)
{
	struct place place = own.batch.places[block];
	uint64_t s = block * BLOCK_SECTORS, end = s + BLOCK_SECTORS;

	if (end > c.oracle.sectors)
		end = c.oracle.sectors;
	if (place.kind == IN_BASE)
		return oracle_read(&c.oracle, c.base_fd, s, end - s, own.batch.words + s);
	for (; s < end; s++)
		own.batch.words[s] = place.kind == NOWHERE ? WORD_NOTHING :
				     pool_word(&t.pool, place, s);
	return true;
}

void plan_batch(bool all)
{
	struct batch *batch = &own.batch;
	uint64_t block;
	unsigned int i;

	for (block = 0; block < t.pool.nr_places; block++)
		batch->places[block].kind = NOWHERE;
	memset(batch->segs, 0, sizeof(batch->segs));
	for (i = 0; all && i < SEGS; i++)
		plan_seg(i);
	for (i = 1 + below(&c.random, MAX_BATCH); !all && i; i--)
		plan_seg(below(&c.random, SEGS));
}

/* The next blocks that are planned to lie in a row; false: no more. */
static bool next_run(uint64_t *block, uint64_t *nr)
{
	const struct place *places = own.batch.places;
	uint64_t half = c.oracle.half / BLOCK_SECTORS;
	uint64_t b = *block + *nr, end;

	while (b < t.pool.nr_places && places[b].kind == NOWHERE)
		b++;
	if (b >= t.pool.nr_places)
		return false;
	for (end = b + 1; end < t.pool.nr_places && end != half; end++)
		if (!place_follows(places[b], end - b, places[end]))
			break;
	*block = b;
	*nr = end - b;
	return true;
}

static int send_sets(void)
{
	static struct ranges ranges;
	uint64_t block = 0, nr = 0;
	int r = 0;

	ranges.len = 0;
	while (!r && next_run(&block, &nr)) {
		const struct place *place = &own.batch.places[block];

		if (ranges_add(&ranges, block, nr, NULL, place))
			continue;
		r = change(AT_SET, &c.random, "set %s", ranges.text);
		ranges.len = 0;
		ranges_add(&ranges, block, nr, NULL, place);
	}
	return r ? r : change(AT_SET, &c.random, "set %s", ranges.text);
}

/* The volume does not resume before the batch is over. */
static void expect_refused(void)
{
	int r = dm_resume(VOL);

	if (r != -EUCLEAN && !may_fail(r))
		miss("a resume within a batch gave %d", r);
}

int send_batch(void)
{
	int r = change(AT_BEGIN, &c.random, "begin");

	if (!r)
		r = send_sets();
	if (!r && one_in(&c.random, 4))
		expect_refused();
	return r ? r : change(AT_END, &c.random, "end");
}

/* The batch has been done: so it is. */
void adopt_batch(void)
{
	uint64_t block;

	oracle_replace(&c.oracle, own.batch.words, own.batch.stamp);
	for (block = 0; block < t.pool.nr_places; block++)
		if (own.batch.places[block].kind != NOWHERE)
			pool_set_place(&t.pool, block, own.batch.places[block]);
	own.batch.is_open = false;
	t.rollbacks++;
	mark_log();
}

/* The crash came between: it will be repeated, or has been done. */
void pin_batch(void)
{
	uint64_t block;

	for (block = 0; block < t.pool.nr_places; block++)
		if (own.batch.places[block].kind == IN_POOL)
			pool_pin(&t.pool, own.batch.places[block].block, 1);
}
