// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a volume with a remap table, beside a model of it.
 *
 *   table-model [--ops N] [--seed S] [--threads T] BASE META POOL
 *
 * makes a volume as large as BASE on these devices, and writes to all of them.
 * BASE must be all zeros, 32 MiB or more, POOL may be 3 MiB or more, and META must
 * have room for a table.
 *
 * Threads (model_io.c) read and write, each the blocks that are its own, so that
 * it knows what it must read. Meanwhile this thread moves blocks about: what
 * moves must never change. From time to time the threads are stopped, and what the
 * target says, what the base holds and what a crash would leave of the metadata
 * is compared with the model (model_check.c), or the volume changes as a whole:
 * `set`, other sizes, a new device.
 *
 * Whatever the model knows no block to lie at any more, the pool's owner would use
 * for something else. So do we: garbage is written there at once.
 *
 * Exit code: 0 only if all was right and each case that is hard came up often.
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

#include "model.h"

#define OPS_A_STEP	60		/* of the threads, for one of ours */
#define MAX_OPS_A_STEP	300		/* where ours take long: they are held back */
#define OPS_AHEAD	3000
#define MAX_RANGES	350		/* of a message, so that it fits */
#define SMALL_SEGS	128		/* more, and not all of the volume is used */
#define HANG_S		300
#define GARBAGE		(1ULL << 40)	/* contents of that number and above */
#define ZERO_CONTENTS	32		/* one of so many is zeros */

struct run c = {
	.max_ops = 100000,
	.nr_workers = 3,
	.window = SEG_BLOCKS,
	.last_stamp = 2,
};

static uint64_t rng;			/* of this thread */
static bool alone;			/* the others are stopped */
static bool hydrating, frozen;
static uint64_t epoch;
static bool *frozen_touched;		/* what `touched` was at the checkpoint */
static const char *step_name = "start";

/*
 * ---- small things ----
 */

static pthread_mutex_t death = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool dying;

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

static void wait_for_ops(uint64_t nr)
{
	uint64_t until = atomic_load(&c.ops) + nr;

	if (atomic_load(&c.allowed) < until)
		atomic_store(&c.allowed, until);
	while (atomic_load(&c.ops) < until)
		usleep(500);
}

static void hydration_may_run(void)
{
	blocks_set_going_home(&c.b, hydrating && !frozen);
}

/*
 * ---- messages ----
 */

/* The ranges of a message, and what the model makes of each. */
struct range {
	uint64_t first;
	uint64_t len;
	struct place from;
	struct place to;
};

static const char *verb;
static struct range ranges[MAX_RANGES];
static unsigned int nr_ranges;
static char text[MAX_TEXT];

static void begin_message(const char *new_verb)
{
	verb = new_verb;
	nr_ranges = 0;
}

static bool has_room(void)
{
	return nr_ranges < MAX_RANGES;
}

static struct place nth(struct place first, uint64_t n)
{
	if (first.kind == 'p')
		first.block += n;
	return first;
}

static bool is_same(struct place a, struct place b)
{
	return a.kind == b.kind && a.block == b.block;
}

/* Places that are no kind at all are left out. */
static void add_range(struct range range)
{
	struct range *last = &ranges[nr_ranges - 1];

	if (nr_ranges && last->first + last->len == range.first && !one_in(&rng, 8) &&
	    is_same(nth(last->from, last->len), range.from) &&
	    is_same(nth(last->to, last->len), range.to))
		last->len += range.len;
	else
		ranges[nr_ranges++] = range;
}

/* One block twice in a message is not for us. */
static bool has_range(uint64_t first, uint64_t len)
{
	unsigned int i;

	for (i = 0; i < nr_ranges; i++)
		if (first < ranges[i].first + ranges[i].len && ranges[i].first < first + len)
			return true;
	return false;
}

