// SPDX-License-Identifier: GPL-2.0
/*
 * Measure how fast remap tables are written: see table-write.sh.
 *
 *   table-write IMAGE TEXT TOOL ENTRIES ROUNDS
 *
 * Prints a line for each way: its name, entries, CPU seconds, seconds, entries a second of
 * CPU time. The times are medians of the rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "meta/table_write.h"

#define MAX_ROUNDS	99

struct bench {
	const char *image;
	const char *text;
	const char *tool;
	u64 nr;			/* entries */
	u64 state;		/* of the random numbers */
};

static void die(const char *what)
{
	fprintf(stderr, "table-write: %s: %s\n", what, strerror(errno));
	exit(1);
}

static u64 random_block(struct bench *bench)
{
	bench->state ^= bench->state >> 12;
	bench->state ^= bench->state << 25;
	bench->state ^= bench->state >> 27;
	return bench->state * 2685821657736338717ULL >> 30;
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Every block a random block of the pool, or a range of @len of them. */
static void write_table(struct bench *bench, u64 len)
{
	struct dmr_super super = { .volume_sectors = bench->nr * DMR_BLOCK_SECTORS };
	int fd = rd_open_direct(bench->image, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct dmr_range range = { .len = len };
	struct rd_table_writer table;

	if (fd < 0)
		die(bench->image);
	super.meta_uuid[0] = 1;
	super.meta_blocks = dmr_meta_blocks_needed(dmr_nr_segs(super.volume_sectors),
						   DMR_FLAG_TABLE);
	if (ftruncate(fd, super.meta_blocks << DMR_BLOCK_SHIFT) ||
	    rd_table_begin(&table, fd, &super))
		die("begin");
	for (; range.first < bench->nr; range.first += len) {
		range.place[0].kind = DMR_POOL;
		range.place[0].block = random_block(bench);
		if (rd_table_add(&table, &range))
			die("add");
	}
	if (rd_table_end(&table))
		die("end");
	rd_table_free(&table);
	close(fd);
}

static void by_library(struct bench *bench)
{
	write_table(bench, 1);
}

/* Segments that are whole: one word for 512. */
static void whole(struct bench *bench)
{
	write_table(bench, DMR_SEG_BLOCKS);
}

static void by_tool(struct bench *bench)
{
	char sectors[32];
	int fd;

	snprintf(sectors, sizeof(sectors), "%llu", bench->nr * DMR_BLOCK_SECTORS);
	fd = open("/dev/null", O_WRONLY);
	dup2(fd, STDOUT_FILENO);
	unlink(bench->image);
	execl(bench->tool, bench->tool, "make", bench->image, bench->text, "--sectors",
	      sectors, NULL);
	die(bench->tool);
}

static void write_text(struct bench *bench)
{
	FILE *out = fopen(bench->text, "w");
	u64 i;

	if (!out)
		die(bench->text);
	for (i = 0; i < bench->nr; i++)
		fprintf(out, "%llx,1,p%llx\n", i, random_block(bench));
	if (fclose(out))
		die(bench->text);
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Each in a process of its own, which has times of its own. */
static void measure(struct bench *bench, const char *name, unsigned int rounds,
		    void (*run)(struct bench *bench))
{
	double cpu[MAX_ROUNDS], wall[MAX_ROUNDS], begun;
	struct rusage usage;
	unsigned int i;
	int status;

	for (i = 0; i < rounds; i++) {
		pid_t pid;

		begun = now();
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid) {
			run(bench);
			_exit(0);
		}
		if (wait4(pid, &status, 0, &usage) != pid || status)
			die(name);
		wall[i] = now() - begun;
		cpu[i] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	}
	qsort(cpu, rounds, sizeof(*cpu), compare);
	qsort(wall, rounds, sizeof(*wall), compare);
	printf("%s %llu %.3f %.3f %.0f\n", name, bench->nr, cpu[rounds / 2],
	       wall[rounds / 2], bench->nr / cpu[rounds / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct bench bench = { .state = 88172645463325252ULL };
	unsigned int rounds;

	if (argc != 6) {
		fputs("usage: table-write IMAGE TEXT TOOL ENTRIES ROUNDS\n", stderr);
		return 2;
	}
	bench.image = argv[1];
	bench.text = argv[2];
	bench.tool = argv[3];
	/* Whole segments. */
	bench.nr = strtoull(argv[4], NULL, 10) / DMR_SEG_BLOCKS * DMR_SEG_BLOCKS;
	rounds = atoi(argv[5]);
	if (!bench.nr || !rounds || rounds > MAX_ROUNDS)
		return 2;
	write_text(&bench);
	measure(&bench, "library", rounds, by_library);
	measure(&bench, "text", rounds, by_tool);
	measure(&bench, "whole", rounds, whole);
	return 0;
}
