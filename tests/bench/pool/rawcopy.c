// SPDX-License-Identifier: GPL-2.0
/*
 * The yardstick for the pool's speed: copy the allocated parts of a file, or all of a device,
 * or only read them, as fast as the disk can.
 *
 *	rawcopy [--huge] FROM [TO]
 *
 * Past the page cache, in pieces of 2 MiB, 16 at a time; TO is stable at the end.
 * --huge: with buffers of huge pages.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NR_PIECES	16
#define PIECE		(2 << 20)
#define BLOCK		4096

struct piece {
	char *data;
	off_t offset;
	size_t len;
	bool is_written;
};

struct copy {
	int from, to;		/* to: -1 if there is none */
	off_t size;
	bool is_device;
	off_t next, hole;	/* data reaches from next to hole */
	unsigned int busy;
	struct io_uring ring;
	struct piece pieces[NR_PIECES];
};

static struct io_uring_sqe *get_sqe(struct copy *c)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);

	if (!sqe)
		errx(1, "the ring is full");
	return sqe;
}

/* Which part has data next? A device has some everywhere. */
static void next_data(struct copy *c)
{
	if (c->is_device) {
		c->next = c->hole ? INT64_MAX : 0;
		c->hole = c->hole ? INT64_MAX : c->size;
		return;
	}
	c->next = lseek(c->from, c->next, SEEK_DATA);
	if (c->next < 0 && errno != ENXIO)
		err(1, "SEEK_DATA");
	if (c->next < 0) {
		c->next = INT64_MAX;
		c->hole = INT64_MAX;
		return;
	}
	c->hole = lseek(c->from, c->next, SEEK_HOLE);
}

/* Nothing, once all has been read. */
static void start_read(struct copy *c, struct piece *piece)
{
	struct io_uring_sqe *sqe;

	if (c->next >= c->hole)
		next_data(c);
	if (c->next == INT64_MAX)
		return;
	piece->offset = c->next;
	piece->len = c->hole - c->next < PIECE ? c->hole - c->next : PIECE;
	/* The end of a file need not be that of a block. */
	piece->len = (piece->len + BLOCK - 1) / BLOCK * BLOCK;
	piece->is_written = false;
	c->next += piece->len;
	c->busy++;
	sqe = get_sqe(c);
	io_uring_prep_read(sqe, c->from, piece->data, piece->len, piece->offset);
	io_uring_sqe_set_data(sqe, piece);
}

static void start_write(struct copy *c, struct piece *piece)
{
	struct io_uring_sqe *sqe = get_sqe(c);

	piece->is_written = true;
	io_uring_prep_write(sqe, c->to, piece->data, piece->len, piece->offset);
	io_uring_sqe_set_data(sqe, piece);
}

/* One piece has been read or written: what next? */
static void go_on(struct copy *c)
{
	struct io_uring_cqe *cqe;
	struct piece *piece;
	int r;

	r = io_uring_submit_and_wait(&c->ring, 1);
	if (r >= 0)
		r = io_uring_wait_cqe(&c->ring, &cqe);
	if (r < 0)
		errx(1, "io_uring: %s", strerror(-r));
	piece = io_uring_cqe_get_data(cqe);
	if (cqe->res < 0)
		errx(1, "at %lld: %s", (long long)piece->offset, strerror(-cqe->res));
	io_uring_cqe_seen(&c->ring, cqe);
	if (c->to >= 0 && !piece->is_written) {
		start_write(c, piece);
		return;
	}
	c->busy--;
	start_read(c, piece);
}

static void open_files(struct copy *c, const char *from, const char *to)
{
	struct stat st;

	c->from = open(from, O_RDONLY | O_DIRECT);
	if (c->from < 0 || fstat(c->from, &st))
		err(1, "'%s'", from);
	c->is_device = S_ISBLK(st.st_mode);
	c->size = c->is_device ? lseek(c->from, 0, SEEK_END) : st.st_size;
	c->to = -1;
	if (!to)
		return;
	c->to = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	if (c->to < 0 || ftruncate(c->to, c->size))
		err(1, "'%s'", to);
}

static char *get_memory(bool huge)
{
	char *data = aligned_alloc(PIECE, PIECE);

	if (!data)
		err(1, "no memory");
	if (huge && madvise(data, PIECE, MADV_HUGEPAGE))
		err(1, "no huge pages");
	return data;
}

int main(int argc, char **argv)
{
	bool huge = argc > 1 && !strcmp(argv[1], "--huge");
	struct copy c = { .busy = 0 };
	unsigned int i;

	argc -= huge;
	argv += huge;
	if (argc != 2 && argc != 3)
		errx(2, "usage: rawcopy [--huge] FROM [TO]");
	open_files(&c, argv[1], argv[2]);
	if (io_uring_queue_init(2 * NR_PIECES, &c.ring, 0))
		errx(1, "no io_uring");
	for (i = 0; i < NR_PIECES; i++) {
		c.pieces[i].data = get_memory(huge);
		start_read(&c, &c.pieces[i]);
	}
	while (c.busy)
		go_on(&c);
	if (c.to >= 0 && fsync(c.to))
		err(1, "fsync");
	return 0;
}
