// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a volume with a remap table, beside a model of it.
 *
 *   table-model [--ops N] [--seed S] [--threads T] [--sheds] BASE META POOL
 *
 * makes a volume as large as BASE on these devices, and writes to all of them.
 * BASE must be all zeros, 32 MiB or more, POOL 10 MiB or more, and META must have room
 * for a table. --sheds: BASE takes discards, and space of it must be given back.
 *
 * Threads (model_io.c) read and write. Each has blocks of its own, so that it knows
 * what it must read. Meanwhile this thread takes steps (model_steps.h): it moves
 * blocks, and a block that moves must never change. From time to time it stops the
 * others, compares with the model what the target says, what the base holds and what
 * a crash would leave of the metadata (model_check.c), or changes the volume as a
 * whole: `set`, other sizes, a new device.
 *
 * The pool's owner would reuse each place at which no block can lie any more. So does
 * this program: it writes garbage there at once. At the end of the pool are packs, which it
 * moves: where one was there is another one then, or garbage.
 *
 * It goes on beyond the N operations until each hard case came up often enough, up to
 * forty times N. Exit code: 0 only if all was right, and they did.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "model_steps.h"

#define OPS_A_STEP	60		/* of the threads, for one of ours */
#define MAX_OPS_A_STEP	300		/* where ours take long: they are held back */
#define OPS_AHEAD	3000
#define HANG_S		300
#define MAX_TIMES	40		/* max_ops, for cases that do not come up */
#define NR_PACKS	12U		/* that there is room for */

struct run c = {
	.max_ops = 100000,
	.nr_workers = 3,
	.window = SEG_BLOCKS,
	.last_stamp = 2,
};

uint64_t rng;
bool alone;
bool hydrating, frozen;
uint64_t epoch;
bool *frozen_touched;
static const char *step_name = "start";

/*
 * ---- small things ----
 */

static pthread_mutex_t death = PTHREAD_MUTEX_INITIALIZER;
atomic_bool dying;

/*
 * As long as requests are under way this process cannot end: let none wait for
 * a resume that does not come.
 */
static void end_now(void)
{
	unsigned int i;

	atomic_store(&dying, true);
	for (i = 0; i < 100; i++) {
		dm_resume(VOL);
		usleep(10000);
	}
	_exit(1);
}

void die(const char *format, ...)
{
	va_list args;

	/* One is enough. */
	pthread_mutex_lock(&death);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nseed %" PRIu64 ", after %" PRIu64 " operations, step '%s'%s%s\n", c.seed,
	       atomic_load(&c.ops), step_name, hydrating ? ", hydrating" : "",
	       frozen ? ", with a checkpoint" : "");
	fflush(stdout);
	end_now();
	_exit(1);
}

void must(int r, const char *what)
{
	if (r)
		die("cannot %s: %s", what, strerror(-r));
}

static void hangs(int signal)
{
	static const char text[] = "MISS: nothing has moved for minutes, step ";

	(void)signal;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
	    write(STDOUT_FILENO, step_name, strlen(step_name)) < 0 ||
	    write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(2);
	end_now();
}

void *xalloc(size_t size)
{
	void *p;

	if (posix_memalign(&p, BLOCK, size))
		die("no memory");
	return p;
}

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ULL + ts.tv_nsec / 1000;
}

static __thread char *words_buf;

static char *get_words_buf(uint64_t sectors)
{
	if (!words_buf)
		words_buf = xalloc(SEG_SECTORS * SECTOR);
	if (sectors > SEG_SECTORS)
		die("more than a segment at once");
	return words_buf;
}

int read_words(int fd, uint64_t first, uint64_t sectors, uint64_t *words)
{
	char *buf = get_words_buf(sectors);
	ssize_t r = pread(fd, buf, sectors * SECTOR, first * SECTOR);

	if (r != (ssize_t)(sectors * SECTOR))
		return r < 0 ? -errno : -ENODATA;
	parse_sectors(buf, words, sectors);
	return 0;
}

int write_words(int fd, uint64_t first, uint64_t sectors, const uint64_t *words)
{
	char *buf = get_words_buf(sectors);
	ssize_t r;

	fill_sectors(buf, words, sectors);
	r = pwrite(fd, buf, sectors * SECTOR, first * SECTOR);
	return r == (ssize_t)(sectors * SECTOR) ? 0 : r < 0 ? -errno : -ENOSPC;
}

uint64_t first_content(uint64_t block)
{
	block %= c.nr_contents;
	return block % ZERO_CONTENTS ? block : 0;
}

