// SPDX-License-Identifier: GPL-2.0
/*
 * Use more memory than there is, so that the kernel must swap it out and in again:
 *
 *   hog MIB PASSES
 *
 * Exit code: 0 if each page held in each pass what was written to it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE	4096
#define WORDS	(PAGE / sizeof(uint64_t))

static uint64_t word(uint64_t page, uint64_t pass, uint64_t i)
{
	return (page * 1000 + pass) * 0x9e3779b97f4a7c15ULL + i;
}

static void fill(uint64_t *p, uint64_t page, uint64_t pass)
{
	uint64_t i;

	for (i = 0; i < WORDS; i++)
		p[i] = word(page, pass, i);
}

static void check(const uint64_t *p, uint64_t page, uint64_t pass)
{
	uint64_t i;

	for (i = 0; i < WORDS; i++) {
		if (p[i] == word(page, pass, i))
			continue;
		printf("page %ju, word %ju holds %#jx in pass %ju\n", (uintmax_t)page,
		       (uintmax_t)i, (uintmax_t)p[i], (uintmax_t)pass);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	uint64_t pages, passes, page, pass;
	uint64_t *p;

	if (argc != 3) {
		fprintf(stderr, "usage: hog MIB PASSES\n");
		return 2;
	}
	pages = strtoull(argv[1], NULL, 10) << 20 >> 12;
	passes = strtoull(argv[2], NULL, 10);
	p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (pass = 0; pass < passes; pass++) {
		for (page = 0; page < pages; page++) {
			if (pass)
				check(p + page * WORDS, page, pass - 1);
			fill(p + page * WORDS, page, pass);
		}
	}
	for (page = 0; page < pages; page++)
		check(p + page * WORDS, page, passes - 1);
	return 0;
}
