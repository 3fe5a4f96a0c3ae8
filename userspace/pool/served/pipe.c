// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that comes down a pipe: see pipe.h. A snapshot that reads all of it does so in order, so
 * each read waits here: threads fingerprint what came before, meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/data/ring.h"
#include "pipe.h"

#define STEP_MS		200

/* Read @len bytes; *@ret: how many there were until the end. */
static int read_all(struct rd_pipe *pipe, void *data, size_t len, size_t *ret)
{
	struct pollfd ready = { .fd = pipe->fd, .events = POLLIN };
	ssize_t part;

	for (*ret = 0; *ret < len; *ret += part) {
		/* A signal does not end a read, nor a wait that begins just after it. */
		int nr = poll(&ready, 1, STEP_MS);

		if (nr < 0 && errno != EINTR)
			return -errno;
		if (pipe->stop && *pipe->stop)
			return -EINTR;
		part = 0;
		if (nr <= 0)
			continue;
		part = read(pipe->fd, (char *)data + *ret, len - *ret);
		if (part < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (!part)
			break;
		part = part < 0 ? 0 : part;
	}
	return 0;
}

static void submit(struct rd_store *store, struct rd_op *op)
{
	struct rd_pipe *pipe = (struct rd_pipe *)store;
	size_t len = op->iov->iov_len, wanted, got;
	u64 left = store->bytes - rd_min(op->offset, store->bytes);
	int r;

	wanted = rd_min(len, left);
	if (op->offset != pipe->at) {
		rd_ring_end(op, -ESPIPE);
		return;
	}
	r = read_all(pipe, op->iov->iov_base, wanted, &got);
	pipe->at += got;
	if (!r && got < wanted) {
		rd_err(0, "the stream ended after %llu of %llu bytes", pipe->at, store->bytes);
		r = -EPIPE;
	}
	memset((char *)op->iov->iov_base + got, 0, len - got);
	rd_ring_end(op, r);
}

/* Zeros come as such. */
static off_t seek(struct rd_store *store, off_t offset, int whence)
{
	return whence == SEEK_DATA ? offset : (off_t)store->bytes;
}

static const struct rd_store_ops ops = { .submit = submit, .seek = seek };

void rd_pipe_open(struct rd_pipe *pipe, int fd, u64 size, const volatile int *stop)
{
	*pipe = (struct rd_pipe){
		.store = { .ops = &ops, .bytes = size, .is_once = true, .fd = -1 },
		.fd = fd,
		.stop = stop,
	};
}

int rd_pipe_check_end(struct rd_pipe *pipe)
{
	size_t got;
	char more;
	int r = read_all(pipe, &more, 1, &got);

	if (r || !got)
		return r;
	rd_err(0, "the stream goes on behind its %llu bytes", pipe->store.bytes);
	return -EFBIG;
}
