// SPDX-License-Identifier: GPL-2.0
/*
 * What the controller does to the volume until it crashes. See tablecrash_control.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/dm.h"
#include "epochs.h"
#include "tablecrash_control.h"

#define WORDS_FIRST	(3 * 8)		/* sectors of the metadata device */
#define PAGES_FIRST	(66 * 8)
#define FLUSH_WITHIN_MS	120000

/*
 * ---- suspended ----
 */

static void end_outage(void)
{
	must(dm_message(META, "fail-writes off"), "end the outage");
	c.has_outage = false;
}

static int suspend(void)
{
	/* Without it we would wait for the end of the outage, which is our own. */
	unsigned int flags = c.has_outage || one_in(&c.random, 2) ? DM_NOFLUSH : 0;
	size_t mark = oracle_flush_begin(&c.oracle);
	int r = dm_suspend(VOL, flags | (one_in(&c.random, 2) ? DM_NOLOCKFS : 0));

	if (r && !may_fail(r))
		miss("suspend failed: %s", strerror(-r));
	/* All that was acknowledged is stable. A suspend does not say that it failed. */
	if (!r && !t.no_table && !may_fail(-EIO))
		oracle_flush_end(&c.oracle, mark);
	return r;
}

static void resume(void)
{
	int r;

	reached(AT_RESUME, &c.random);
	r = dm_resume(VOL);
	if (r && may_fail(r) && c.has_outage && !atomic_load(&c.crashing)) {
		end_outage();
		r = dm_resume(VOL);
	}
	if (r && !atomic_load(&c.crashing))
		miss("resume failed: %s", strerror(-r));
}

/* What the volume holds, though it cannot be read now: what its places do. */
static bool read_places(uint64_t first, uint64_t sectors, uint32_t *words)
{
	uint64_t block = first / BLOCK_SECTORS, s = first, end = first + sectors, next;
	uint64_t nr = (end - 1) / BLOCK_SECTORS + 1 - block, i;
	struct place *places = calloc(nr, sizeof(*places));
	bool good = !ask_places(block, nr, places);

	for (i = 0; i < nr && good; i++, s = next) {
		next = (block + i + 1) * BLOCK_SECTORS;
		if (next > end)
			next = end;
		if (places[i].kind == IN_BASE)
			good = oracle_read(&c.oracle, c.base_fd, s, next - s,
					   words + s - first);
		for (; places[i].kind != IN_BASE && s < next; s++)
			words[s - first] = pool_word(&t.pool, places[i], s);
	}
	free(places);
	return good;
}

static bool read_base(uint64_t first, uint64_t sectors, uint32_t *words)
{
	return oracle_read(&c.oracle, c.base_fd, first, sectors, words);
}

static void take_checkpoint(void)
{
	size_t mark = oracle_flush_begin(&c.oracle);

	/* Nobody gives pool blocks away between asking for places and reading. */
	pthread_mutex_lock(&t.lock);
	if (checkpoint(t.no_table ? read_base : read_places))
		oracle_flush_end(&c.oracle, mark);
	pthread_mutex_unlock(&t.lock);
}

static void suspended(void (*do_it)(void))
{
	if (suspend())
		return;
	if (do_it)
		do_it();
	resume();
}

static void reload(void)
{
	int r;

	reached(AT_RELOAD, &c.random);
	r = load_volume();
	if (r && !may_fail(r))
		miss("reload failed: %s", strerror(-r));
	if (r)
		return;
	suspended(one_in(&c.random, 2) ? take_checkpoint : NULL);
	count.reloads++;
}

/* The volume is suspended, nobody changes its table: nothing waits any more. */
static void expect_committed(void)
{
	unsigned int waiting = 0;
	char line[256];

	if (dm_status(VOL, line, sizeof(line)))
		die("cannot get the status");
	if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u", &waiting) != 1)
		miss("the status line is '%s'", line);
	/* A suspend does not say that it failed. */
	if (waiting && !may_fail(-EIO))
		miss("changes wait in a suspended volume: '%s'", line);
}

/* The volume is suspended, and nothing is in flight. */
static void roll_back_suspended(void)
{
	unsigned int tries = 3;
	uint64_t block;
	int r;

	expect_committed();
	for (block = 0; block < t.pool.nr_places; block++) {
		if (plan_words(block))
			continue;
		if (!atomic_load(&c.crashing))
			die("cannot read the base");
		return;
	}
	own.batch.stamp = oracle_plan(&c.oracle, own.batch.words);
	own.batch.is_open = true;
	mark_log();
	/* It is ours to repeat it until it is done. */
	while ((r = send_batch()) && !atomic_load(&c.crashing)) {
		if (!tries--)
			miss("the batch fails again and again: %s", strerror(-r));
		if (c.has_outage)
			end_outage();
		count.repeated++;
	}
	if (!r)
		adopt_batch();
	else
		pin_batch();
}

