// SPDX-License-Identifier: GPL-2.0
/* Reads and writes in flight; see ring.h. The only user of liburing. */
#include <errno.h>
#include <liburing.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/inject.h"
#include "base/iov.h"
#include "base/log.h"
#include "ring.h"
#include "store.h"

/* Of those who share a ring each has one. */
#define MAX_POLLS	8

struct rd_ring {
	struct io_uring uring;
	bool has_uring;
	unsigned int depth;
	unsigned int in_flight;		/* in the kernel */
	unsigned int busy;		/* in flight or waiting */
	struct rd_op *waiting, **waiting_end;

	/*
	 * What stores transfer for the ring. They may end it in threads of their own, which then
	 * wake up the one that waits here.
	 */
	unsigned int lent;		/* given to stores, and not ended */
	pthread_mutex_t lock;
	struct rd_op *ended, **ended_end;	/* under @lock */
	int bell;			/* an eventfd, or -1 */
	struct rd_op listening;
	bool is_listening;
};

int rd_ring_new(struct rd_ring **ret, unsigned int depth)
{
	struct rd_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	ring->depth = depth;
	ring->waiting_end = &ring->waiting;
	ring->ended_end = &ring->ended;
	ring->bell = -1;
	pthread_mutex_init(&ring->lock, NULL);
	/* Some hosts and some containers forbid it. */
	ring->has_uring = !getenv("REVDEDUP_NO_URING") &&
		!io_uring_queue_init(depth, &ring->uring, 0);
	*ret = ring;
	return 0;
}

bool rd_ring_is_uring(const struct rd_ring *ring)
{
	return ring->has_uring;
}

static void enqueue(struct rd_ring *ring, struct rd_op *op)
{
	op->next = NULL;
	*ring->waiting_end = op;
	ring->waiting_end = &op->next;
}

static struct rd_op *dequeue(struct rd_ring *ring)
{
	struct rd_op *op = ring->waiting;

	ring->waiting = op->next;
	if (!ring->waiting)
		ring->waiting_end = &ring->waiting;
	return op;
}

static u64 iov_bytes(const struct rd_op *op)
{
	u64 bytes = 0;
	unsigned int i;

	for (i = 0; i < op->nr_iov; i++)
		bytes += op->iov[i].iov_len;
	return bytes;
}

/* Step over @bytes of what is left. */
static void advance(struct rd_op *op, u64 bytes)
{
	op->offset += bytes;
	op->left -= bytes;
	rd_iov_step(&op->iov, &op->nr_iov, bytes);
}

static void fill_zeros(struct rd_op *op)
{
	for (; op->nr_iov; op->iov++, op->nr_iov--)
		memset(op->iov->iov_base, 0, op->iov->iov_len);
	op->left = 0;
}

static void end_op(struct rd_ring *ring, struct rd_op *op, int r)
{
	ring->busy--;
	if (op->kind == RD_OP_WRITE && !r)
		rd_trace_written(op->traced);
	op->done(op, r);
}

/* Continue or end @op after one transfer, whose result in the kernel is @r. */
static void transferred(struct rd_ring *ring, struct rd_op *op, int r)
{
	if (r == -EINTR || r == -EAGAIN) {
		op->is_refused = r == -EAGAIN;
		enqueue(ring, op);
		return;
	}
	if (r < 0 || op->kind == RD_OP_POLL) {
		end_op(ring, op, r < 0 ? r : 0);
		return;
	}
	if (!r && op->kind == RD_OP_WRITE) {
		end_op(ring, op, -EIO);
		return;
	}
	if (r)
		advance(op, r);
	else
		fill_zeros(op);
	/*
	 * After the end of a file in the middle of a sector O_DIRECT can read
	 * nothing, and there is nothing to read.
	 */
	if (op->left && op->kind == RD_OP_READ && op->offset % 512)
		fill_zeros(op);
	if (op->left)
		enqueue(ring, op);
	else
		end_op(ring, op, 0);
}

/* --- what stores transfer */

static void lend(struct rd_ring *ring, struct rd_op *op)
{
	ring->lent++;
	if (!op->r && ring->bell < 0) {
		ring->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		op->r = ring->bell < 0 ? -errno : 0;
	}
	if (op->r)
		rd_ring_end(op, op->r);
	else
		op->store->ops->submit(op->store, op);
}

void rd_ring_end(struct rd_op *op, int r)
{
	struct rd_ring *ring = op->ring;
	const u64 one = 1;

	op->r = r;
	op->next = NULL;
	pthread_mutex_lock(&ring->lock);
	/* One is enough; and before the ring can be freed, which takes the lock first. */
	if (!ring->ended)
		(void)!write(ring->bell, &one, sizeof(one));
	*ring->ended_end = op;
	ring->ended_end = &op->next;
	pthread_mutex_unlock(&ring->lock);
}