static int send_message(void)
{
	size_t len = snprintf(text, sizeof(text), "%s", verb);
	unsigned int i;
	int r;

	for (i = 0; i < nr_ranges; i++) {
		char from[32] = "", to[32] = "";

		if (ranges[i].from.kind)
			place_to_text(ranges[i].from, from, sizeof(from));
		if (ranges[i].to.kind)
			place_to_text(ranges[i].to, to, sizeof(to));
		len += snprintf(text + len, sizeof(text) - len, "%c%" PRIx64 ",%" PRIx64
				"%s%s%s%s", i ? ';' : ' ', ranges[i].first, ranges[i].len,
				*from ? "," : "", from, *to ? "," : "", to);
		if (len >= sizeof(text))
			die("a message is too long");
	}
	r = dm_message(VOL, "%s", text);
	if (r && r != -EOPNOTSUPP)
		die("MISS: '%.300s' failed: %s", text, strerror(-r));
	return r;
}

static void send(const char *message)
{
	int r = dm_message(VOL, "%s", message);

	if (r)
		die("MISS: '%s' failed: %s", message, strerror(-r));
}

static void refused(int error, const char *message)
{
	int r = dm_message(VOL, "%s", message);

	if (r != error)
		die("MISS: the result of '%s' is %d (%s), and must be %d (%s)", message, r,
		    strerror(-r), error, strerror(-error));
}

/*
 * ---- the device ----
 */

static void load_table(void)
{
	int r = dm_load(VOL, c.b.sectors, "revdedup", "%s %s %s 2 cache_mib %u", c.base_path,
			c.meta_path, c.pool_path, 1 + (unsigned int)one_in(&rng, 8));

	if (r)
		die("MISS: cannot load the table: %s", strerror(-r));
}

static void resume(void)
{
	int r = dm_resume(VOL);

	if (r)
		die("MISS: cannot resume: %s", strerror(-r));
}

static void suspend(void)
{
	bool noflush = one_in(&rng, 3), nolockfs = one_in(&rng, 2);
	int r;

	while (atomic_load(&dying))
		pause();
	r = dm_suspend(VOL, (noflush ? DM_NOFLUSH : 0) | (nolockfs ? DM_NOLOCKFS : 0));
	if (r)
		die("MISS: cannot suspend: %s", strerror(-r));
	came_up(noflush ? H_NOFLUSH : H_SUSPEND);
}

static void open_volume(void)
{
	must(dm_node(VOL, VOL_NODE), "make a device node");
	c.fd = open(VOL_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (c.fd < 0)
		die("cannot open %s: %s", VOL_NODE, strerror(errno));
}

static void make_volume(void)
{
	must(dm_create(VOL), "create the volume");
	load_table();
	resume();
	open_volume();
}

static void remove_volume(void)
{
	close(c.fd);
	must(dm_remove(VOL), "remove the volume");
}

/*
 * ---- blocks that move, while the threads run ----
 */

/* How many blocks from @block on lie in a row from where @block may lie. */
static uint64_t run_of(uint64_t block, uint64_t max, struct place *ret_place)
{
	uint64_t may = may_get(&c.b, block), n = 1;

	if (may & MAY_POOL)
		*ret_place = (struct place){ 'p', MAY_BLOCK(may) };
	else if (may & MAY_ZERO)
		*ret_place = (struct place){ .kind = 'z' };
	else
		return 0;
	while (n < max && block + n < c.b.nr && may_be(&c.b, block + n, nth(*ret_place, n)))
		n++;
	return n;
}

/* As many blocks of the pool with the same contents. */
static bool find_equal(uint64_t from, uint64_t len, uint64_t *ret_to)
{
	uint64_t to = from % c.nr_contents, copies = c.b.pool_nr / c.nr_contents, i;

	to += c.nr_contents * below(&rng, copies);
	if (to == from || to + len > c.b.pool_nr)
		return false;
	for (i = 0; i < len; i++)
		if (c.b.pool[from + i] != c.b.pool[to + i])
			return false;
	*ret_to = to;
	return true;
}

/* Another place for what is at @from. */
static bool choose_equal(struct range *range)
{
	range->to.kind = 'p';
	if (range->from.kind == 'z') {
		/* A block of zeros in the pool has no neighbour of that kind. */
		range->len = 1;
		range->to.block = ZERO_CONTENTS * below(&rng, c.b.pool_nr / ZERO_CONTENTS);
		return !c.b.pool[range->to.block] &&
		       !(may_get(&c.b, range->first) & MAY_POOL);
	}
	if (!c.b.pool[range->from.block] && one_in(&rng, 2)) {
		range->len = 1;
		range->to = (struct place){ .kind = 'z' };
		return true;
	}
	return find_equal(range->from.block, range->len, &range->to.block);
}

static void remap_is_done(void)
{
	uint64_t i, k;

	for (i = 0; i < nr_ranges; i++)
		for (k = 0; k < ranges[i].len; k++) {
			struct place to = nth(ranges[i].to, k);

			/* A discard may have made zeros of it again. */
			if (ranges[i].from.kind == 'z' && !alone)
				may_add(&c.b, ranges[i].first + k, to);
			else
				may_move(&c.b, ranges[i].first + k, nth(ranges[i].from, k), to);
		}
}

static void do_remap(void)
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
	if (!nr_ranges)
		return;
	send_message();
	remap_is_done();
	atomic_fetch_add(&c.hard[H_REMAP], nr_ranges);
}

