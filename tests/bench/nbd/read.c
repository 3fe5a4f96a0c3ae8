// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: read URI LENGTH DEPTH SECONDS seq|random
 *
 * Read an export with DEPTH requests of LENGTH bytes in flight on one connection, for that
 * many seconds or, in sequence, once at most. Print "BYTES_PER_SECOND READS_PER_SECOND".
 */
#include <libnbd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct nbd_handle *nbd;
static uint64_t size, len, next, reads;
static int in_order;
static double end;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void die(void)
{
	fprintf(stderr, "read: %s\n", nbd_get_error());
	exit(1);
}

/* The same places for each server. */
static uint64_t where(void)
{
	static uint64_t state = 88172645463325252ULL;
	uint64_t at = next;

	next += len;
	if (in_order)
		return at;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % (size / len) * len;
}

/* A callback may not submit. */
static void *spare[1024];
static int nr_spare;

static int done(void *buf, int *error)
{
	if (*error) {
		fprintf(stderr, "read: %s\n", strerror(*error));
		exit(1);
	}
	reads++;
	spare[nr_spare++] = buf;
	return 1;
}

static void submit(void *buf)
{
	nbd_completion_callback callback = { .callback = done, .user_data = buf };

	if (nbd_aio_pread(nbd, buf, len, where(), callback, 0) < 0)
		die();
}

int main(int argc, char **argv)
{
	double start, took;
	int i;

	if (argc != 6)
		return 2;
	nbd = nbd_create();
	if (!nbd || nbd_set_uri_allow_local_file(nbd, 1) || nbd_connect_uri(nbd, argv[1]))
		die();
	size = nbd_get_size(nbd);
	len = strtoull(argv[2], NULL, 10);
	in_order = !strcmp(argv[5], "seq");
	start = now();
	end = start + atof(argv[4]);
	for (i = 0; i < atoi(argv[3]); i++)
		spare[nr_spare++] = malloc(len);
	do {
		while (nr_spare && now() < end && (!in_order || next + len <= size))
			submit(spare[--nr_spare]);
		if (nbd_aio_in_flight(nbd) > 0 && nbd_poll(nbd, -1) < 0)
			die();
	} while (nbd_aio_in_flight(nbd) > 0);
	took = now() - start;
	printf("%.0f %.0f\n", reads * len / took, reads / took);
	nbd_shutdown(nbd, 0);
	return 0;
}
