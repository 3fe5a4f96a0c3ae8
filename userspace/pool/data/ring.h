/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads and writes in flight, by io_uring, or by plain calls where the kernel forbids
 * io_uring, or by the store that they go to (store.h). A ring belongs to one thread.
 *
 * An operation is whole or has failed: short transfers are continued. A read beyond the
 * end of a file gives zeros, because a disk image may end in the middle of a block, and
 * fingerprints reveal what a truncated pool lacks.
 */
#ifndef RD_RING_H
#define RD_RING_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/units.h"

enum rd_op_kind {
	RD_OP_READ,
	RD_OP_WRITE,
	RD_OP_POLL,		/* until @fd is ready for @events */
};

struct rd_op {
	enum rd_op_kind kind;
	struct rd_store *store;	/* or NULL: @fd */
	int fd;
	short events;		/* of poll(2); 0: POLLIN */
	u64 offset;
	/* One buffer, or vectors, which belong to the caller. The ring uses them up. */
	struct iovec own;
	struct iovec *iov;
	unsigned int nr_iov;
	/* @r: 0 or -errno. May submit operations, @op too. */
	void (*done)(struct rd_op *op, int r);
	void *ctx;

	/* These belong to the ring. */
	struct rd_ring *ring;
	struct rd_op *next;
	u64 left;
	bool is_refused;	/* by the kernel, which would have to wait for it */
	/* Injected: the operation fails before it begins; its first part is short. */
	int r;
	bool cut;
	u64 traced;
};

struct rd_ring;
struct rd_store;

int rd_ring_new(struct rd_ring **ret, unsigned int depth);
/* Wait for the operations in flight, without calling done(), and free the ring. */
void rd_ring_free(struct rd_ring *ring);

/* Has it io_uring, or plain calls? */
bool rd_ring_is_uring(const struct rd_ring *ring);

void rd_ring_submit(struct rd_ring *ring, struct rd_op *op);

/*
 * Call done() for each operation that has ended; if none has, wait for one. Returns at
 * once if none is in flight. 0, or -errno of the ring itself.
 */
int rd_ring_wait(struct rd_ring *ring);

/*
 * For stores, in any thread: @op, which submit() of the store was given, has ended. Its done()
 * comes out of rd_ring_wait().
 */
void rd_ring_end(struct rd_op *op, int r);
/* For stores: what they were given will not end, as rd_store_end() has let go of it. */
void rd_ring_forget(struct rd_ring *ring);

/* Count the operations that were submitted and have not ended. */
unsigned int rd_ring_busy(const struct rd_ring *ring);

#endif