/*
 * Blocks that are not where the message says. (Not zeros: somebody may discard
 * the block just now.)
 */
static void do_remap_wrong(void)
{
	unsigned int tries = 1 + below(&rng, 30);

	begin_message("remap");
	while (tries-- && has_room()) {
		struct range range = { .first = pick_block(&rng), .from.kind = 'p' };
		uint64_t max = 1 + below(&rng, 20);

		range.from.block = below(&rng, c.b.pool_nr - max);
		while (range.len < max && range.first + range.len < c.b.nr &&
		       !may_be(&c.b, range.first + range.len, nth(range.from, range.len)))
			range.len++;
		range.to.kind = one_in(&rng, 4) ? 'z' : 'p';
		if (range.to.kind == 'p')
			range.to.block = below(&rng, c.b.pool_nr - max);
		if (range.len && !has_range(range.first, range.len))
			add_range(range);
	}
	if (!nr_ranges)
		return;
	send_message();
	atomic_fetch_add(&c.hard[H_REMAP_WRONG], nr_ranges);
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
	place->kind = 'p';
	place->block = content +
		       c.nr_contents * below(&rng, c.b.pool_nr / c.nr_contents);
	return c.b.pool[place->block] == content;
}

/*
 * Read @nr blocks as a program would that looks for what the pool has already, and
 * make a message of what it finds.
 */
static void find_aliases(uint64_t first, uint64_t nr)
{
	uint64_t words[256 * BLOCK_SECTORS], i, sectors = nr * BLOCK_SECTORS;
	struct place place;

	if (sectors > c.b.sectors - first * BLOCK_SECTORS)
		sectors = c.b.sectors - first * BLOCK_SECTORS;
	must(read_words(c.fd, first * BLOCK_SECTORS, sectors, words), "read the volume");
	begin_message("alias");
	for (i = 0; i < nr; i++)
		/* The model has room for one place in the pool. */
		if (!(may_get(&c.b, first + i) & MAY_POOL) &&
		    find_content(first + i, words + i * BLOCK_SECTORS, &place))
			add_range((struct range){ .first = first + i, .len = 1, .to = place });
}

static void count_aliases(uint64_t first, uint64_t nr)
{
	struct place places[256];
	uint64_t i, k;

	ask_table(first, nr, places);
	for (i = 0; i < nr_ranges; i++)
		for (k = 0; k < ranges[i].len; k++)
			came_up(is_same(places[ranges[i].first + k - first],
					nth(ranges[i].to, k)) ? H_ALIAS : H_ALIAS_RACED);
}

