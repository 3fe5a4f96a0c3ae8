// SPDX-License-Identifier: GPL-2.0
/*
 * dedisgen [OPTION]... DEVICE
 *
 * Write blocks of 4 KiB to a device or file, one at a time and past the page cache, after the
 * formulas of DEDISbench (Paulo et al. 2012), and print how long that took.
 *
 *	--dist FILE	how many duplicates contents have: lines "DUPLICATES BLOCKS", as in
 *			DEDISbench's own files. Each write draws a content from them; those without
 *			duplicates are written once each. Default: no duplicates
 *	--pattern nurand|uniform|sequential
 *			where writes go. nurand has hot spots, by the function of TPC-C:
 *			((random(0..N/10) | random(0..N-1)) + C) mod N. Default: nurand
 *	--blocks N	write to so many blocks. Default: all
 *	--first N	from this one on. Default: 0
 *	--count N	end after so many writes. Default: as many as blocks
 *	--skip N	go on after so many writes of the same seed, which were done before
 *	--seconds S	end after so much time. Default: never
 *	--rate N	start so many writes a second, as long as they are done in time: nominal
 *			load. Default: peak load
 *	--seed N	where writes go, and what they hold, follows from it. Default: 1
 *	--writer N	beside others, with the same seed: its own places, and its own contents but
 *			for those that have duplicates. Default: 0
 *	--fsync N	flush after each N writes, and at the end. Default: never
 *	--verify	read all blocks afterwards that were written; exit with 1 if one is not what
 *			was written there last
 *
 * Prints one line, with times in microseconds; UNIQUE are contents without duplicates:
 *
 *	writes N seconds S iops I p50 US p99 US worst US unique N
 *
 * Contents do not compress. Two of them are the same but for eight bytes each, which lie
 * anywhere: a comparison has to read as far as it has to on average, not a header. The same
 * seed and options write the same blocks in the same order.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/random.h"

#define BLOCK		4096U
#define NEVER		UINT64_MAX

/* --- options */

enum pattern { NURAND, UNIFORM, SEQUENTIAL };

static const char *const pattern_names[] = { "nurand", "uniform", "sequential" };

static struct {
	const char *device, *dist;
	enum pattern pattern;
	uint64_t blocks, first, count, skip, rate, seed, writer, fsync;
	double seconds;
	bool verify;
} options = { .count = NEVER, .seed = 1 };

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-')
		errx(2, "not a number: '%s'", text);
	return value;
}

static double seconds(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0))
		errx(2, "not a number of seconds: '%s'", text);
	return value;
}

static enum pattern pattern(const char *text)
{
	unsigned int i;

	for (i = 0; i < sizeof(pattern_names) / sizeof(*pattern_names); i++)
		if (!strcmp(text, pattern_names[i]))
			return i;
	errx(2, "no such pattern: '%s'", text);
}

static void take_option(int option, const char *value)
{
	switch (option) {
	case 'd':
		options.dist = value;
		break;
	case 'p':
		options.pattern = pattern(value);
		break;
	case 'b':
		options.blocks = number(value);
		break;
	case 'f':
		options.first = number(value);
		break;
	case 'c':
		options.count = number(value);
		break;
	case 'k':
		options.skip = number(value);
		break;
	case 't':
		options.seconds = seconds(value);
		break;
	case 'r':
		options.rate = number(value);
		break;
	case 's':
		options.seed = number(value);
		break;
	case 'w':
		options.writer = number(value);
		break;
	case 'y':
		options.fsync = number(value);
		break;
	case 'v':
		options.verify = true;
		break;
	default:
		errx(2, "see the head of dedisgen.c");
	}
}

static void take_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "dist", required_argument, NULL, 'd' },
		{ "pattern", required_argument, NULL, 'p' },
		{ "blocks", required_argument, NULL, 'b' },
		{ "first", required_argument, NULL, 'f' },
		{ "count", required_argument, NULL, 'c' },
		{ "skip", required_argument, NULL, 'k' },
		{ "seconds", required_argument, NULL, 't' },
		{ "rate", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ "writer", required_argument, NULL, 'w' },
		{ "fsync", required_argument, NULL, 'y' },
		{ "verify", no_argument, NULL, 'v' },
		{ 0 }
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0)
		take_option(option, optarg);
	if (optind + 1 != argc)
		errx(2, "usage: dedisgen [OPTION]... DEVICE");
	options.device = argv[optind];
}

/* --- the device */

