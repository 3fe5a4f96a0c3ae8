// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: counter FIRST SECOND FILE
 *
 * Until FILE is gone, write a number to the first block of FIRST, then to that of SECOND, each
 * stable before the next write begins, then the next number: at each moment FIRST has the number
 * of SECOND or the one after it. Begin behind the number that SECOND has. It naps, so that
 * others get on as well where there is one processor.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK	4096
#define NAP_US	1000

static int open_disk(const char *path)
{
	int fd = open(path, O_RDWR | O_DIRECT | O_SYNC | O_CLOEXEC);

	if (fd < 0)
		err(1, "cannot open '%s'", path);
	return fd;
}

int main(int argc, char **argv)
{
	uint64_t number = 0;
	int fds[2], i;
	char *block;

	if (argc != 4)
		errx(2, "usage: counter FIRST SECOND FILE");
	for (i = 0; i < 2; i++)
		fds[i] = open_disk(argv[1 + i]);
	block = aligned_alloc(BLOCK, BLOCK);
	if (!block || pread(fds[1], block, BLOCK, 0) != BLOCK)
		err(1, "cannot read '%s'", argv[2]);
	memcpy(&number, block, sizeof(number));
	while (!access(argv[3], F_OK)) {
		number++;
		memcpy(block, &number, sizeof(number));
		usleep(NAP_US);
		for (i = 0; i < 2; i++)
			if (pwrite(fds[i], block, BLOCK, 0) != BLOCK)
				err(1, "cannot write to '%s'", argv[1 + i]);
	}
	return 0;
}