static void alias_is_done(void)
{
	uint64_t i, k;

	for (i = 0; i < nr_ranges; i++)
		for (k = 0; k < ranges[i].len; k++)
			may_add(&c.b, ranges[i].first + k, nth(ranges[i].to, k));
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

static void watch(uint64_t first, uint64_t nr)
{
	uint64_t other = pick_block(&rng);

	begin_message("watch");
	add_range((struct range){ .first = first, .len = nr });
	if (one_in(&rng, 3) && !has_range(other, 1))
		add_range((struct range){ .first = other, .len = 1 });
	send_message();
}

/*
 * Half of the time where threads write most, so that they come between, and else
 * where they may leave it alone.
 */
static void do_alias(void)
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
	if (nr_ranges) {
		if (one_in(&rng, 3))
			wait_for_ops(below(&rng, 40));
		send_message();
		alias_is_done();
		count_aliases(first, nr);
	} else if (one_in(&rng, 2)) {
		send("watch -");
	}
	if (one_in(&rng, 3))
		choose_hot();
}

static void do_hydrate(void)
{
	char message[64] = "hydrate start";
	struct status status;
	struct place place;

	if (hydrating) {
		send("hydrate stop");
		/* It waits for no copy that has begun; a settle does. */
		ask_table(0, 1, &place);
		hydrating = false;
		hydration_may_run();
		return;
	}
	if (!one_in(&rng, 6))
		snprintf(message, sizeof(message), "hydrate start %u",
			 1 + (unsigned int)below(&rng, 4));
	hydrating = true;
	hydration_may_run();
	send(message);
	came_up(H_HYDRATE);
	ask_status(&status);
	if (frozen && !strcmp(status.hydrate, "paused"))
		came_up(H_PAUSED);
	/* Where nothing was left it is over by now. */
	if (frozen && !strcmp(status.hydrate, "on"))
		die("MISS: hydration is not paused, and a checkpoint waits");
}

static void do_suspend(void)
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

static void do_reload(void)
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

/*
 * ---- the pool ----
 */

/* [@block, @block + @nr) gets these contents: no more than fit into a segment. */
static void write_pool(uint64_t block, uint64_t nr, uint64_t (*content)(uint64_t block))
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
	for (i = 0; i < nr_ranges; i++) {
		write_pool(ranges[i].first, ranges[i].len, garbage);
		atomic_fetch_add(&c.hard[H_GARBAGE], ranges[i].len);
	}
}

/* What nobody names as it is. */
static void do_punch(void)
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
	if (nr_ranges)
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
static void do_punch_fresh(void)
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
	} while (!nr_ranges && --tries);
	free(before);
	if (nr_ranges)
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
	if (!nr_ranges)
		return;
	send_message();
	remap_is_done();
}

/* As compaction does it: move whoever is there away, and punch at once. */
static void do_evacuate(void)
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
static void do_refill(void)
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

/*
 * ---- what needs the threads to be stopped ----
 */

static void touch(uint64_t first, uint64_t nr)
{
	uint64_t seg;

	for (seg = first / SEG_BLOCKS; nr && seg <= (first + nr - 1) / SEG_BLOCKS; seg++)
		atomic_store(&c.touched[seg], true);
}

/* What is on the base there is what the volume holds. */
static void adopt_base(uint64_t first, uint64_t nr)
{
	const struct place base = { .kind = 'b' };
	uint64_t at = first * BLOCK_SECTORS, end = (first + nr) * BLOCK_SECTORS, n;

	for (; first < at / BLOCK_SECTORS + nr; first++)
		may_pin(&c.b, first, base);
	if (end > c.b.sectors)
		end = c.b.sectors;
	for (; at < end; at += n) {
		n = end - at < SEG_SECTORS ? end - at : SEG_SECTORS;
		must(read_words(c.base_fd, at, n, c.b.word + at), "read the base");
	}
}

static void set_place(uint64_t first, uint64_t nr, struct place place)
{
	uint64_t i, s;

	touch(first, nr);
	if (place.kind == 'b') {
		adopt_base(first, nr);
		return;
	}
	for (i = 0; i < nr; i++) {
		uint64_t content = place.kind == 'p' ? c.b.pool[place.block + i] : 0;

		may_pin(&c.b, first + i, nth(place, i));
		for (s = 0; s < block_sectors(&c.b, first + i); s++)
			c.b.word[(first + i) * BLOCK_SECTORS + s] = word_of_content(content, s);
	}
}

