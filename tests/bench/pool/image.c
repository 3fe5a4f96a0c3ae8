// SPDX-License-Identifier: GPL-2.0
/*
 * Make disk images of random content, and change them.
 *
 *	image random FILE BYTES SEED		all of it
 *	image sparse FILE BYTES SEED		one block in each 2 MiB, the rest a hole
 *	image pairs FILE BYTES SEED		the first block in each 2 MiB, and a second one
 *						that is the same in all
 *	image every FILE STEP SEED [FIRST]	new content in each STEPth block, from the
 *						block FIRST on (0)
 *	image churn FILE BLOCKS SEED		in that many blocks anywhere: in one half
 *						new content, in the other half that of
 *						other blocks
 *	image halves FILE BYTES SEED		all of it: in each second block content that
 *						compresses to less than a quarter
 *	image some FILE BLOCKS SEED		such content in that many blocks anywhere
 *	image faint FILE BYTES SEED		all of it: no two blocks are the same, and all
 *						compress to nearly nothing
 *
 * All but those that make an image print each range that they wrote to, "OFFSET LENGTH", as
 * revdedupctl wants to be told of changes.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK		4096
#define SEGMENT		(512 * BLOCK)

static int fd;
static uint64_t state;

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void put(const void *data, size_t len, off_t offset)
{
	if (pwrite(fd, data, len, offset) != (ssize_t)len)
		err(1, "cannot write");
}

static void put_random(size_t len, off_t offset)
{
	static uint64_t data[SEGMENT / sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < len / sizeof(*data); i++)
		data[i] = draw();
	put(data, len, offset);
}

/* In every second block, 16 bytes are there eight times, then others. */
static void put_half(off_t block)
{
	uint64_t data[BLOCK / sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < BLOCK / sizeof(*data); i++)
		data[i] = block % 2 && i % 16 > 1 ? data[i - 2] : draw();
	put(data, BLOCK, block * BLOCK);
}

static void put_copy(off_t offset, off_t from)
{
	char data[BLOCK];

	if (pread(fd, data, BLOCK, from) != BLOCK)
		err(1, "cannot read");
	put(data, BLOCK, offset);
}

static void tell(off_t offset)
{
	printf("%lld %d\n", (long long)offset, BLOCK);
}

static void make_random(off_t size)
{
	off_t offset;

	for (offset = 0; offset < size; offset += SEGMENT)
		put_random(size - offset < SEGMENT ? size - offset : SEGMENT, offset);
}

static void make_sparse(off_t size)
{
	off_t offset;

	if (ftruncate(fd, size))
		err(1, "cannot make it that large");
	for (offset = 0; offset + SEGMENT <= size; offset += SEGMENT)
		put_random(BLOCK, offset + draw() % (SEGMENT / BLOCK) * BLOCK);
}

static void make_pairs(off_t size)
{
	uint64_t own;
	off_t offset;

	if (ftruncate(fd, size))
		err(1, "cannot make it that large");
	for (offset = 0; offset + SEGMENT <= size; offset += SEGMENT) {
		put_random(BLOCK, offset);
		own = state;
		state = 0;
		put_random(BLOCK, offset + BLOCK);
		state = own;
	}
}

static void change_every(off_t blocks, off_t step, off_t first)
{
	off_t i;

	for (i = first; i < blocks; i += step) {
		put_random(BLOCK, i * BLOCK);
		tell(i * BLOCK);
	}
}

static void churn(off_t blocks, off_t nr)
{
	off_t i, offset;

	for (i = 0; i < nr; i++) {
		offset = draw() % blocks * BLOCK;
		if (i % 2)
			put_copy(offset, draw() % blocks * BLOCK);
		else
			put_random(BLOCK, offset);
		tell(offset);
	}
}

static void make_halves(off_t blocks)
{
	off_t i;

	for (i = 0; i < blocks; i++)
		put_half(i);
}

/* In each block, 16 bytes are there again and again. */
static void make_faint(off_t blocks)
{
	static uint64_t data[SEGMENT / sizeof(uint64_t)];
	const off_t nr = SEGMENT / BLOCK;
	off_t i, word;

	for (i = 0; i < blocks; i++) {
		uint64_t *block = data + i % nr * (BLOCK / sizeof(*data));

		for (word = 0; word < BLOCK / (off_t)sizeof(*data); word++)
			block[word] = word > 1 ? block[word - 2] : draw();
		if (i % nr == nr - 1 || i == blocks - 1)
			put(data, (i % nr + 1) * BLOCK, i / nr * SEGMENT);
	}
}

static void change_some(off_t blocks, off_t nr)
{
	off_t i, block;

	for (i = 0; i < nr; i++) {
		block = draw() % blocks;
		put_half(block);
		tell(block * BLOCK);
	}
}

int main(int argc, char **argv)
{
	struct stat st;
	off_t nr;

	if (argc != 5 && (argc != 6 || strcmp(argv[1], "every")))
		errx(2, "usage: image random|sparse|pairs|every|churn|halves|some|faint FILE NUMBER SEED [FIRST]");
	nr = strtoll(argv[3], NULL, 0);
	state = strtoull(argv[4], NULL, 0);
	fd = open(argv[2], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || fstat(fd, &st))
		err(1, "'%s'", argv[2]);
	if (nr <= 0)
		errx(2, "not a number of anything: '%s'", argv[3]);
	if (!strcmp(argv[1], "random"))
		make_random(nr);
	else if (!strcmp(argv[1], "sparse"))
		make_sparse(nr);
	else if (!strcmp(argv[1], "pairs"))
		make_pairs(nr);
	else if (!strcmp(argv[1], "every"))
		change_every(st.st_size / BLOCK, nr, argc > 5 ? strtoll(argv[5], NULL, 0) : 0);
	else if (!strcmp(argv[1], "churn"))
		churn(st.st_size / BLOCK, nr);
	else if (!strcmp(argv[1], "halves"))
		make_halves(nr / BLOCK);
	else if (!strcmp(argv[1], "some"))
		change_some(st.st_size / BLOCK, nr);
	else if (!strcmp(argv[1], "faint"))
		make_faint(nr / BLOCK);
	else
		errx(2, "what is '%s'?", argv[1]);
	if (fsync(fd))
		err(1, "fsync");
	return 0;
}
