// SPDX-License-Identifier: GPL-2.0
/*
 * scatter SOURCE BASE POOL live|version: take the content of the device SOURCE apart, over a
 * base and a pool of twice its size, and print the table that puts it together again, a range
 * a line. Blocks that no entry names keep their content, which should be something else.
 *
 * A quarter of the segments lies whole in the pool. In the others the blocks of the pool are
 * in no order, and zeros have no place. Nothing of a version lies on the base; of a live
 * volume a quarter of the segments does, and some blocks of the others.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/places.h"

/* It must have no factor in common with the number of blocks. */
#define STEP	7919U

static uint64_t nr_blocks;
static bool live;

static bool is_zero(const char *block)
{
	return !*block && !memcmp(block, block + 1, BLOCK - 1);
}

static struct place choose(uint64_t nr, bool zero)
{
	uint64_t seg = nr / SEG_BLOCKS;
	struct place place = { .kind = 'p' };

	switch (seg % 4) {
	case 0:
		place.block = nr;
		return place;
	case 1:
		if (live)
			return (struct place){ .kind = 'b' };
	}
	if (live && !(places_mix(nr / 3) % 4))
		return (struct place){ .kind = 'b' };
	if (zero)
		return (struct place){ .kind = 'z' };
	place.block = nr_blocks + nr * STEP % nr_blocks;
	return place;
}

static int open_device(const char *path, int flags, uint64_t least)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	if ((uint64_t)lseek(fd, 0, SEEK_END) < least * BLOCK)
		errx(1, "%s: too small", path);
	return fd;
}

static void put(int fd, const char *block, uint64_t nr)
{
	if (pwrite(fd, block, BLOCK, nr * BLOCK) != BLOCK)
		err(1, "write");
}

int main(int argc, char **argv)
{
	int source, base, pool;
	char block[BLOCK];
	uint64_t nr;

	if (argc != 5 || (strcmp(argv[4], "live") && strcmp(argv[4], "version")))
		errx(2, "usage: scatter SOURCE BASE POOL live|version");
	live = !strcmp(argv[4], "live");
	source = open_device(argv[1], O_RDONLY, 0);
	nr_blocks = lseek(source, 0, SEEK_END) / BLOCK;
	if (!(nr_blocks % STEP))
		errx(1, "%s: not with %u times something", argv[1], STEP);
	base = open_device(argv[2], O_WRONLY, nr_blocks);
	pool = open_device(argv[3], O_WRONLY, 2 * nr_blocks);
	for (nr = 0; nr < nr_blocks; nr++) {
		struct place place;

		if (pread(source, block, BLOCK, nr * BLOCK) != BLOCK)
			err(1, "%s: read", argv[1]);
		place = choose(nr, is_zero(block));
		if (place.kind == 'b')
			put(base, block, nr);
		else if (place.kind == 'p')
			put(pool, block, place.block);
		places_add(place);
	}
	places_end();
	if (fsync(base) || fsync(pool))
		err(1, "fsync");
	return 0;
}