/* Some blocks that are in use, from @at on. */
static uint64_t next_used(uint64_t at, uint64_t *len)
{
	uint64_t half = c.window / 2, offset;

	if (c.window < SEG_BLOCKS) {
		/* A window is around the beginning of a segment: take the next. */
		at = ((at + half - 1) / SEG_BLOCKS + 1 + below(&rng, 2)) * SEG_BLOCKS;
		offset = below(&rng, c.window);
		*len = 1 + below(&rng, c.window - offset);
		return at - half + offset;
	}
	*len = 1 + below(&rng, one_in(&rng, 4) ? 200 : 8);
	return at + below(&rng, one_in(&rng, 2) ? 40 : 4);
}

/* The next range of a `set`: where, and where to. False: that was all. */
static bool choose_set(uint64_t *at, struct range *range)
{
	unsigned int dice = below(&rng, 8);
	uint64_t seg;

	range->first = next_used(*at, &range->len);
	seg = (range->first + SEG_BLOCKS - 1) / SEG_BLOCKS;
	if (seg < SMALL_SEGS && one_in(&rng, 10)) {
		range->first = seg * SEG_BLOCKS;
		range->len = SEG_BLOCKS * (1 + below(&rng, 3));
	}
	if (range->first >= c.b.nr)
		return false;
	if (range->len > c.b.nr - range->first)
		range->len = c.b.nr - range->first;
	if (range->len >= SEG_BLOCKS)
		came_up(H_SET_SEG);
	*at = range->first + range->len;
	range->to = (struct place){ .kind = dice < 5 ? 'p' : dice < 7 ? 'z' : 'b' };
	if (range->to.kind == 'p')
		range->to.block = below(&rng, c.b.pool_nr - range->len + 1);
	return true;
}

static void send_set(void)
{
	if (!nr_ranges)
		return;
	send_message();
	/* The same again is what a controller does that knows no better. */
	if (one_in(&rng, 8))
		send_message();
	begin_message("set");
}

static void do_epoch(void)
{
	char message[64];
	uint64_t seg;

	if (!frozen) {
		suspend();
		snprintf(message, sizeof(message), "checkpoint %" PRIu64, ++epoch);
		send(message);
		frozen = true;
		for (seg = 0; seg < c.b.segs; seg++) {
			frozen_touched[seg] = c.touched[seg] | c.may_be_touched[seg];
			c.touched[seg] = false;
			c.may_be_touched[seg] = false;
		}
		resume();
	} else {
		bool commit = !one_in(&rng, 3);

		snprintf(message, sizeof(message), commit ? "commit %" PRIu64 " %" PRIu64 :
			 "abort %" PRIu64, epoch, epoch);
		frozen = false;
		hydration_may_run();
		send(message);
		for (seg = 0; !commit && seg < c.b.segs; seg++)
			if (frozen_touched[seg])
				c.may_be_touched[seg] = true;
	}
	hydration_may_run();
	check_dirty();
	came_up(H_EPOCH);
}

/* What was begun and not ended is begun again. */
static void begin_again(void)
{
	int r = dm_resume(VOL);

	if (r != -EUCLEAN)
		die("MISS: an incomplete table resumes, error %d (%s)", r, strerror(-r));
	send("begin");
	came_up(H_SET_AGAIN);
}

/* A part of the volume, or all of it, is now what we say. */
static void do_set(void)
{
	uint64_t at = one_in(&rng, 2) ? 0 : pick_block(&rng);
	struct range range = { 0 };

	if (one_in(&rng, 8))
		refused(-EBUSY, "begin");
	/* After a checkpoint nothing else makes segments dirty. */
	if (!frozen && one_in(&rng, 3))
		do_epoch();
	suspend();
	if (one_in(&rng, 8))
		refused(-EINVAL, "set 0,1,z");
	send("begin");
	begin_message("set");
	while (choose_set(&at, &range)) {
		add_range(range);
		set_place(range.first, range.len, range.to);
		if (!has_room() || one_in(&rng, 200))
			send_set();
	}
	if (one_in(&rng, 2))
		begin_again();
	send_set();
	send("end");
	resume();
	came_up(H_SET);
	check_dirty();
}