uint64_t pick_block(uint64_t *random)
{
	uint64_t block;

	do {
		block = below(random, c.b.segs) * SEG_BLOCKS + below(random, c.window);
		if (c.window < SEG_BLOCKS)
			block -= c.window / 2;
	} while (block >= c.b.nr);
	return block;
}

void wait_for_ops(uint64_t nr)
{
	uint64_t until = atomic_load(&c.ops) + nr;

	if (atomic_load(&c.allowed) < until)
		atomic_store(&c.allowed, until);
	while (atomic_load(&c.ops) < until)
		usleep(500);
}

/*
 * ---- all of it ----
 */

static const struct step {
	const char *name;
	void (*run)(void);
	unsigned int weight;
	bool alone;
} steps[] = {
	{ "remap", do_remap, 20, false },
	{ "wrong remap", do_remap_wrong, 8, false },
	{ "alias", do_alias, 40, false },
	{ "hydrate", do_hydrate, 3, false },
	{ "suspend", do_suspend, 8, false },
	{ "reload", do_reload, 4, false },
	{ "reuse", do_reuse, 6, false },
	{ "reuse at once", do_reuse_fresh, 6, false },
	{ "evacuate", do_evacuate, 10, false },
	{ "refill", do_refill, 2, false },
	{ "move a pack", do_move_pack, 12, false },
	{ "check", do_check, 4, true },
	{ "set", do_set, 2, true },
	{ "epoch", do_epoch, 4, true },
	{ "resize", do_resize, 3, true },
	{ "new device", do_anew, 2, true },
	{ "alias alone", do_quiet_alias, 4, true },
	{ "alias a segment", do_quiet_alias_seg, 3, true },
	{ "shed", do_shed, 20, false },
	{ "shed alone", do_quiet_shed, 12, true },
	{ "remap alone", do_quiet_remap, 2, true },
};

#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

static void run_step(const char *name, void (*run)(void), bool alone_please)
{
	step_name = name;
	alarm(HANG_S);
	if (alone_please)
		workers_stop();
	alone = alone_please;
	run();
	alone = false;
	if (alone_please)
		workers_go_on();
}

static const struct step *choose_step(void)
{
	unsigned int i, sum = 0, dice;

	for (i = 0; i < NR_STEPS; i++)
		sum += steps[i].weight;
	dice = below(&rng, sum);
	for (i = 0; dice >= steps[i].weight; i++)
		dice -= steps[i].weight;
	return &steps[i];
}

/*
 * ---- how much is enough ----
 */

/* How often a case must come up in 100000 operations. */
static const struct {
	const char *name;
	unsigned int least;
} hard[NR_HARD] = {
	[H_READ] = { "reads", 30000 },
	[H_READ_MOVED] = { "of what is not on the base", 3000 },
	[H_READ_RACED] = { "that a write came before", 60 },
	[H_WRITE] = { "writes", 30000 },
	[H_PART] = { "part blocks copied up", 1000 },
	[H_PART_TWICE] = { "by two at once", 15 },
	[H_WHOLE] = { "whole blocks that go home", 3000 },
	[H_ACROSS] = { "writes across places", 500 },
	[H_ACROSS_SEGS] = { "and across segments", 15 },
	[H_FUA] = { "FUA", 1500 },
	[H_FLUSH] = { "flushes", 300 },
	[H_DISCARD] = { "discards", 800 },
	[H_DISCARD_TOOK] = { "that made zeros", 100 },
	[H_ZEROOUT] = { "write zeroes", 400 },
	[H_REMAP] = { "ranges remapped", 300 },
	[H_REMAP_WRONG] = { "from a wrong place", 100 },
	[H_ALIAS] = { "aliases taken", 200 },
	[H_ALIAS_RACED] = { "that a write came before", 50 },
	[H_ALIAS_QUIET] = { "with nobody around", 2 },
	[H_ALIAS_SEG] = { "of a whole segment", 0 },
	[H_ALIAS_STALE] = { "with the token of another", 5 },
	/* Not every base takes discards: see the tests. */
	[H_SHED] = { "times space was given back", 0 },
	[H_SHED_UNIT] = { "units of the base that were free then", 0 },
	[H_SHED_HOME] = { "zeros that came home by it", 0 },
	[H_HYDRATE] = { "hydrations", 2 },
	[H_HYDRATED] = { "blocks seen that came home by one", 3 },
	[H_ALL_HOME] = { "that had nothing left", 1 },
	[H_PAUSED] = { "for which a checkpoint waited", 0 },
	[H_GARBAGE] = { "pool blocks used for others", 100 },
	[H_EVACUATE] = { "pieces of the pool emptied", 8 },
	[H_SUSPEND] = { "suspends", 15 },
	[H_NOFLUSH] = { "without flush", 8 },
	[H_RELOAD] = { "reloads", 5 },
	[H_ANEW] = { "new devices", 1 },
	[H_GROW] = { "larger sizes", 1 },
	[H_SHRINK] = { "smaller sizes", 1 },
	[H_SET] = { "batches of set", 3 },
	[H_SET_SEG] = { "of whole segments", 15 },
	[H_SET_AGAIN] = { "begun again", 1 },
	[H_EPOCH] = { "checkpoints, commits, aborts", 5 },
	[H_CHECK] = { "checks", 10 },
	[H_DISK] = { "segments compared with the disk", 20 },
	[H_PAGE_READ] = { "pages read", 5 },
	[H_PACK_READ] = { "blocks read from packs", 1000 },
	[H_PACK_PART] = { "part blocks copied up from there", 100 },
	[H_PACK_WHOLE] = { "segments set to a whole pack", 2 },
	[H_PACK_TO] = { "ranges remapped to packs", 50 },
	[H_PACK_FROM] = { "and from packs to blocks", 20 },
	[H_PACK_ALIAS] = { "aliases to packs taken", 20 },
	[H_PACK_MOVED] = { "packs moved", 10 },
	[H_PACK_REUSED] = { "places named that had another pack", 10 },
	[H_GROUP_READ] = { "groups of packs read", 200 },
};