/* Nobody writes, or it would be for nothing; and no place changes. */
void roll_back(bool all)
{
	oracle_close(&c.oracle);
	pthread_mutex_lock(&t.lock);
	plan_batch(all);
	suspended(roll_back_suspended);
	count.rollbacks++;
	pthread_mutex_unlock(&t.lock);
	oracle_open(&c.oracle);
}

/*
 * ---- outages ----
 */

/* All of the metadata device, or parts: the table, words, pages, a superblock. */
static void fail_writes(void)
{
	uint64_t last = c.use_meta_sectors - 8;
	int r;

	switch (below(&c.random, 6)) {
	case 0:
		r = dm_message(META, "fail-writes on %u %u", WORDS_FIRST,
			       PAGES_FIRST - WORDS_FIRST);
		break;
	case 1:
		r = dm_message(META, "fail-writes on %u %" PRIu64, PAGES_FIRST,
			       last - PAGES_FIRST);
		break;
	case 2:
		r = dm_message(META, "fail-writes on %u %" PRIu64, WORDS_FIRST,
			       last - WORDS_FIRST);
		break;
	case 3:
		r = dm_message(META, "fail-writes on 0 8");
		break;
	case 4:
		r = dm_message(META, "fail-writes except 8 16");
		break;
	default:
		r = dm_message(META, "fail-writes on");
		break;
	}
	must(r, "begin an outage");
}

/* The table can be written again: so a flush must succeed, and soon. */
static void expect_flush(void)
{
	uint64_t end = now_us() + FLUSH_WITHIN_MS * 1000;

	while (!atomic_load(&c.crashing)) {
		size_t mark = oracle_flush_begin(&c.oracle);

		if (!fsync(own.vol_fd)) {
			oracle_flush_end(&c.oracle, mark);
			return;
		}
		if (now_us() > end && !atomic_load(&c.crashing))
			miss("flushes still fail %d ms after the outage", FLUSH_WITHIN_MS);
		pause_us(1000);
	}
}

static void outage(void)
{
	c.had_outage = true;
	c.has_outage = true;
	fail_writes();
	reached(AT_OUTAGE, &c.random);
	count.outages++;
	pause_us(below(&c.random, one_in(&c.random, 4) ? 1500000 : 30000));
	if (atomic_load(&c.crashing))
		return;
	/* A message may fail now, and the state must stay known. */
	if (one_in(&c.random, 3))
		suspended(take_checkpoint);
	else if (!t.no_table && one_in(&c.random, 3))
		roll_back(false);
	else if (epochs.now.frozen && epochs.may_commit)
		commit();
	if (!c.has_outage || atomic_load(&c.crashing))
		return;
	/* It gets better or worse before it is over. */
	if (one_in(&c.random, 2)) {
		fail_writes();
		pause_us(below(&c.random, 100000));
		if (atomic_load(&c.crashing))
			return;
	}
	end_outage();
	if (one_in(&c.random, 2))
		expect_flush();
	if (one_in(&c.random, 4))
		expect_ok();
}

/*
 * ---- a cycle ----
 */

/* Mostly a checkpoint and its commit in turn, as only commits make clean. */
static void suspend_for_checkpoint(void)
{
	suspended(take_checkpoint);
}

static void do_something(void)
{
	unsigned int dice = below(&c.random, c.outages ? 14 : 12);

	switch (dice) {
	case 0:
		mark();
		break;
	case 1:
		suspended(NULL);
		break;
	case 2:
		reload();
		break;
	case 3:
	case 4:
		if (!t.no_table)
			roll_back(false);
		break;
	case 12:
	case 13:
		outage();
		break;
	default:
		turn_epoch(suspend_for_checkpoint);
		break;
	}
}

/* Let the crowd move, mostly to blocks that have something to lose. */
static void move(void)
{
	uint64_t block = below(&c.random, t.pool.nr_places), tries;

	pthread_mutex_lock(&t.lock);
	for (tries = 0; tries < 8 && t.pool.places[block].kind == IN_BASE; tries++)
		block = below(&c.random, t.pool.nr_places);
	pthread_mutex_unlock(&t.lock);
	atomic_store(&t.hot, block);
	pause_us(below(&c.random, 2 * c.flush_us + 16 * c.tick_us));
}

void work(void)
{
	unsigned int n = below(&c.random, 6);

	do_something();
	while (n-- && !atomic_load(&c.crashing))
		move();
	mark_log();
}
