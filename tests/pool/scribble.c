// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: scribble SEED IMAGE [BLOCKS]
 *
 * Change IMAGE as a VM changes its disk, so that versions and volumes share much; a new image
 * gets BLOCKS blocks of 4 KiB. The same seed does the same to the same image. Contents are
 * either among a few that all images have, or unique.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK		4096
#define SEGMENT		512		/* blocks */
#define NR_COMMON	40

static unsigned long long state;
static int fd;
static unsigned int nr;			/* blocks */

/* xorshift64* */
static unsigned long long rnd(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dULL;
}

static unsigned int below(unsigned int limit)
{
	return (rnd() >> 11) % limit;
}

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* Content number @number; 0: zeros. */
static void fill(unsigned long long *block, unsigned long long number)
{
	unsigned int i;

	for (i = 0; i < BLOCK / sizeof(*block); i++)
		block[i] = number ? number * 0x9e3779b97f4a7c15ULL + i : 0;
}

static unsigned long long any_content(void)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
	case 2:
	case 3:
		return 1 + below(NR_COMMON);
	default:
		return rnd() | 1ULL << 63;
	}
}

static void put(unsigned int at, unsigned long long content)
{
	unsigned long long block[BLOCK / sizeof(unsigned long long)];

	fill(block, content);
	check(pwrite(fd, block, BLOCK, (off_t)at * BLOCK) == BLOCK, "write");
}

static void put_run(unsigned int at, unsigned int len)
{
	unsigned long long content = any_content();

	for (; len-- && at < nr; at++)
		put(at, below(8) ? content++ : any_content());
}

static void copy_run(unsigned int from, unsigned int to, unsigned int len)
{
	static char data[SEGMENT * BLOCK];
	ssize_t got;

	if (len > SEGMENT)
		len = SEGMENT;
	if (len > nr - from)
		len = nr - from;
	if (len > nr - to)
		len = nr - to;
	got = pread(fd, data, (size_t)len * BLOCK, (off_t)from * BLOCK);
	check(got == (ssize_t)len * BLOCK, "read");
	check(pwrite(fd, data, got, (off_t)to * BLOCK) == got, "write");
}

static void change(void)
{
	unsigned int segments = (nr + SEGMENT - 1) / SEGMENT;

	switch (below(6)) {
	case 0:		/* files move */
		copy_run(below(nr), below(nr), 1 + below(200));
		break;
	case 1:		/* all of a segment */
		put_run(below(segments) * SEGMENT, SEGMENT);
		break;
	case 2:
		copy_run(below(segments) * SEGMENT, below(segments) * SEGMENT, SEGMENT);
		break;
	case 3:		/* every other block: holes for compaction */
		for (unsigned int at = below(nr), i = 0; i < 100 && at < nr; i++, at += 2)
			put(at, any_content());
		break;
	default:
		put_run(below(nr), 1 + below(60));
	}
}

int main(int argc, char **argv)
{
	unsigned int i, times;
	struct stat st;

	if (argc < 3)
		return 2;
	state = strtoull(argv[1], NULL, 0) * 2654435761ULL + 88172645463325252ULL;
	fd = open(argv[2], O_RDWR | O_CREAT, 0600);
	check(fd >= 0 && !fstat(fd, &st), argv[2]);
	if (!st.st_size && argc > 3) {
		nr = strtoul(argv[3], NULL, 0);
		check(!ftruncate(fd, (off_t)nr * BLOCK), argv[2]);
		/* What all have, but for the last third, which is a hole. */
		for (i = 0; i < nr * 2 / 3; i++)
			put(i, 1 + i % 800);
	} else {
		nr = st.st_size / BLOCK;
	}
	for (times = 2 + below(5); times; times--)
		change();
	return 0;
}