static uint64_t choose_size(void)
{
	uint64_t max = c.b.max_sectors, size = max - below(&rng, max / 3);

	switch (below(&rng, 5)) {
	case 0:
		return max;
	case 1:
		return size;
	case 2:
		return size - size % BLOCK_SECTORS;
	case 3:
		return size - size % SEG_SECTORS;
	default:
		return size - size % SEG_SECTORS + 1 + below(&rng, 16);
	}
}

/*
 * The last block, if it ended within, has its rest now: from wherever it lies, or
 * from the base if it was copied there meanwhile.
 */
static void grow_last_block(uint64_t old_sectors, uint64_t old_nr)
{
	uint64_t n = old_nr * BLOCK_SECTORS - old_sectors, i;

	if (n > c.b.sectors - old_sectors)
		n = c.b.sectors - old_sectors;
	if (!n)
		return;
	must(read_words(c.fd, old_sectors, n, c.b.word + old_sectors), "read the volume");
	for (i = 0; i < n; i++)
		if (c.b.word[old_sectors + i] == WORD_GARBAGE)
			die("MISS: sector %" PRIu64 " is garbage", old_sectors + i);
}

static void do_resize(void)
{
	uint64_t old = c.b.sectors, old_nr = c.b.nr, size = choose_size();
	uint64_t least = size < old ? size : old, seg;

	/* Where nothing is left, hydration ends, and a new size changes nothing. */
	atomic_store(&c.hot, 0);
	blocks_set_size(&c.b, size);
	load_table();
	suspend();
	resume();
	if (size > old) {
		grow_last_block(old, old_nr);
		if (c.b.nr > old_nr)
			adopt_base(old_nr, c.b.nr - old_nr);
		came_up(H_GROW);
	} else {
		came_up(H_SHRINK);
	}
	for (seg = (least + SEG_SECTORS - 1) / SEG_SECTORS; seg < c.b.segs; seg++) {
		atomic_store(&c.touched[seg], true);
		frozen_touched[seg] = false;
	}
	/* And one that now ends elsewhere. */
	if (least % SEG_SECTORS && size != old)
		atomic_store(&c.touched[least / SEG_SECTORS], true);
	check_dirty();
	check_segs(least / SEG_SECTORS, 2);
	if (c.b.segs > 2)
		check_segs(c.b.segs - 2, 2);
}

static void check_hydrate(void)
{
	struct status status;
	bool on;

	ask_status(&status);
	on = strcmp(status.hydrate, "off");
	if (on && !hydrating)
		die("MISS: it hydrates, and nobody said so");
	if (on && strcmp(status.hydrate, frozen ? "paused" : "on"))
		die("MISS: hydration is '%s'", status.hydrate);
	if (!on && hydrating) {
		/* It is over because there was nothing left. */
		hydrating = false;
		hydration_may_run();
	}
}

static void do_anew(void)
{
	remove_volume();
	make_volume();
	came_up(H_ANEW);
	check_hydrate();
	check_table(atomic_load(&c.b.going_home));
	check_dirty();
}

static void do_all_home(void)
{
	uint64_t end = now_us() + 120 * 1000000ULL, i;
	struct status status;

	if (frozen)
		do_epoch();
	hydrating = true;
	hydration_may_run();
	send("hydrate start");
	do {
		usleep(5000);
		ask_status(&status);
		if (now_us() > end)
			die("MISS: hydration does not end, %" PRIu64 " blocks are left",
			    status.left);
	} while (strcmp(status.hydrate, "off"));
	hydrating = false;
	hydration_may_run();
	check_table(false);
	for (i = 0; i < c.b.nr; i++)
		if (may_get(&c.b, i) != MAY_BASE)
			die("MISS: hydration is over, and block %#" PRIx64 " is not home", i);
	came_up(H_ALL_HOME);
}

static void do_check(void)
{
	uint64_t seg = below(&rng, c.b.segs);

	check_hydrate();
	check_segs(seg, 1 + below(&rng, 12));
	if (one_in(&rng, 3))
		check_table(atomic_load(&c.b.going_home));
	check_dirty();
}

