// SPDX-License-Identifier: GPL-2.0
/*
 * Crash a volume with a remap table again and again and see that no sector holds
 * what it must not.
 *
 *   tablecrash [--cycles N] [--seed S] [--outages] [--at EVENT] [--no-cache]
 *              [--no-table] BASE META POOL
 *   tablecrash --log NAME --journal FILE [--seconds N] [--seed S] POOL
 *
 * BASE, META and POOL are ramdisks of 2 GiB, which take memory only for what is
 * written. On the first two lies the judge of crashes (tests/judge), as in crash.c.
 * The pool loses nothing. In some lives neither base nor pool has a cache. On all
 * three is a volume of 12 segments, whose table at first is a mix of all that there
 * is: segments mapped whole, zeros, fragments, and the base. The base was filled
 * before, with a content that is right for none but the latter.
 *
 * While the volume is written, read and compared (tablecrash_work.c), one thread moves
 * blocks to others of the same content, gives the old ones to somebody else, and
 * has blocks of the base lie in the pool. The controller here suspends, reloads,
 * takes checkpoints, commits and aborts them, and rolls segments back in batches.
 *
 * After the crash every sector of the volume is read. It may hold what was
 * flushed last, or what was written later; never anything else: not what the base
 * held before, not what the pool has there now. A batch is done or not; where it was
 * begun the volume does not resume, and after the batch was repeated it is as the
 * batch wants it. What the table says must fit to what was read. And all that
 * changed since the last committed checkpoint is in a dirty segment.
 *
 * With --outages the metadata device also fails writes for a while: then a flush may
 * fail, and what was not flushed with success may be lost. --at says when to crash,
 * with the names of crashlib.c; with --no-cache there is none in any life; --no-table
 * is for a target without a table. With --log there are no crashes: base and metadata
 * device are parts of the dm-log-writes device NAME, and what happens is written to
 * FILE, for tablelog.c.
 *
 * Exit code: 0 only if nothing was missed and something was checked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/dm.h"
#include "epochs.h"
#include "tablecrash.h"

#define POOL		"rdt-pool"
#define POOL_NODE	"/dev/" POOL

#define SEGS		12U
#define MAX_BATCH	4U		/* segments in a roll-back */
#define CYCLES_A_LIFE	25U		/* then all is made anew */
#define META_SECTORS	(700ULL * 8)	/* words for two blocks, and pages */
#define WORDS_FIRST	(3 * 8)		/* sectors of the metadata device */
#define PAGES_FIRST	(66 * 8)
#define FLUSH_WITHIN_MS	3000
#define MAX_LOGGED	5000U		/* writes: the log must have room for them */

static const enum event events[] = {
	AT_TIME, AT_TIME, AT_TIME, AT_FLUSH, AT_FLUSH, AT_FLUSH, AT_RESUME, AT_CHECKPOINT,
	AT_OVER_CHECKPOINT, AT_COMMIT, AT_ABORT, AT_RELOAD, AT_REMAP, AT_REMAP, AT_PUNCH,
	AT_WATCH, AT_ALIAS, AT_ALIAS, AT_HYDRATE, AT_BEGIN, AT_SET, AT_END, AT_OUTAGE,
};

#define NR_CRASH_EVENTS	(sizeof(events) / sizeof(events[0]))

/* A roll-back: what is to be, and whether it is known to be. */
struct batch {
	bool is_open;			/* a crash may have come between */
	uint32_t *words;		/* see oracle_plan() */
	struct place *places;		/* NOWHERE: not in the batch */
	bool segs[SEGS];
	uint32_t stamp;
};

struct table_run t = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

struct counts count;

static struct {
	struct ground pool;
	const char *journal_path;
	unsigned int seconds;
	enum event at;			/* NR_EVENTS: any */
	bool no_cache;
	int vol_fd;
	struct place *places;		/* as the target says after a crash */
	struct batch batch;
} own = {
	.seconds = 10,
	.at = NR_EVENTS,
};

/*
 * ---- roll-backs ----
 */

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

