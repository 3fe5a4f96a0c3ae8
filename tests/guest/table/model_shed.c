// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that give space of the base back. See model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "model_steps.h"

#define MAX_BLOCKS	2048U		/* that a step looks at */

static struct place before[MAX_BLOCKS], after[MAX_BLOCKS];

/* Blocks that the base discards only together; 0: it takes no discards. */
static uint64_t unit_blocks(void)
{
	static const char * const names[] = { "discard_max_bytes", "discard_granularity" };
	unsigned long long bytes[2] = { 0 };
	unsigned int i;
	char path[128];
	struct stat st;
	FILE *file;

	if (fstat(c.base_fd, &st))
		die("cannot look at the base");
	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s", major(st.st_rdev),
			 minor(st.st_rdev), names[i]);
		file = fopen(path, "r");
		if (!file || fscanf(file, "%llu", &bytes[i]) != 1)
			die("cannot read %s", path);
		fclose(file);
	}
	if (!bytes[0])
		return 0;
	return bytes[1] > BLOCK ? bytes[1] / BLOCK : 1;
}

/* Send the message. False: it was refused, as it must be while others use the base. */
static bool send_shed(uint64_t first, uint64_t nr, bool zeroed)
{
	char text[80];
	int r;

	snprintf(text, sizeof(text), "shed %" PRIx64 ",%" PRIx64 "%s", first, nr,
		 zeroed ? " zeroed" : "");
	r = dm_message(VOL, "%s", text);
	if (frozen && r != -EBUSY)
		die("MISS: '%s' is %d while a checkpoint waits", text, r);
	/* Hydration may have come to its end. */
	if ((r == -EBUSY && (frozen || hydrating)) || (r == -EOPNOTSUPP && !unit_blocks()))
		return false;
	if (r)
		die("MISS: '%s' failed: %d", text, r);
	return true;
}

/* Zeros in [@first, @first + @nr) may come home, also such that a worker makes now. */
static void zeros_may_come_home(uint64_t first, uint64_t nr)
{
	uint64_t i;

	for (i = first; i < first + nr; i++)
		if (may_get(&c.b, i) & MAY_AWAY)
			may_add(&c.b, i, (struct place){ .kind = 'b' });
}

static uint64_t choose_range(uint64_t *ret_first)
{
	uint64_t nr = 1 + below(&rng, one_in(&rng, 2) ? MAX_BLOCKS : 100);
	unsigned int tries = 50;

	do {
		*ret_first = pick_block(&rng);
	} while (--tries && !(may_get(&c.b, *ret_first) & MAY_AWAY));
	/* Often from the beginning of a unit, whatever its size. */
	if (one_in(&rng, 2))
		*ret_first -= *ret_first % 64;
	return nr < c.b.nr - *ret_first ? nr : c.b.nr - *ret_first;
}

/* While the threads write to the same blocks. */
void do_shed(void)
{
	bool zeroed = one_in(&rng, 2);
	uint64_t first, nr = choose_range(&first);

	if (hydrating && one_in(&rng, 2))
		do_hydrate();
	if (zeroed)
		zeros_may_come_home(first, nr);
	if (send_shed(first, nr, zeroed))
		came_up(H_SHED);
}

/* Has the base nothing of the unit? */
static bool is_away(const struct place *places, uint64_t unit)
{
	uint64_t i;

	for (i = 0; i < unit; i++)
		if (places[i].kind == 'b')
			return false;
	return true;
}

/* What must be there now of a unit that was at @was. */
static void check_unit(uint64_t block, uint64_t unit, const struct place *was,
		       const struct place *is, bool given, bool zeroed)
{
	static uint64_t words[SEG_SECTORS];
	uint64_t i;

	for (i = 0; i < unit; i++) {
		struct place must_be = was[i];

		if (given && zeroed && was[i].kind == 'z')
			must_be.kind = 'b';
		if (!is_same(is[i], must_be))
			die("MISS: block %#" PRIx64 " was at %c, and is at %c after a shed",
			    block + i, was[i].kind, is[i].kind);
		if (given && zeroed && was[i].kind == 'z')
			came_up(H_SHED_HOME);
	}
	if (!given)
		return;
	must(read_words(c.base_fd, block * BLOCK_SECTORS, unit * BLOCK_SECTORS, words),
	     "read the base");
	for (i = 0; i < unit * BLOCK_SECTORS; i++)
		if (words[i] != WORD_ZERO)
			die("MISS: the base has something of block %#" PRIx64 " after a shed",
			    block + i / BLOCK_SECTORS);
	came_up(H_SHED_UNIT);
}

/* With nobody around: all that can be given back is, and nothing else. */
void do_quiet_shed(void)
{
	uint64_t unit = unit_blocks(), first, nr = choose_range(&first), block;
	uint64_t end = c.b.sectors / BLOCK_SECTORS;
	bool zeroed = one_in(&rng, 2);

	if (frozen && !one_in(&rng, 4))
		do_epoch();
	if (hydrating && !one_in(&rng, 4))
		do_hydrate();
	if (zeroed)
		zeros_may_come_home(first, nr);
	ask_table(first, nr, before);
	if (!send_shed(first, nr, zeroed))
		return;
	/* Hydration that has just ended may have been at work before. */
	if (hydrating)
		return;
	ask_table(first, nr, after);
	if (end > first + nr)
		end = first + nr;
	for (block = (first + unit - 1) / unit * unit; block + unit <= end; block += unit) {
		const struct place *was = before + (block - first);

		check_unit(block, unit, was, after + (block - first), is_away(was, unit), zeroed);
	}
	check_segs(first / SEG_BLOCKS, (first + nr - 1) / SEG_BLOCKS - first / SEG_BLOCKS + 1);
}