/* An alias that nobody disturbs is taken, and one that was written to is not. */
static void do_quiet_alias(void)
{
	uint64_t block = pick_block(&rng), sectors = block_sectors(&c.b, block), i;
	uint64_t at = block * BLOCK_SECTORS, content = below(&rng, c.nr_contents);
	bool disturb = one_in(&rng, 2);
	struct place place;

	/* Home first. */
	for (i = 0; i < sectors; i++)
		c.b.word[at + i] = word_of_content(first_content(content), i);
	touch(block, 1);
	must(write_words(c.fd, at, sectors, c.b.word + at), "write");
	may_pin(&c.b, block, (struct place){ .kind = 'b' });
	watch(block, 1);
	find_aliases(block, 1);
	if (!nr_ranges)
		return;
	if (disturb) {
		i = below(&rng, sectors);
		c.b.word[at + i] = word_of_write(1, at + i);
		must(write_words(c.fd, at + i, 1, c.b.word + at + i), "write");
	} else {
		may_pin(&c.b, block, ranges[0].to);
	}
	send_message();
	ask_table(block, 1, &place);
	if (!may_be(&c.b, block, place))
		die("MISS: block %#" PRIx64 " %s, and is at %c after '%s'", block,
		    disturb ? "was written to" : "was left alone", place.kind, text);
	check_segs(block / SEG_BLOCKS, 1);
	came_up(H_ALIAS_QUIET);
}

/* Moving the same with nobody around: it must have moved. */
static void do_quiet_remap(void)
{
	do_remap();
	if (nr_ranges)
		check_segs(ranges[0].first / SEG_BLOCKS, 1);
}

static bool is_nearly_home(void)
{
	uint64_t i, used = 0, moved = 0;

	for (i = 0; i < 1000; i++) {
		used++;
		moved += !!(may_get(&c.b, pick_block(&rng)) & (MAY_POOL | MAY_ZERO));
	}
	return moved * 5 < used;
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
	{ "punch", do_punch, 6, false },
	{ "punch at once", do_punch_fresh, 6, false },
	{ "evacuate", do_evacuate, 10, false },
	{ "refill", do_refill, 2, false },
	{ "check", do_check, 4, true },
	{ "set", do_set, 2, true },
	{ "epoch", do_epoch, 4, true },
	{ "resize", do_resize, 3, true },
	{ "new device", do_anew, 2, true },
	{ "alias alone", do_quiet_alias, 4, true },
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

static void run_steps(void)
{
	uint64_t n = 0;

	while (atomic_load(&c.ops) < c.max_ops) {
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
	blocks_init(&c.b, base, pool / BLOCK_SECTORS);
	c.nr_contents = c.b.pool_nr / 8 / ZERO_CONTENTS * ZERO_CONTENTS;
	if (c.b.pool_nr < 3 * SEG_BLOCKS || c.b.segs < 16)
		die("base or pool are too small");
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
	[H_HYDRATE] = { "hydrations", 2 },
	[H_HYDRATED] = { "blocks seen that came home by one", 3 },
	[H_ALL_HOME] = { "that had nothing left", 1 },
	[H_PAUSED] = { "for which a checkpoint waited", 0 },
	[H_PUNCH] = { "punches", 0 },
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
};

/* Small runs are for somebody who looks for something else. */
static bool summary(void)
{
	bool enough = true;
	unsigned int i;

	for (i = 0; i < NR_HARD; i++) {
		uint64_t least = c.max_ops * hard[i].least / 100000;

		printf("%10" PRIu64 " %s", atomic_load(&c.hard[i]), hard[i].name);
		if (c.max_ops >= 30000 && atomic_load(&c.hard[i]) < least) {
			printf(", and must be %" PRIu64, least);
			enough = false;
		}
		printf("\n");
	}
	return enough;
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ops", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
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
		else
			exit(2);
	}
	if (argc - optind != 3 || !c.nr_workers) {
		fprintf(stderr,
			"usage: table-model [--ops N] [--seed S] [--threads T] BASE META POOL\n");
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
	if (!summary()) {
		printf("this has checked too little\n");
		return 1;
	}
	return 0;
}
