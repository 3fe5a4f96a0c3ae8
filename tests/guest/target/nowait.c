// SPDX-License-Identifier: GPL-2.0
/*
 * Use a device in all ways that the device below it may suddenly not support, and check that
 * no error but EAGAIN and no wrong data comes of it.
 *
 *   nowait DEVICE BYTES
 *   nowait DEVICE read|write BLOCK...
 *
 * The second one reads these blocks once each with RWF_NOWAIT, direct, or writes each and the one
 * behind it at once, and prints a word for each: "done", "EAGAIN", or what else the error says.
 * The first one:
 *
 * The first BYTES of the device are cut into three; a thread works on each until SIGTERM:
 *
 *   rw       reads and writes with RWF_NOWAIT, direct. A request that gets EAGAIN is
 *            sent again without the flag. Reads must find what was written last.
 *   discard  BLKDISCARD
 *   zero     writes, BLKZEROOUT or fallocate, and reads that must find zeros. (For the
 *            former, the kernel itself writes zeros where the device does not take
 *            write zeroes; for the latter it does not.)
 *
 * Prints EAGAIN when it gets the first one, and at the end how often each thread did what.
 * Exit code: 0 only if nothing was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCK		4096U
#define MAX_RANGE	(1U << 20)

struct worker {
	void (*work)(struct worker *w);
	const char *name;
	uint64_t first;		/* bytes */
	uint64_t len;
	unsigned int seed;
	char *buf;		/* MAX_RANGE */
	uint64_t *written;	/* rw: what each block was last filled with */
	unsigned long done;
	unsigned long again;
};

static int fd;
static atomic_bool stop, failed;

static void on_signal(int signo)
{
	(void)signo;
	stop = true;
}

__attribute__((format(printf, 2, 3)))
static void wrong(struct worker *w, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "nowait: %s: %s\n", w->name, text);
	failed = true;
	stop = true;
}

static uint64_t draw(struct worker *w, uint64_t below)
{
	uint64_t high = rand_r(&w->seed);

	return (high << 31 | rand_r(&w->seed)) % below;
}

/* A range of whole blocks in the worker's part, up to MAX_RANGE. */
static void draw_range(struct worker *w, uint64_t range[2])
{
	uint64_t blocks = w->len / BLOCK;
	uint64_t first = draw(w, blocks);
	uint64_t max = blocks - first;

	if (max > MAX_RANGE / BLOCK)
		max = MAX_RANGE / BLOCK;
	range[0] = w->first + first * BLOCK;
	range[1] = (1 + draw(w, max)) * BLOCK;
}

static void check_full(struct worker *w, const char *what, ssize_t r, size_t len)
{
	if (r < 0)
		wrong(w, "%s: %s", what, strerror(errno));
	else if ((size_t)r != len)
		wrong(w, "%s: %zd of %zu bytes", what, r, len);
}

/* Like preadv2 or pwritev2 without RWF_NOWAIT, but tries with it first. */
static void block_io(struct worker *w, bool write, uint64_t offset)
{
	ssize_t (*call)(int, const struct iovec *, int, off_t, int) =
		write ? pwritev2 : preadv2;
	struct iovec iov = { .iov_base = w->buf, .iov_len = BLOCK };
	ssize_t r = call(fd, &iov, 1, offset, RWF_NOWAIT);

	if (r < 0 && errno == EAGAIN) {
		if (!w->again++) {
			puts("EAGAIN");
			fflush(stdout);
		}
		r = call(fd, &iov, 1, offset, 0);
	}
	check_full(w, write ? "write" : "read", r, BLOCK);
}

static void fill(char *buf, uint64_t value)
{
	size_t i;

	for (i = 0; i < BLOCK; i += sizeof(value))
		memcpy(buf + i, &value, sizeof(value));
}