static uint64_t least_of(unsigned int i)
{
	if (c.sheds && (i == H_SHED_UNIT || i == H_SHED_HOME || i == H_ALIAS_SEG))
		return 3;
	/* Small runs are for a user who looks for something else. */
	return c.max_ops < 30000 ? 0 : c.max_ops * hard[i].least / 100000;
}

static bool is_enough(void)
{
	unsigned int i;

	for (i = 0; i < NR_HARD; i++)
		if (atomic_load(&c.hard[i]) < least_of(i))
			return false;
	return true;
}

/* Which cases come up depends on the speed of the machine: go on until all have. */
static bool goes_on(void)
{
	uint64_t ops = atomic_load(&c.ops);

	return ops < c.max_ops || (ops < c.max_ops * MAX_TIMES && !is_enough());
}

static void run_steps(void)
{
	uint64_t n = 0;

	while (goes_on()) {
		const struct step *step = choose_step();

		atomic_store(&c.allowed, n * MAX_OPS_A_STEP + OPS_AHEAD);
		run_step(step->name, step->run, step->alone);
		if (++n % 10 == 0 && is_nearly_home())
			run_step("set", do_set, true);
		if (n % 300 == 0)
			run_step("all home", do_all_home, true);
		step_name = "wait";
		wait_for_ops(1 + below(&rng, 2 * OPS_A_STEP));
	}
}

static void wipe_meta(void)
{
	uint64_t bytes, at;
	void *buf = xalloc(BLOCK);

	if (ioctl(c.meta_fd, BLKGETSIZE64, &bytes))
		die("cannot get the size of the metadata device");
	memset(buf, 0, BLOCK);
	for (at = 0; at + BLOCK <= bytes; at += BLOCK)
		if (pwrite(c.meta_fd, buf, BLOCK, at) != BLOCK)
			die("cannot wipe the metadata device");
	free(buf);
}

/* A third pattern, so that neither zeros nor old data pass for what was moved. */
static void fill_base(void)
{
	uint64_t first, i, n;

	for (first = 0; first < c.b.max_sectors; first += n) {
		n = c.b.max_sectors - first;
		if (n > BLOCK_SECTORS * 32)
			n = BLOCK_SECTORS * 32;
		/* Of a large volume only what is in use. */
		if ((first / BLOCK_SECTORS + c.window / 2) % SEG_BLOCKS > c.window)
			continue;
		for (i = 0; i < n; i++)
			c.b.word[first + i] = word_of_write(1, first + i);
		must(write_words(c.base_fd, first, n, c.b.word + first), "fill the base");
	}
	for (i = 0; i < c.b.nr; i++)
		may_pin(&c.b, i, (struct place){ .kind = 'b' });
}

static void fill_pool(void)
{
	uint64_t i, n;

	for (i = 0; i < c.b.pool_nr; i += n) {
		n = c.b.pool_nr - i < SEG_BLOCKS ? c.b.pool_nr - i : SEG_BLOCKS;
		write_pool(i, n, first_content);
	}
}