/* The same in a frame: then it can be a whole one. */
static struct place any_run(uint64_t nr)
{
	uint64_t first = POOL_SINGLE + below(&c.random, POOL_FRAMES) * SEG_BLOCKS;

	return any_in_pool(first, first + SEG_BLOCKS, nr);
}

static struct place any_place(uint64_t nr)
{
	switch (below(&c.random, 8)) {
	case 0:
		return (struct place){ .kind = IN_BASE };
	case 1:
		return (struct place){ .kind = IN_ZERO };
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
static bool plan_words(uint64_t block)
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

static void plan(bool all)
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
		if (places[end].kind != places[b].kind ||
		    places[end].block != place_plus(places[b], end - b).block)
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

static int send_batch(void)
{
	int r = change(AT_BEGIN, &c.random, "begin");

	if (!r)
		r = send_sets();
	if (!r && one_in(&c.random, 4))
		expect_refused();
	return r ? r : change(AT_END, &c.random, "end");
}

/* The batch has been done: so it is. */
static void adopt_batch(void)
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
static void pin_batch(void)
{
	uint64_t block;

	for (block = 0; block < t.pool.nr_places; block++)
		if (own.batch.places[block].kind == IN_POOL)
			pool_pin(&t.pool, own.batch.places[block].block, 1);
}

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
static void roll_back(bool all)
{
	oracle_close(&c.oracle);
	pthread_mutex_lock(&t.lock);
	plan(all);
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

static void work(void)
{
	unsigned int n = below(&c.random, 6);

	do_something();
	while (n-- && !atomic_load(&c.crashing))
		move();
	mark_log();
}

static void draw_event(void)
{
	static const unsigned int flush_us[] = { 0, 300, 1000, 3000, 6000 };

	if (own.at < NR_EVENTS)
		c.event = own.at;
	else if (c.outages && one_in(&c.random, 2))
		c.event = AT_OUTAGE;
	else
		c.event = events[below(&c.random, NR_CRASH_EVENTS - 1)];
	atomic_store(&c.event_nr, 1 + below(&c.random, c.event == AT_FLUSH ? 12 : 3));
	c.flush_us = flush_us[below(&c.random, 5)];
}

static void run_until_crash(void)
{
	epochs.listen = c.outages;
	start_cycle();
	/* Also where the event does not come. */
	arm(c.event == AT_TIME ? below(&c.random, 300 * c.tick_us) :
				 600 * c.tick_us + (c.outages ? 500000 : 0));
	while (!atomic_load(&c.crashing))
		work();
	wait_for_crash();
}

/*
 * ---- after the crash ----
 */

/* Is every sector of the batch as it may be without it? */
static bool is_undone(void)
{
	uint32_t *words = calloc(SEG_SECTORS, sizeof(*words));
	uint64_t seg, i, n;
	bool undone = true;

	for (seg = 0; seg < SEGS; seg++) {
		n = c.oracle.sectors - seg * SEG_SECTORS;
		if (n > SEG_SECTORS)
			n = SEG_SECTORS;
		if (!own.batch.segs[seg])
			continue;
		if (!oracle_read(&c.oracle, own.vol_fd, seg * SEG_SECTORS, n, words))
			miss("cannot read segment %" PRIu64 ": %s", seg, strerror(errno));
		for (i = 0; i < n; i++)
			undone &= oracle_allows(&c.oracle, seg * SEG_SECTORS + i, words[i]);
	}
	free(words);
	return undone;
}

/* Resume; a batch that was begun has to be repeated first. True: that was so. */
static bool resume_after_crash(void)
{
	int r = dm_resume(VOL);

	if (r == -EUCLEAN && own.batch.is_open) {
		count.repeated++;
		r = send_batch();
		if (r)
			miss("the batch cannot be repeated: %s", strerror(-r));
		r = dm_resume(VOL);
		if (r)
			miss("cannot resume after the batch: %s", strerror(-r));
		return true;
	}
	if (r)
		miss("cannot resume the volume: %s", strerror(-r));
	return false;
}

static void ask_all_places(void)
{
	uint64_t half = c.oracle.half / BLOCK_SECTORS;
	int r = ask_places(0, half, own.places);

	if (!r)
		r = ask_places(half, t.pool.nr_places - half, own.places + half);
	if (r)
		miss("'table' failed: %s", strerror(-r));
}

static void explain(uint64_t sector)
{
	uint64_t block = sector / BLOCK_SECTORS;
	struct place may = t.pool.places[block], is = own.places[block];

	printf("  block %" PRIu64 " is at %s, before the crash it was at %s or is home\n",
	       block, place_text(is), place_text(may));
	if (is.kind == IN_POOL)
		printf("  %s was given %s\n", place_text(is),
		       word_text(pool_word(&t.pool, is, sector)));
	if (may.kind == IN_POOL)
		printf("  %s was given %s\n", place_text(may),
		       word_text(pool_word(&t.pool, may, sector)));
}

/* Every place must hold what was read from the volume. */
static void check_places(void)
{
	const struct place *places = own.places;
	uint64_t block, s;

	ask_all_places();
	pool_forget_places(&t.pool);
	for (block = 0; block < t.pool.nr_places; block++) {
		pool_set_place(&t.pool, block, places[block]);
		if (places[block].kind == IN_BASE)
			continue;
		for (s = block * BLOCK_SECTORS;
		     s < (block + 1) * BLOCK_SECTORS && s < c.oracle.sectors; s++)
			if (!same_content(pool_word(&t.pool, places[block], s),
					  c.oracle.content[s]))
				miss("block %" PRIu64 " is at %s, where sector %" PRIu64
				     " is %s, but it holds %s", block,
				     place_text(places[block]), s,
				     word_text(pool_word(&t.pool, places[block], s)),
				     word_text(c.oracle.content[s]));
	}
}

/* The stack anew, and a look at what the crash left. */
static void recover(void)
{
	bool *dirty, done;
	uint64_t seg;

	build_stack();
	done = resume_after_crash();
	own.vol_fd = open(VOL_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (own.vol_fd < 0)
		die("cannot open %s: %s", VOL_NODE, strerror(errno));
	if (!done && own.batch.is_open && !is_undone()) {
		count.finished++;
		done = true;
	}
	if (done)
		adopt_batch();
	own.batch.is_open = false;
	if (!t.no_table)
		ask_all_places();
	dirty = check_recovery(own.vol_fd, true);
	for (seg = 0; done && seg < SEGS; seg++)
		if (own.batch.segs[seg] && !dirty[place_seg(seg)])
			miss("segment %" PRIu64 " was rolled back, and is clean", seg);
	free(dirty);
	if (!t.no_table)
		check_places();
}

/*
 * ---- a life ----
 */

/*
 * Base and pool may have no cache. Then a flush is for the table alone, and comes
 * only if the target asks for it.
 */
static void choose_caches(void)
{
	t.no_cache = own.no_cache || one_in(&c.random, 4);
	c.base.args = t.no_cache ? "rdt 2 cache_blocks 0" : "rdt";
	own.pool.args = t.no_cache ? "rdt-pool 2 cache_blocks 0" : "rdt-pool";
}

/*
 * The second half of the volume may lie further back, so that its words are in
 * another sector of their block or in another block.
 */
static void begin_life(void)
{
	static const uint64_t gaps[] = { 0, 64, 512 - 6 };

	c.oracle.gap = gaps[below(&c.random, 3)] * SEG_SECTORS;
	c.sectors = c.oracle.sectors + c.oracle.gap;
	c.segs = place_seg(c.oracle.segs - 1) + 1;
	choose_caches();
	wipe(c.meta.path, c.use_meta_sectors);
	prefill();
	epochs_begin_life();
	if (t.no_table)
		return;
	own.batch.is_open = false;
	make_ground(POOL, POOL_BLOCKS * BLOCK_SECTORS, &own.pool);
	pool_forget_places(&t.pool);
	pool_renew(&t.pool, 0, t.pool.nr);
}

static void end_cycle(void)
{
	close(own.vol_fd);
	tear_down_stack();
}

static void run_cycle(void)
{
	bool fresh = c.cycle % CYCLES_A_LIFE == 0;

	if (fresh)
		begin_life();
	draw_event();
	recover();
	if (fresh && !t.no_table)
		roll_back(true);
	run_until_crash();
	end_cycle();
}

static bool has_checked(void)
{
	if (t.log)
		return true;
	if (!epochs.clean || !epochs.commits || !(c.dropped_base + c.dropped_meta))
		return false;
	return t.no_table || (count.remapped && count.aliased && count.came_home &&
			      count.rollbacks);
}

static void run_cycles(void)
{
	while (crash_goes_on(has_checked()))
		run_cycle();
	recover();
	end_cycle();
}

/*
 * ---- with a log ----
 */

/* All that tablelog must know, before the volume's first write. */
static FILE *begin_journal(void)
{
	FILE *journal = fopen(own.journal_path, "w");

	if (!journal)
		die("cannot open '%s': %s", own.journal_path, strerror(errno));
	fprintf(journal, "V %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c.sectors,
		c.use_meta_sectors, t.pool.nr);
	prefill();
	if (fsync(c.base_raw))
		die("cannot flush the base: %s", strerror(errno));
	oracle_journal(&c.oracle, journal);
	pool_renew(&t.pool, 0, t.pool.nr);
	return journal;
}

static void run_with_log(void)
{
	FILE *journal = begin_journal();
	uint64_t end;

	mark_log();
	must(load_volume(), "load the volume");
	must(dm_resume(VOL), "resume the volume");
	roll_back(true);
	c.flush_us = 1000;
	start_cycle();
	end = now_us() + own.seconds * 1000000ULL;
	while (now_us() < end && count.writes < MAX_LOGGED)
		work();
	stop_work();
	mark_log();
	must(dm_suspend(VOL, 0), "suspend the volume");
	if (fclose(journal))
		die("cannot write '%s': %s", own.journal_path, strerror(errno));
}

/*
 * ---- main ----
 */

static void start_workers(void)
{
	static struct worker workers[NR_WORKERS];
	unsigned int i;

	for (i = 0; i < (t.no_table ? NR_WRITERS : NR_WORKERS); i++) {
		workers[i].nr = i;
		workers[i].step = i < NR_WRITERS ? write_step : table_step;
		start_worker(&workers[i]);
	}
	if (c.outages)
		start_thread(listener);
}

static void set_up(void)
{
	pool_init(&t.pool, POOL_BLOCKS,
		  (c.oracle.sectors + BLOCK_SECTORS - 1) / BLOCK_SECTORS);
	own.batch.words = calloc(c.oracle.sectors, sizeof(*own.batch.words));
	own.batch.places = calloc(t.pool.nr_places, sizeof(*own.batch.places));
	own.places = calloc(t.pool.nr_places, sizeof(*own.places));
	c.oracle.explain = t.no_table ? NULL : explain;
	if (!own.batch.words || !own.batch.places || !own.places)
		die("no memory");
	snprintf(c.line, sizeof(c.line), "%s %s %s", BASE_NODE, META_NODE,
		 t.no_table ? "-" : POOL_NODE);
	crash_set_up();
	must(dm_create(POOL), "create the pool");
	make_ground(POOL, POOL_BLOCKS * BLOCK_SECTORS, &own.pool);
	t.pool.fd = open_device(POOL, POOL_NODE);
	start_workers();
}

static void clean_up(void)
{
	close(t.pool.fd);
	crash_clean_up();
	must(dm_remove(POOL), "remove the pool");
}

static void summary(uint64_t us)
{
	if (!t.log)
		printf("%u cycles, %.1f a second\n", c.cycle, c.cycle * 1e6 / us);
	printf("%" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64 " discards, %" PRIu64
	       " flushes (%" PRIu64 " of them or of synchronous writes failed)\n",
	       count.writes, count.reads, count.discards, count.flushes, count.failed_syncs);
	printf("%" PRIu64 " remaps (%" PRIu64 " blocks seen to have moved), %" PRIu64
	       " punches, %" PRIu64 " watches, %" PRIu64 " aliases (%" PRIu64
	       " blocks), %" PRIu64 " times hydrate, %" PRIu64 " blocks came home\n",
	       count.remaps, count.remapped, count.punches, count.watches, count.aliases,
	       count.aliased, count.hydrates, count.came_home);
	printf("%" PRIu64 " roll-backs, %" PRIu64 " repeated, %" PRIu64
	       " done when the crash came\n", count.rollbacks, count.repeated,
	       count.finished);
	printf("%" PRIu64 " checkpoints (%" PRIu64 " over another), %" PRIu64 " commits, %"
	       PRIu64 " aborts, %" PRIu64 " marks, %" PRIu64 " reloads\n",
	       epochs.checkpoints, epochs.over, epochs.commits, epochs.aborts, epochs.marks,
	       count.reloads);
	if (c.outages)
		printf("%" PRIu64 " outages, %" PRIu64 " times lost\n", count.outages,
		       epochs.lost);
	if (t.log)
		return;
	printf("%" PRIu64 " base and %" PRIu64 " metadata sectors dropped\n",
	       c.dropped_base, c.dropped_meta);
	printf("%" PRIu64 " segments checked clean\n", epochs.clean);
}

static void usage(void)
{
	fprintf(stderr, "usage: tablecrash [--cycles N] [--seed S] [--outages] [--at EVENT] [--no-cache] [--no-table] BASE META POOL\n"
			"       tablecrash --log NAME --journal FILE [--seconds N] [--seed S] POOL\n");
	exit(2);
}

static void parse_option(int opt)
{
	switch (opt) {
	case 'n':
		c.cycles = strtoul(optarg, NULL, 10);
		break;
	case 's':
		c.seed = strtoull(optarg, NULL, 10);
		break;
	case 'o':
		c.outages = true;
		break;
	case 'a':
		own.at = find_event(optarg);
		if (own.at == NR_EVENTS)
			usage();
		break;
	case 'c':
		own.no_cache = true;
		break;
	case 't':
		t.no_table = true;
		break;
	case 'l':
		t.log = optarg;
		break;
	case 'j':
		own.journal_path = optarg;
		break;
	case 'S':
		own.seconds = strtoul(optarg, NULL, 10);
		break;
	default:
		usage();
	}
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cycles", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "outages", no_argument, NULL, 'o' },
		{ "at", required_argument, NULL, 'a' },
		{ "no-cache", no_argument, NULL, 'c' },
		{ "no-table", no_argument, NULL, 't' },
		{ "log", required_argument, NULL, 'l' },
		{ "journal", required_argument, NULL, 'j' },
		{ "seconds", required_argument, NULL, 'S' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	c.cycles = 100;
	if (getentropy(&c.seed, 4))
		die("no random number");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		parse_option(opt);
	if (argc - optind != (t.log ? 1 : 3) || !t.log != !own.journal_path)
		usage();
	own.pool = (struct ground){ "judge", argv[argc - 1], "rdt-pool" };
	c.base = (struct ground){ "judge", argv[optind], "rdt" };
	if (!t.log)
		c.meta = (struct ground){ "judge", argv[optind + 1], "rdt" };
}

/* Parts of the logged device. */
static void use_log(void)
{
	static char path[64], second[32];

	snprintf(path, sizeof(path), "/dev/mapper/%s", t.log);
	snprintf(second, sizeof(second), "%" PRIu64, c.sectors);
	c.base = (struct ground){ "linear", path, "0" };
	c.meta = (struct ground){ "linear", path, second };
}

int main(int argc, char **argv)
{
	uint64_t start;

	parse_args(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Not a whole number of segments, nor of blocks. */
	oracle_init(&c.oracle, SEGS * SEG_SECTORS - 1003);
	c.sectors = c.oracle.sectors;
	c.segs = c.oracle.segs;
	c.use_meta_sectors = META_SECTORS;
	if (t.log)
		use_log();
	set_up();

	printf("seed %" PRIu64 ", tick %u us\n", c.seed, c.tick_us);
	start = now_us();
	if (t.log)
		run_with_log();
	else
		run_cycles();
	summary(now_us() - start);
	clean_up();
	if (!has_checked()) {
		printf("this checked nothing\n");
		return 1;
	}
	return 0;
}