static void work_rw(struct worker *w)
{
	uint64_t nr = draw(w, w->len / BLOCK);
	uint64_t offset = w->first + nr * BLOCK;
	char expected[BLOCK];

	if (!w->written[nr] || draw(w, 2)) {
		w->written[nr] = nr << 32 | (w->done + 1);
		fill(w->buf, w->written[nr]);
		block_io(w, true, offset);
		return;
	}
	block_io(w, false, offset);
	fill(expected, w->written[nr]);
	if (!failed && memcmp(w->buf, expected, BLOCK))
		wrong(w, "wrong data at byte %llu", (unsigned long long)offset);
}

static void work_discard(struct worker *w)
{
	uint64_t range[2];

	draw_range(w, range);
	if (ioctl(fd, BLKDISCARD, range))
		wrong(w, "BLKDISCARD: %s", strerror(errno));
}

static void work_zero(struct worker *w)
{
	uint64_t range[2];
	uint64_t i;

	draw_range(w, range);
	memset(w->buf, 0xff, range[1]);
	check_full(w, "write", pwrite(fd, w->buf, range[1], range[0]), range[1]);
	if (draw(w, 2)) {
		if (ioctl(fd, BLKZEROOUT, range))
			wrong(w, "BLKZEROOUT: %s", strerror(errno));
	} else if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     range[0], range[1])) {
		wrong(w, "fallocate: %s", strerror(errno));
	}
	check_full(w, "read", pread(fd, w->buf, range[1], range[0]), range[1]);
	for (i = 0; !failed && i < range[1]; i++) {
		if (w->buf[i])
			wrong(w, "no zero at byte %llu",
			      (unsigned long long)(range[0] + i));
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;

	while (!stop) {
		w->work(w);
		w->done++;
	}
	return NULL;
}

static int blocks_io(bool write, int nr, char **blocks)
{
	size_t len = write ? 2 * BLOCK : BLOCK;
	struct iovec iov = { .iov_base = aligned_alloc(BLOCK, len), .iov_len = len };
	ssize_t r;
	int i;

	if (!iov.iov_base)
		return 1;
	memset(iov.iov_base, 0, len);
	for (i = 0; i < nr; i++) {
		off_t at = strtoll(blocks[i], NULL, 10) * BLOCK;

		r = write ? pwritev2(fd, &iov, 1, at, RWF_NOWAIT) :
			preadv2(fd, &iov, 1, at, RWF_NOWAIT);
		printf("%s%s", i ? " " : "", r == (ssize_t)len ? "done" : r >= 0 ? "short" :
		       errno == EAGAIN ? "EAGAIN" : strerror(errno));
	}
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct worker workers[] = {
		{ .name = "rw", .work = work_rw },
		{ .name = "discard", .work = work_discard },
		{ .name = "zero", .work = work_zero },
	};
	size_t i, nr = sizeof(workers) / sizeof(workers[0]);
	pthread_t threads[nr];
	uint64_t size;

	if (argc < 3 || (argc > 3 && strcmp(argv[2], "read") && strcmp(argv[2], "write"))) {
		fprintf(stderr, "usage: nowait DEVICE BYTES|read BLOCK...|write BLOCK...\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_DIRECT);
	if (fd < 0) {
		fprintf(stderr, "nowait: cannot open '%s': %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (argc > 3)
		return blocks_io(!strcmp(argv[2], "write"), argc - 3, argv + 3);
	size = strtoull(argv[2], NULL, 10);
	signal(SIGTERM, on_signal);
	for (i = 0; i < nr; i++) {
		struct worker *w = &workers[i];

		w->len = size / nr / BLOCK * BLOCK;
		w->first = i * w->len;
		w->seed = i + 1;
		w->written = calloc(w->len / BLOCK, sizeof(*w->written));
		w->buf = aligned_alloc(BLOCK, MAX_RANGE);
		if (!w->written || !w->buf ||
		    pthread_create(&threads[i], NULL, run, w)) {
			fprintf(stderr, "nowait: out of memory\n");
			return 1;
		}
	}
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < nr; i++)
		printf("%s %lu again %lu\n", workers[i].name, workers[i].done,
		       workers[i].again);
	return failed;
}
