/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk that a snapshot reads from a server, or a restore writes to one, and no file and no
 * device: see pool/served/. The server answers for it that nothing else writes meanwhile.
 */
#ifndef RD_SERVED_H
#define RD_SERVED_H

#include <sys/types.h>

#include "pool/data/ring.h"

struct rd_served {
	u64 size;
	bool is_once;			/* reads are in order, and of nothing twice */
	/* All that follows is called by the thread that has @ring. */
	int (*begin)(struct rd_served *served, struct rd_ring *ring);
	/*
	 * Submit a read or a write, as rd_ring_submit() does: its done() comes out of
	 * rd_ring_wait(), or at once where it fails.
	 */
	void (*submit)(struct rd_served *served, struct rd_op *op);
	/* Let what was written outlive a loss of power. Says what failed. */
	int (*flush)(struct rd_served *served);
	/* As lseek() with SEEK_DATA and SEEK_HOLE: -1 and errno where it is not known. */
	off_t (*seek)(struct rd_served *served, off_t offset, int whence);
	/* Let go of the ring, before it is freed. No more done() comes. */
	void (*end)(struct rd_served *served);
};

#endif
