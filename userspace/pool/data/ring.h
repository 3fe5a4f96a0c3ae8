/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads and writes in flight, by io_uring; by plain calls where the kernel does
 * not let us have a ring. A ring belongs to one thread.
 *
 * An operation is whole or failed: short transfers are gone on with. A read
 * beyond the end of a file gives zeros, because the end of an image need not
 * be that of a block, and what a truncated pool lacks is found by its
 * fingerprint.
 */
#ifndef RD_RING_H
#define RD_RING_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/units.h"

enum rd_op_kind {
	RD_OP_READ,
	RD_OP_WRITE,
	RD_OP_POLL,		/* until @fd can be read */
};

struct rd_op {
	enum rd_op_kind kind;
	int fd;
	u64 offset;
	/* The ring moves these forward: they are the caller's, and are used up. */
	struct iovec *iov;
	unsigned int nr_iov;
	/* @r: 0 or -errno. May submit again, this one too. */
	void (*done)(struct rd_op *op, int r);
	void *ctx;

	/* The ring's. */
	struct rd_op *next;
	u64 left;
	/* What a test wishes: it fails before it begins; its first part is short. */
	int r;
	bool cut;
	u64 traced;
};

struct rd_ring;

int rd_ring_new(struct rd_ring **ret, unsigned int depth);
/* Waits for what is in flight, whose done() is not called. */
void rd_ring_free(struct rd_ring *ring);

void rd_ring_submit(struct rd_ring *ring, struct rd_op *op);

/*
 * Call done() for what has ended, after waiting for at least one if nothing
 * has. Returns 0 or -errno of the ring itself; at once where nothing is in
 * flight.
 */
int rd_ring_wait(struct rd_ring *ring);

/* How many were submitted and have not ended. */
unsigned int rd_ring_busy(const struct rd_ring *ring);

#endif