static struct rd_op *take_ended(struct rd_ring *ring)
{
	struct rd_op *op;

	pthread_mutex_lock(&ring->lock);
	op = ring->ended;
	if (op)
		ring->ended = op->next;
	if (!ring->ended)
		ring->ended_end = &ring->ended;
	pthread_mutex_unlock(&ring->lock);
	return op;
}

/* Call done() for what stores have ended. Has any? */
static bool end_lent(struct rd_ring *ring)
{
	struct rd_op *op;
	bool any = false;

	while (ring->lent && (op = take_ended(ring))) {
		ring->lent--;
		end_op(ring, op, op->r);
		any = true;
	}
	return any;
}

static void heard(struct rd_op *op, int r)
{
	struct rd_ring *ring = op->ctx;
	u64 count;

	(void)r;
	/* It stands for the ring, and for no operation of the caller. */
	ring->busy++;
	ring->is_listening = false;
	(void)!read(ring->bell, &count, sizeof(count));
}

/* Have the wait end when a store has ended something. */
static void listen_for_lent(struct rd_ring *ring)
{
	if (!ring->lent || ring->is_listening)
		return;
	ring->is_listening = true;
	ring->listening = (struct rd_op){
		.kind = RD_OP_POLL,
		.fd = ring->bell,
		.done = heard,
		.ctx = ring,
	};
	enqueue(ring, &ring->listening);
}

void rd_ring_forget(struct rd_ring *ring)
{
	while (take_ended(ring))
		;
	ring->busy -= ring->lent;
	ring->lent = 0;
}

/* Nothing may write into the caller's buffers any more, nor ring the bell. */
static void wait_for_lent(struct rd_ring *ring)
{
	struct pollfd pollfd = { .fd = ring->bell, .events = POLLIN };
	u64 count;

	while (ring->lent) {
		while (ring->lent && take_ended(ring))
			ring->lent--;
		if (!ring->lent)
			break;
		poll(&pollfd, 1, -1);
		(void)!read(ring->bell, &count, sizeof(count));
	}
}

/* --- */

void rd_ring_submit(struct rd_ring *ring, struct rd_op *op)
{
	op->ring = ring;
	if (!op->iov) {
		op->iov = &op->own;
		op->nr_iov = 1;
	}
	op->left = op->kind == RD_OP_POLL ? 0 : iov_bytes(op);
	op->r = 0;
	if (op->store)
		op->fd = op->store->fd;
	op->cut = false;
	op->is_refused = false;
	if (op->kind != RD_OP_POLL)
		op->r = rd_transfer_point(op->kind == RD_OP_WRITE ? "write" : "read", &op->cut);
	if (op->kind == RD_OP_WRITE)
		op->traced = rd_trace_write(op->fd, op->iov, op->nr_iov, op->offset);
	ring->busy++;
	if (op->store && op->store->ops->submit)
		lend(ring, op);
	else
		enqueue(ring, op);
}

/* Make an injected short transfer of the beginning of the first vector. */
static bool take_cut(struct rd_op *op, struct iovec *ret)
{
	if (!op->cut)
		return false;
	op->cut = false;
	*ret = *op->iov;
	ret->iov_len = rd_cut(ret->iov_len);
	return true;
}

static void prepare_cut(struct io_uring_sqe *sqe, struct rd_op *op, const struct iovec *cut)
{
	if (op->kind == RD_OP_READ)
		io_uring_prep_read(sqe, op->fd, cut->iov_base, cut->iov_len, op->offset);
	else
		io_uring_prep_write(sqe, op->fd, cut->iov_base, cut->iov_len, op->offset);
}

static short events_of(const struct rd_op *op)
{
	return op->events ? op->events : POLLIN;
}

static void prepare_whole(struct io_uring_sqe *sqe, struct rd_op *op)
{
	/* The kernel takes at most this many vectors. */
	unsigned int nr = op->nr_iov < IOV_MAX ? op->nr_iov : IOV_MAX;

	switch (op->kind) {
	case RD_OP_READ:
		io_uring_prep_readv(sqe, op->fd, op->iov, nr, op->offset);
		break;
	case RD_OP_WRITE:
		io_uring_prep_writev(sqe, op->fd, op->iov, nr, op->offset);
		break;
	case RD_OP_POLL:
		io_uring_prep_poll_add(sqe, op->fd, events_of(op));
		break;
	}
}

static void prepare(struct io_uring_sqe *sqe, struct rd_op *op)
{
	struct iovec cut;

	if (take_cut(op, &cut))
		prepare_cut(sqe, op, &cut);
	else
		prepare_whole(sqe, op);
	/*
	 * The kernel first tries each operation without waiting. Where a device is made of others
	 * it may tell of a refusal too late to hand the operation to a thread that may wait, and
	 * then tells us: again each time, unless it goes to such a thread at once.
	 */
	if (op->is_refused)
		io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	io_uring_sqe_set_data(sqe, op);
}

