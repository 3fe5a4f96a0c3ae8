// SPDX-License-Identifier: GPL-2.0
/*
 * Crash a volume with a remap table again and again, and check that no sector holds what it
 * must not.
 *
 *   tablecrash [--cycles N] [--seed S] [--outages] [--at EVENT] [--no-cache]
 *              [--no-table] BASE META POOL
 *   tablecrash --log NAME --journal FILE [--writes N] [--seed S] POOL
 *
 * BASE, META and POOL are ramdisks of 2 GiB, which take memory only for what is written. On
 * the first two lies the judge of crashes (tests/judge), as in crash.c. The pool loses
 * nothing; it has blocks and packs. In some lives neither base nor pool has a cache. On all
 * three lies a volume of 12 segments, whose table at first is a mix of everything: segments
 * mapped whole, zeros, fragments, and the base. Before that the base is filled with a content
 * that is right for the last of these only.
 *
 * While threads write, read and compare (tablecrash_work.c), one thread moves blocks to
 * others of the same content, gives the old ones to new owners, and moves blocks from the
 * base to the pool. The controller (tablecrash_control.c) suspends, reloads, takes
 * checkpoints, commits and aborts them, and rolls segments back in batches.
 *
 * After the crash the program reads every sector of the volume. A sector may hold what was
 * flushed last, or what was written later; never anything else: not what the base held
 * before, not what the pool holds there now. A batch is done or not. If the crash cut it
 * short the volume does not resume, and after a repetition of the batch the volume is as the
 * batch wants it. The table must fit what was read. And every change since the last
 * committed checkpoint lies in a dirty segment.
 *
 * With --outages the metadata device also fails writes for a while: then a flush may fail,
 * and what was not flushed with success may be lost. --at says when to crash, with the names
 * of crashlib.c; --no-cache: no life has a cache; --no-table is for a target without a
 * table. With --log there are no crashes: base and metadata device are parts of the
 * dm-log-writes device NAME, and the program writes what happens to FILE, for tablelog.c.
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
#include "tablecrash_control.h"

#define POOL		"rdt-pool"
#define POOL_NODE	"/dev/" POOL

#define CYCLES_A_LIFE	25U		/* then all is made anew */
#define META_SECTORS	(700ULL * 8)	/* words for two blocks, and pages */

static const enum event events[] = {
	AT_TIME, AT_TIME, AT_TIME, AT_FLUSH, AT_FLUSH, AT_FLUSH, AT_RESUME, AT_CHECKPOINT,
	AT_OVER_CHECKPOINT, AT_COMMIT, AT_ABORT, AT_RELOAD, AT_REMAP, AT_REMAP, AT_TABLE,
	AT_WATCH, AT_ALIAS, AT_ALIAS, AT_SHED, AT_SHED, AT_HYDRATE, AT_BEGIN, AT_SET, AT_END,
	AT_OUTAGE,
};

#define NR_CRASH_EVENTS	(sizeof(events) / sizeof(events[0]))

struct table_run t = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

struct counts count;

struct own own = {
	.writes = 1500,
	.at = NR_EVENTS,
};

/*
 * ---- a cycle ----
 */

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
		count.packed += places[block].kind == IN_POOL && places[block].block >= t.pool.nr;
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
	/* A thin base frees space in units, and only there. */
	static const char * const bases[] = {
		"rdt", "rdt 2 discard_blocks 4", "rdt 2 discard_blocks 16",
	};

	t.no_cache = own.no_cache || one_in(&c.random, 4);
	c.base.args = t.no_cache ? "rdt 2 cache_blocks 0" : bases[below(&c.random, 3)];
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
	end_afterlife();
	wipe(c.meta.path, c.use_meta_sectors);
	prefill();
	epochs_begin_life();
	if (t.no_table)
		return;
	own.batch.is_open = false;
	make_ground(POOL, pool_sectors(&t.pool), &own.pool);
	pool_forget_places(&t.pool);
	pool_renew(&t.pool, 0, t.pool.nr);
	pool_fill_packs(&t.pool);
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
	if (!epochs.clean || !epochs.commits || !(c.dropped_base + c.dropped_meta) ||
	    !c.left_cached)
		return false;
	return t.no_table || (count.remapped && count.aliased && count.came_home &&
			      count.packed &&
			      count.rollbacks && (own.no_cache || count.sheds));
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
	fprintf(journal, "V %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n", c.sectors,
		c.use_meta_sectors, t.pool.nr, t.pool.nr_packs, PACK_ROOM);
	prefill();
	if (fsync(c.base_raw))
		die("cannot flush the base: %s", strerror(errno));
	oracle_journal(&c.oracle, journal);
	pool_renew(&t.pool, 0, t.pool.nr);
	pool_fill_packs(&t.pool);
	return journal;
}

static void run_with_log(void)
{
	FILE *journal = begin_journal();

	mark_log();
	must(load_volume(), "load the volume");
	must(dm_resume(VOL), "resume the volume");
	roll_back(true);
	c.flush_us = 1000;
	start_cycle();
	while (count.writes < own.writes)
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
	pool_init(&t.pool, POOL_BLOCKS, POOL_PACKS,
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
	make_ground(POOL, pool_sectors(&t.pool), &own.pool);
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
	       " settles, %" PRIu64 " watches, %" PRIu64 " aliases (%" PRIu64
	       " blocks), %" PRIu64 " sheds, %" PRIu64 " times hydrate, %" PRIu64
	       " blocks came home\n",
	       count.remaps, count.remapped, count.settles, count.watches, count.aliases,
	       count.aliased, count.sheds, count.hydrates, count.came_home);
	printf("%" PRIu64 " packs moved, %" PRIu64 " given to others, %" PRIu64
	       " packed blocks seen after crashes\n", count.pack_moves, count.pack_renewals,
	       count.packed);
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
	printf("%" PRIu64 " times only the kernel died, with %" PRIu64
	       " metadata sectors in the cache\n", c.deaths, c.left_cached);
	printf("%" PRIu64 " segments checked clean\n", epochs.clean);
}

static void usage(void)
{
	fprintf(stderr, "usage: tablecrash [--cycles N] [--seed S] [--outages] [--at EVENT] [--no-cache] [--no-table] BASE META POOL\n"
			"       tablecrash --log NAME --journal FILE [--writes N] [--seed S] POOL\n");
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
	case 'w':
		own.writes = strtoul(optarg, NULL, 10);
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
		{ "writes", required_argument, NULL, 'w' },
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
