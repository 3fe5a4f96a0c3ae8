// SPDX-License-Identifier: GPL-2.0
/*
 * Tables that need no memory: where a block lies follows from its number, so
 * there can be many, and what a read must return is known.
 *
 * pattern fill DEVICE
 *	Make it a pool: each block of it says its own number.
 * pattern print KIND BLOCKS POOL-BLOCKS
 *	The table of a volume of BLOCKS, a range a line.
 * pattern check KIND BLOCKS POOL-BLOCKS DEVICE FIRST LAST COUNT
 *	Read COUNT blocks of the volume at random between these two. BASE blocks,
 *	too, must be zeros.
 *
 * KIND is one of
 *	whole	a segment is 512 pool blocks in a row
 *	random	each block is a pool block of its own
 *	pages	no segment is whole: runs of zeros and of pool blocks in a row, and
 *		a few blocks in no order. A text that is not too long for 1 TiB
 *	any	whole segments and runs of all kinds
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "places.h"

#define CHUNK		(1U << 20)
#define RUN		16U
#define BLOCK_WORDS	(BLOCK / sizeof(uint64_t))

static uint64_t nr_blocks, pool_blocks;

static const struct place base = { .kind = 'b' };
static const struct place zero = { .kind = 'z' };

/* Block number @i of @len in a row, which @x chooses. */
static struct place in_pool(uint64_t x, uint64_t i, uint64_t len)
{
	return (struct place){
		.kind = 'p',
		.block = places_mix(x) % (pool_blocks - len + 1) + i,
	};
}

static struct place whole(uint64_t block)
{
	return in_pool(block / SEG_BLOCKS, block % SEG_BLOCKS, SEG_BLOCKS);
}

static struct place scattered(uint64_t block)
{
	return in_pool(block, 0, 1);
}

static struct place run(uint64_t block)
{
	return in_pool(block / RUN, block % RUN, RUN);
}

static struct place runs(uint64_t block)
{
	switch (places_mix(~(block / RUN)) % 4) {
	case 0: return base;
	case 1: return zero;
	case 2: return run(block);
	default: return scattered(block);
	}
}

static struct place pages(uint64_t block)
{
	const uint64_t nr_runs = SEG_BLOCKS / RUN;

	/* In each segment another one. */
	if (block / RUN % nr_runs == block / SEG_BLOCKS % nr_runs)
		return scattered(block);
	return places_mix(~(block / RUN)) % 2 ? zero : run(block);
}

static struct place any(uint64_t block)
{
	switch (places_mix(~(block / SEG_BLOCKS)) % 8) {
	case 0: return base;
	case 1: return zero;
	case 2: return whole(block);
	case 3: return scattered(block);
	default: return runs(block);
	}
}

static const struct kind {
	const char *name;
	struct place (*place)(uint64_t block);
} kinds[] = {
	{ "whole", whole }, { "random", scattered }, { "pages", pages }, { "any", any },
};

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end)
		errx(2, "no number: '%s'", text);
	return value;
}

static const struct kind *table(char **argv)
{
	size_t i;

	nr_blocks = number(argv[1]);
	pool_blocks = number(argv[2]);
	if (pool_blocks < SEG_BLOCKS)
		errx(2, "a pool has %u blocks at least", SEG_BLOCKS);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(kinds[i].name, argv[0]))
			return &kinds[i];
	}
	errx(2, "no such kind: '%s'", argv[0]);
}

/* What pool block @block says; never zeros. */
static uint64_t word(uint64_t block, uint64_t i)
{
	return block * BLOCK_WORDS + i + 1;
}

static void fill(const char *path)
{
	uint64_t *chunk = aligned_alloc(BLOCK, CHUNK), done = 0, i;
	int fd = open(path, O_WRONLY | O_DIRECT);
	uint64_t size;

	if (fd < 0 || !chunk)
		err(1, "%s", path);
	size = lseek(fd, 0, SEEK_END);
	while (done < size) {
		size_t len = size - done < CHUNK ? size - done : CHUNK;

		for (i = 0; i < len / sizeof(*chunk); i++)
			chunk[i] = word(done / BLOCK + i / BLOCK_WORDS, i % BLOCK_WORDS);
		if (pwrite(fd, chunk, len, done) != (ssize_t)len)
			err(1, "%s: write", path);
		done += len;
	}
	if (fsync(fd))
		err(1, "%s: fsync", path);
	free(chunk);
}

static void print(const struct kind *kind)
{
	uint64_t block;

	for (block = 0; block < nr_blocks; block++)
		places_add(kind->place(block));
	places_end();
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
}

static void check_block(uint64_t block, struct place place, const uint64_t *data)
{
	uint64_t i, want;

	for (i = 0; i < BLOCK_WORDS; i++) {
		want = place.kind == 'p' ? word(place.block, i) : 0;
		if (data[i] == want)
			continue;
		errx(1, "block %#" PRIx64 ", which is %c%" PRIx64 ", holds %#" PRIx64
		     " in word %" PRIu64 ", not %#" PRIx64, block, place.kind,
		     place.block, data[i], i, want);
	}
}

static void check(const struct kind *kind, const char *path, uint64_t from,
		  uint64_t to, uint64_t count)
{
	uint64_t *data = aligned_alloc(BLOCK, BLOCK), i, block;
	int fd = open(path, O_RDONLY | O_DIRECT);

	if (fd < 0 || !data)
		err(1, "%s", path);
	if (from > to || to >= nr_blocks)
		errx(2, "no such blocks in a volume of %" PRIu64, nr_blocks);
	for (i = 0; i < count; i++) {
		block = from + places_mix(i ^ from << 20) % (to - from + 1);
		if (pread(fd, data, BLOCK, block * BLOCK) != BLOCK)
			err(1, "%s: block %#" PRIx64, path, block);
		check_block(block, kind->place(block), data);
	}
	free(data);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (argc == 3 && !strcmp(verb, "fill"))
		fill(argv[2]);
	else if (argc == 5 && !strcmp(verb, "print"))
		print(table(argv + 2));
	else if (argc == 9 && !strcmp(verb, "check"))
		check(table(argv + 2), argv[5], number(argv[6]), number(argv[7]),
		      number(argv[8]));
	else
		errx(2, "usage: see the head of pattern.c");
	return 0;
}