static int run_plainly(struct rd_op *op)
{
	unsigned int nr = op->nr_iov < IOV_MAX ? op->nr_iov : IOV_MAX;
	const struct iovec *iov = op->iov;
	struct iovec cut;
	ssize_t r;

	if (take_cut(op, &cut)) {
		iov = &cut;
		nr = 1;
	}
	r = op->kind == RD_OP_READ ? preadv(op->fd, iov, nr, op->offset) :
		pwritev(op->fd, iov, nr, op->offset);
	return r < 0 ? -errno : r;
}

/* Nothing but polls is left to do: wait for any of them. */
static int poll_plainly(struct rd_ring *ring)
{
	struct pollfd pollfds[MAX_POLLS];
	unsigned int i, nr = 0;
	struct rd_op *op;

	for (op = ring->waiting; op && nr < MAX_POLLS; op = op->next)
		pollfds[nr++] = (struct pollfd){ .fd = op->fd, .events = events_of(op) };
	if (poll(pollfds, nr, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < nr; i++) {
		op = dequeue(ring);
		if (pollfds[i].revents)
			transferred(ring, op, 0);
		else
			enqueue(ring, op);
	}
	return 0;
}

static int wait_plainly(struct rd_ring *ring)
{
	struct rd_op *op = dequeue(ring);
	unsigned int polls = 0;

	while (op->kind == RD_OP_POLL && polls++ < ring->busy) {
		enqueue(ring, op);
		op = dequeue(ring);
	}
	if (op->kind != RD_OP_POLL) {
		transferred(ring, op, op->r ? op->r : run_plainly(op));
		return 0;
	}
	enqueue(ring, op);
	return poll_plainly(ring);
}

static void fill_uring(struct rd_ring *ring)
{
	while (ring->waiting && ring->in_flight < ring->depth) {
		struct io_uring_sqe *sqe;

		if (ring->waiting->r) {
			struct rd_op *op = dequeue(ring);

			end_op(ring, op, op->r);
			continue;
		}
		sqe = io_uring_get_sqe(&ring->uring);
		if (!sqe)
			break;
		prepare(sqe, dequeue(ring));
		ring->in_flight++;
	}
}

/* Operations for which the kernel has no memory just now stay in the queue. */
static int submit_uring(struct rd_ring *ring, unsigned int wait_for)
{
	int r = io_uring_submit_and_wait(&ring->uring, wait_for);

	if (r == -EAGAIN)
		usleep(1000);
	return r < 0 && r != -EINTR && r != -EBUSY && r != -EAGAIN ? r : 0;
}

static void reap(struct rd_ring *ring)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&ring->uring, &cqe)) {
		struct rd_op *op = io_uring_cqe_get_data(cqe);
		int r = cqe->res;

		io_uring_cqe_seen(&ring->uring, cqe);
		ring->in_flight--;
		transferred(ring, op, r);
	}
}

static int wait_uring(struct rd_ring *ring, unsigned int wait_for)
{
	int r;

	fill_uring(ring);
	r = submit_uring(ring, ring->in_flight ? wait_for : 0);
	if (!r) {
		reap(ring);
		fill_uring(ring);
		r = submit_uring(ring, 0);
	}
	return r ? rd_err(r, "io_uring failed") : 0;
}

int rd_ring_wait(struct rd_ring *ring)
{
	bool any = end_lent(ring);
	int r = 0;

	if (!ring->busy)
		return 0;
	listen_for_lent(ring);
	if (ring->has_uring)
		r = wait_uring(ring, any ? 0 : 1);
	else if (!any)
		r = wait_plainly(ring);
	end_lent(ring);
	return r;
}

unsigned int rd_ring_busy(const struct rd_ring *ring)
{
	return ring->busy;
}

void rd_ring_free(struct rd_ring *ring)
{
	struct io_uring_cqe *cqe;
	const u64 one = 1;
	int r;

	if (!ring)
		return;
	wait_for_lent(ring);
	if (ring->has_uring) {
		/* Let the poll of the bell end. */
		if (ring->is_listening)
			(void)!write(ring->bell, &one, sizeof(one));
		/* The kernel may still write into buffers that the caller frees next. */
		while (ring->in_flight > io_uring_sq_ready(&ring->uring)) {
			r = io_uring_wait_cqe(&ring->uring, &cqe);
			if (r == -EINTR)
				continue;
			if (r)
				break;
			io_uring_cqe_seen(&ring->uring, cqe);
			ring->in_flight--;
		}
		io_uring_queue_exit(&ring->uring);
	}
	pthread_mutex_lock(&ring->lock);
	pthread_mutex_unlock(&ring->lock);
	pthread_mutex_destroy(&ring->lock);
	if (ring->bell >= 0)
		close(ring->bell);
	free(ring);
}
