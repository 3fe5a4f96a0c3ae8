// SPDX-License-Identifier: GPL-2.0
/*
 * limit FILE LEVEL: the time in microseconds that all cores take to fingerprint the content of
 * FILE and, unless LEVEL is "none", to compress it into packs, from memory to memory. No
 * snapshot of it can be faster on the same cores. At most 2 GiB of FILE are looked at; the time
 * is that of all of it, in proportion.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool/data/fp.h"
#include "pool/data/pack.h"

#define MAX_SEGMENTS	1024
#define MAX_THREADS	64

static u8 *segments;
static unsigned int nr, next, level;
static bool packs;

static void *work(void *arg)
{
	struct rd_hasher *hasher = rd_hasher_new();
	struct rd_packer *packer = rd_packer_new();
	struct rd_fp fps[RD_SEG_BLOCKS];
	u8 *pack = malloc(RD_PACK_MAX);
	struct dmr_pack_head head = { .frame = 0 };
	struct rd_slots slots;
	struct rd_seg_fp fp;
	unsigned int at, i;

	if (!hasher || !packer || !pack)
		errx(1, "no memory");
	while ((at = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < nr) {
		u8 *data = segments + (size_t)at * RD_SEG_SIZE;

		rd_fp_segment(hasher, data, RD_SEG_SIZE, fps, &fp);
		memset(&slots, 0, sizeof(slots));
		for (i = 0; i < RD_SEG_BLOCKS; i++)
			if (!rd_fp_is_zero(&fps[i]))
				rd_slots_set(&slots, i);
		rd_pack_set_slots(&head, &slots);
		if (packs)
			rd_pack_make(packer, &head, data, (int)level, pack);
	}
	free(pack);
	rd_packer_free(packer);
	rd_hasher_free(hasher);
	return arg;
}

/* Read segments that have data; return how many there are in all. */
static unsigned int read_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	unsigned int all = 0;
	off_t at = 0;

	if (fd < 0)
		err(1, "%s", path);
	segments = mmap(NULL, (size_t)MAX_SEGMENTS * RD_SEG_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (segments == MAP_FAILED)
		err(1, "mmap");
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at -= at % RD_SEG_SIZE;
		if (nr < MAX_SEGMENTS && pread(fd, segments + (size_t)nr++ * RD_SEG_SIZE,
					       RD_SEG_SIZE, at) < 0)
			err(1, "%s", path);
		all++;
		at += RD_SEG_SIZE;
	}
	close(fd);
	return all;
}

int main(int argc, char **argv)
{
	unsigned int i, threads, all;
	pthread_t ids[MAX_THREADS];
	cpu_set_t set;
	u64 began;

	if (argc != 3)
		errx(2, "usage: limit FILE none|LEVEL");
	packs = strcmp(argv[2], "none");
	level = packs ? atoi(argv[2]) : 0;
	all = read_file(argv[1]);
	if (!nr || sched_getaffinity(0, sizeof(set), &set))
		errx(1, "nothing to do");
	threads = rd_min(CPU_COUNT(&set), MAX_THREADS);
	began = rd_now_us();
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, NULL))
			errx(1, "no thread");
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("%llu\n", (unsigned long long)((rd_now_us() - began) * all / nr));
	return 0;
}