static int open_device(void)
{
	int fd = open(options.device, O_RDWR | O_DIRECT);

	/* tmpfs has no O_DIRECT. */
	if (fd < 0 && errno == EINVAL)
		fd = open(options.device, O_RDWR);
	if (fd < 0)
		err(1, "cannot open '%s'", options.device);
	return fd;
}

/* How many blocks to write to. */
static void set_blocks(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	uint64_t all = end < 0 ? 0 : end / BLOCK;

	if (!options.blocks && options.first < all)
		options.blocks = all - options.first;
	if (!options.blocks || options.first > all || options.blocks > all - options.first)
		errx(1, "'%s' has %" PRIu64 " blocks", options.device, all);
	if (options.count == NEVER && !options.seconds)
		options.count = options.blocks;
}

static void *new_block(void)
{
	void *block;

	if (posix_memalign(&block, BLOCK, BLOCK))
		errx(1, "no memory");
	return block;
}

/* --- contents */

/* All contents that have so many duplicates each. */
struct group {
	uint64_t copies;	/* 1 + duplicates */
	uint64_t contents;
	uint64_t first_id;
	uint64_t end;		/* blocks in the groups up to this one */
};

static struct group *groups;
static unsigned int nr_groups;
static uint64_t nr_drawn;	/* blocks of all groups, and of contents without duplicates */
static uint64_t nr_unique;	/* that were written */

static void add_group(uint64_t duplicates, uint64_t contents)
{
	struct group *group;

	groups = realloc(groups, (nr_groups + 1) * sizeof(*groups));
	if (!groups)
		errx(1, "no memory");
	group = &groups[nr_groups];
	group->copies = duplicates + 1;
	group->contents = contents;
	group->first_id = nr_groups ? group[-1].first_id + group[-1].contents : 1;
	group->end = (nr_groups ? group[-1].end : 0) + contents * group->copies;
	nr_groups++;
}

static void read_groups(void)
{
	uint64_t duplicates, contents, unique = 0;
	FILE *file;
	int n;

	if (!options.dist)
		return;
	file = fopen(options.dist, "r");
	if (!file)
		err(1, "cannot open '%s'", options.dist);
	while ((n = fscanf(file, "%" SCNu64 " %" SCNu64, &duplicates, &contents)) == 2) {
		if (duplicates)
			add_group(duplicates, contents);
		else
			unique += contents;
	}
	if (n != EOF)
		errx(1, "'%s' has a line that is not two numbers", options.dist);
	fclose(file);
	nr_drawn = unique + (nr_groups ? groups[nr_groups - 1].end : 0);
	if (!nr_drawn)
		errx(1, "'%s' has no contents", options.dist);
}

/* Contents of all writers begin at 1; those that are a writer's own have its number on top. */
static uint64_t unique_id(void)
{
	return 1ULL << 63 | options.writer << 48 | ++nr_unique;
}

static uint64_t draw_content(uint64_t *state)
{
	unsigned int low = 0, high = nr_groups, middle;
	uint64_t at, begin;

	at = nr_drawn ? below(state, nr_drawn) : 0;
	while (low < high) {
		middle = (low + high) / 2;
		if (at < groups[middle].end)
			high = middle;
		else
			low = middle + 1;
	}
	if (low == nr_groups)
		return unique_id();
	begin = low ? groups[low - 1].end : 0;
	return groups[low].first_id + (at - begin) / groups[low].copies;
}

/* What all contents have in common. */
static uint64_t common[BLOCK / sizeof(uint64_t)];

static void make_common(void)
{
	uint64_t state = ~options.seed;
	unsigned int i;

	for (i = 0; i < BLOCK / sizeof(uint64_t); i++)
		common[i] = rnd(&state);
}

/* The id itself would compress, so it is mixed, which keeps different ones different. */
static void make_content(void *block, uint64_t id)
{
	uint64_t state = id, mixed = rnd(&state);

	memcpy(block, common, BLOCK);
	memcpy((char *)block + rnd(&state) % (BLOCK - sizeof(mixed)), &mixed, sizeof(mixed));
}

/* --- places */

static uint64_t nurand_c;

static uint64_t draw_place(uint64_t *state, uint64_t nr)
{
	uint64_t n = options.blocks;

	switch (options.pattern) {
	case NURAND:
		return ((below(state, n / 10 + 1) | below(state, n)) + nurand_c) % n;
	case UNIFORM:
		return below(state, n);
	default:
		return nr % n;
	}
}