static int open_device(const char *path, uint64_t *ret_sectors)
{
	uint64_t bytes;
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die("cannot open %s: %s", path, strerror(errno));
	*ret_sectors = bytes / SECTOR;
	return fd;
}

static void set_up(void)
{
	uint64_t base, meta, pool, i;

	must(dm_open(), "open device-mapper");
	c.base_fd = open_device(c.base_path, &base);
	c.meta_fd = open_device(c.meta_path, &meta);
	c.pool_fd = open_device(c.pool_path, &pool);
	pool /= BLOCK_SECTORS;
	if (base < 16 * SEG_SECTORS || pool < 3 * SEG_BLOCKS + NR_PACKS * PACK_ROOM)
		die("base or pool are too small");
	blocks_init(&c.b, base, pool - NR_PACKS * PACK_ROOM, NR_PACKS);
	c.nr_contents = c.b.pool_nr / 8 / ZERO_CONTENTS * ZERO_CONTENTS;
	if (c.b.segs > SMALL_SEGS)
		c.window = 64;
	c.chunk = 16 << below(&rng, 6);
	c.touched = xalloc((c.b.segs + 1) * sizeof(*c.touched));
	c.may_be_touched = xalloc((c.b.segs + 1) * sizeof(*c.may_be_touched));
	frozen_touched = xalloc((c.b.segs + 1) * sizeof(*frozen_touched));
	for (i = 0; i <= c.b.segs; i++) {
		c.touched[i] = true;
		c.may_be_touched[i] = false;
		frozen_touched[i] = false;
	}
	wipe_meta();
	fill_base();
	fill_pool();
	fill_packs();
	make_volume();
}

/* All home, and what is on the base is the volume. */
static void check_end(void)
{
	uint64_t first, n, i;
	uint64_t *words = xalloc(SEG_SECTORS * sizeof(*words));

	check_segs(0, c.b.segs);
	do_all_home();
	check_dirty();
	remove_volume();
	for (first = 0; first < c.b.sectors; first += n) {
		n = c.b.sectors - first < SEG_SECTORS ? c.b.sectors - first : SEG_SECTORS;
		must(read_words(c.base_fd, first, n, words), "read the base");
		for (i = 0; i < n; i++)
			if (words[i] != c.b.word[first + i])
				die("MISS: all is home, and sector %" PRIu64 " on the base is %#"
				    PRIx64 ", not %#" PRIx64, first + i, words[i],
				    c.b.word[first + i]);
	}
	free(words);
}

/*
 * ---- main ----
 */

static void summary(void)
{
	unsigned int i;

	for (i = 0; i < NR_HARD; i++) {
		uint64_t nr = atomic_load(&c.hard[i]);

		printf("%10" PRIu64 " %s", nr, hard[i].name);
		if (nr < least_of(i))
			printf(", and must be %" PRIu64, least_of(i));
		printf("\n");
	}
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ops", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
		{ "sheds", no_argument, NULL, 'g' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (getentropy(&c.seed, 4))
		die("no random number");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n')
			c.max_ops = strtoull(optarg, NULL, 10);
		else if (opt == 's')
			c.seed = strtoull(optarg, NULL, 10);
		else if (opt == 't')
			c.nr_workers = strtoul(optarg, NULL, 10);
		else if (opt == 'g')
			c.sheds = true;
		else
			exit(2);
	}
	if (argc - optind != 3 || !c.nr_workers) {
		fprintf(stderr,
			"usage: table-model [--ops N] [--seed S] [--threads T] [--sheds] BASE META POOL\n");
		exit(2);
	}
	c.base_path = argv[optind];
	c.meta_path = argv[optind + 1];
	c.pool_path = argv[optind + 2];
}

int main(int argc, char **argv)
{
	uint64_t start;

	parse_args(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGALRM, hangs);
	alarm(HANG_S);
	rng = c.seed;
	set_up();
	printf("seed %" PRIu64 ", %" PRIu64 " segments, pool of %" PRIu64
	       " blocks, chunks of %" PRIu64 "\n", c.seed, c.b.segs, c.b.pool_nr, c.chunk);
	start = now_us();
	do_set();
	workers_start();
	run_steps();
	workers_end();
	run_step("end", check_end, false);
	printf("%" PRIu64 " operations, %.0f a second\n", atomic_load(&c.ops),
	       atomic_load(&c.ops) * 1e6 / (now_us() - start));
	summary();
	if (!is_enough()) {
		printf("this has checked too little\n");
		return 1;
	}
	return 0;
}
