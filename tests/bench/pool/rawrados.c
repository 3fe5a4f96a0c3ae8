// SPDX-License-Identifier: GPL-2.0
/*
 * rawrados write|read POOL SPACE FILE: what librados does, with 16 requests of 2 MiB in flight and
 * nothing between it and the data. write: FILE becomes objects in the namespace SPACE. read: as
 * many objects as FILE has become standard output.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <rados/librados.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBJECT	(2 << 20)
#define DEPTH	16

struct request {
	rados_completion_t completion;
	char *data;
};

static rados_ioctx_t io;

static void check(int r, const char *what)
{
	if (r < 0)
		errx(1, "%s: %s", what, strerror(-r));
}

/* Wait for the request that was begun here, if any; return how many bytes it transferred. */
static int end(struct request *request)
{
	int r;

	if (!request->completion)
		return 0;
	rados_aio_wait_for_complete(request->completion);
	r = rados_aio_get_return_value(request->completion);
	rados_aio_release(request->completion);
	request->completion = NULL;
	check(r, "transfer");
	return r;
}

static void end_read(struct request *request)
{
	int len = end(request), done, now;

	for (done = 0; done < len; done += now) {
		now = write(STDOUT_FILENO, request->data + done, len - done);
		if (now <= 0)
			err(1, "standard output");
	}
}

/* Of a file of @size bytes. */
static void begin(struct request *request, int fd, bool writes, long nr, off_t size)
{
	size_t len = size - nr * OBJECT < OBJECT ? size - nr * OBJECT : OBJECT;
	char name[32];

	snprintf(name, sizeof(name), "raw.%08lx", nr);
	check(rados_aio_create_completion2(NULL, NULL, &request->completion), "completion");
	if (writes && pread(fd, request->data, len, nr * OBJECT) != (ssize_t)len)
		err(1, "read");
	check(writes ? rados_aio_write_full(io, name, request->completion, request->data, len) :
	      rados_aio_read(io, name, request->completion, request->data, len, 0), "begin");
}

int main(int argc, char **argv)
{
	struct request requests[DEPTH] = { 0 };
	rados_t cluster;
	struct stat st;
	bool writes;
	long nr, end_nr;
	int fd;

	if (argc != 5)
		errx(2, "usage: rawrados write|read POOL SPACE FILE");
	writes = !strcmp(argv[1], "write");
	fd = open(argv[4], O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		err(1, "'%s'", argv[4]);
	check(rados_create(&cluster, "admin"), "create");
	check(rados_conf_read_file(cluster, NULL), "settings");
	check(rados_connect(cluster), "connect");
	check(rados_ioctx_create(cluster, argv[2], &io), argv[2]);
	rados_ioctx_set_namespace(io, argv[3]);
	for (nr = 0; nr < DEPTH; nr++)
		if (posix_memalign((void **)&requests[nr].data, 4096, OBJECT))
			errx(1, "no memory");
	end_nr = (st.st_size + OBJECT - 1) / OBJECT;
	for (nr = 0; nr < end_nr + DEPTH; nr++) {
		struct request *request = &requests[nr % DEPTH];

		if (writes)
			end(request);
		else
			end_read(request);
		if (nr < end_nr)
			begin(request, fd, writes, nr, st.st_size);
	}
	rados_ioctx_destroy(io);
	rados_shutdown(cluster);
	return 0;
}