/* --- time */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void wait_until(double when)
{
	struct timespec t = { .tv_sec = when, .tv_nsec = (when - (time_t)when) * 1e9 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Latencies in buckets of 1/32 of their size and less, in nanoseconds. */
#define SUB_BITS	5
#define NR_BUCKETS	((64 - SUB_BITS + 1) << SUB_BITS)

static uint64_t buckets[NR_BUCKETS];
static double worst;

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int shift = 0;

	while (ns >> shift >= 2U << SUB_BITS)
		shift++;
	return (shift << SUB_BITS) + (ns >> shift);
}

/* The middle of a bucket, in microseconds. */
static double bucket_us(unsigned int bucket)
{
	unsigned int shift = bucket < 2U << SUB_BITS ? 0 : (bucket >> SUB_BITS) - 1;
	uint64_t base = bucket - ((uint64_t)shift << SUB_BITS);

	return (base + 0.5) * (1ULL << shift) / 1000;
}

static void note_latency(double taken)
{
	buckets[bucket_of(taken > 0 ? taken * 1e9 : 0)]++;
	worst = taken > worst ? taken : worst;
}

/* The latency that @share of @nr writes did not exceed. */
static double percentile(uint64_t nr, double share)
{
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS - 1; i++) {
		seen += buckets[i];
		if (seen >= nr * share)
			break;
	}
	return bucket_us(i);
}

/* --- work */

/* The content of each block that was written; 0: none yet. */
static uint64_t *contents;

static void write_one(int fd, void *block, uint64_t at, uint64_t id)
{
	uint64_t offset = (options.first + at) * BLOCK;
	double began;

	make_content(block, id);
	began = now();
	if (pwrite(fd, block, BLOCK, offset) != BLOCK)
		err(1, "cannot write to '%s' at offset %" PRIu64, options.device, offset);
	note_latency(now() - began);
	contents[at] = id;
}

static void flush(int fd)
{
	if (fdatasync(fd))
		err(1, "cannot flush '%s'", options.device);
}

/* Returns how many writes there were. */
static uint64_t write_all(int fd, double *ret_taken)
{
	/* Places do not depend on the distribution, nor contents on the pattern. */
	uint64_t places = options.seed + (options.writer << 32), draws = ~places, nr;
	void *block = new_block();
	double began;

	nurand_c = below(&places, options.blocks / 10 + 1);
	for (nr = 0; nr < options.skip; nr++) {
		draw_place(&places, nr);
		draw_content(&draws);
	}
	began = now();
	for (nr = 0; nr < options.count; nr++) {
		if (options.seconds && now() - began >= options.seconds)
			break;
		if (options.rate)
			wait_until(began + (double)nr / options.rate);
		write_one(fd, block, draw_place(&places, options.skip + nr),
			  draw_content(&draws));
		if (options.fsync && (nr + 1) % options.fsync == 0)
			flush(fd);
	}
	if (options.fsync)
		flush(fd);
	*ret_taken = now() - began;
	free(block);
	return nr;
}

/* Returns false, with a line for the first of them, if blocks are not what was written. */
static bool verify(int fd)
{
	void *wanted = new_block(), *have = new_block();
	uint64_t at, offset, wrong = 0;

	for (at = 0; at < options.blocks; at++) {
		if (!contents[at])
			continue;
		offset = (options.first + at) * BLOCK;
		make_content(wanted, contents[at]);
		if (pread(fd, have, BLOCK, offset) != BLOCK)
			err(1, "cannot read '%s' at offset %" PRIu64, options.device, offset);
		if (memcmp(wanted, have, BLOCK) && !wrong++)
			warnx("'%s' does not hold at offset %" PRIu64 " what was written there",
			      options.device, offset);
	}
	if (wrong)
		warnx("%" PRIu64 " blocks are wrong", wrong);
	free(wanted);
	free(have);
	return !wrong;
}

int main(int argc, char **argv)
{
	bool is_right = true;
	double taken;
	uint64_t nr;
	int fd;

	take_options(argc, argv);
	fd = open_device();
	set_blocks(fd);
	read_groups();
	make_common();
	contents = calloc(options.blocks, sizeof(*contents));
	if (!contents)
		errx(1, "no memory");
	nr = write_all(fd, &taken);
	if (options.verify)
		is_right = verify(fd);
	printf("writes %" PRIu64 " seconds %.6f iops %.0f p50 %.1f p99 %.1f worst %.1f unique %"
	       PRIu64 "\n", nr, taken, nr / taken, percentile(nr, 0.5), percentile(nr, 0.99),
	       worst * 1e6, nr_unique);
	return !is_right;
}
