// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the cost of holes for the file system and its disk alone: fill FILE, make holes in
 * it, and print the microseconds that the holes took.
 *
 *	punch FILE NR LENGTH STEP
 *
 * NR holes of LENGTH bytes, each STEP bytes after the last.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE		(2 << 20)

static void fill(int fd, off_t size)
{
	static char data[PIECE];
	off_t offset;

	memset(data, 'x', sizeof(data));
	for (offset = 0; offset < size; offset += PIECE)
		if (pwrite(fd, data, PIECE, offset) != PIECE)
			err(1, "cannot write");
	if (fsync(fd))
		err(1, "fsync");
}

static void punch(int fd, long nr, off_t len, off_t step)
{
	long i;

	for (i = 0; i < nr; i++)
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * step, len))
			err(1, "cannot punch");
	if (fsync(fd))
		err(1, "fsync");
}

static long long now_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	long nr = argc == 5 ? atol(argv[2]) : 0;
	off_t len, step;
	long long begin;
	int fd;

	if (nr <= 0)
		errx(2, "usage: punch FILE NR LENGTH STEP");
	len = atoll(argv[3]);
	step = atoll(argv[4]);
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		err(1, "'%s'", argv[1]);
	fill(fd, nr * step);
	begin = now_usec();
	punch(fd, nr, len, step);
	printf("%lld\n", now_usec() - begin);
	return 0;
}
