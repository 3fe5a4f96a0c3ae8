// SPDX-License-Identifier: GPL-2.0
/*
 * A neighbour on the same disk: read 4 KiB anywhere in a file, past the page cache, each 2 ms or
 * when the one before has ended, and print how many microseconds all but one of 100 took at most.
 *
 *	neighbour FILE SECONDS
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK		4096
#define PERIOD_US	2000

static uint64_t state = 1;

static uint64_t draw(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ULL + t.tv_nsec / 1000;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
	uint64_t seconds, nr, i, begin, *took;
	struct stat st;
	void *block;
	int fd;

	if (argc != 3)
		errx(2, "usage: neighbour FILE SECONDS");
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0 || fstat(fd, &st))
		err(1, "cannot open '%s'", argv[1]);
	seconds = strtoull(argv[2], NULL, 10);
	nr = seconds * 1000000 / PERIOD_US;
	took = calloc(nr, sizeof(*took));
	if (!nr || st.st_size < BLOCK || !took || posix_memalign(&block, BLOCK, BLOCK))
		errx(1, "no time, no file, or no memory");
	for (i = 0; i < nr; i++) {
		begin = now_us();
		if (pread(fd, block, BLOCK, draw() % (st.st_size / BLOCK) * BLOCK) != BLOCK)
			err(1, "cannot read");
		took[i] = now_us() - begin;
		if (took[i] < PERIOD_US)
			usleep(PERIOD_US - took[i]);
	}
	qsort(took, nr, sizeof(*took), compare);
	printf("%llu\n", (unsigned long long)took[nr * 99 / 100]);
	return 0;
}
