/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where content lies: the data area of a pool, or a disk that a snapshot reads and a restore
 * writes. Above this, a place is an offset. What a store is, only the file that opens it knows.
 *
 *	store_file	files and block devices, by io_uring and plain calls
 *	rados		a shard in RADOS
 *	pool/served/	a disk that a server has
 *
 * Transfers are of whole blocks, at multiples of a block, unless a disk ends in the middle of one.
 * Reads beyond the end give zeros.
 */
#ifndef RD_STORE_H
#define RD_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"

struct rd_op;
struct rd_ring;

/* What a store can do. */
#define RD_STORE_PUNCH		1U	/* give back single blocks */
#define RD_STORE_ZEROS		2U	/* what was given back is zeros until it is written */
#define RD_STORE_HOLES		4U	/* say to the block what takes no space */
#define RD_STORE_GROWS		8U	/* become larger */
#define RD_STORE_KERNEL_READS	16U	/* be read by the kernel, as it is */
#define RD_STORE_FENCED		32U	/* refuse what a host that has lost it writes: rados.h */

/* How a range is written. */
#define RD_WRITE_FULL		1U	/* also where a store is full, but has a little for this */
#define RD_WRITE_THERE		2U	/* if it is fenced, only where this host has written */

struct rd_range {
	u64 offset, len;
};

struct rd_store {
	const struct rd_store_ops *ops;
	unsigned int caps;
	bool is_once;		/* it is read in order, and nothing of it twice */
	u64 bytes;
	int fd;			/* for what only a file or a device has; else -1 */
};

/* What is NULL here, no store like it has. */
struct rd_store_ops {
	/* Transfer all of one range, in aligned memory, and wait. */
	int (*read)(struct rd_store *store, void *buf, size_t len, u64 offset);
	int (*write)(struct rd_store *store, const void *buf, size_t len, u64 offset,
		     unsigned int how);
	/*
	 * Begin what rd_ring_submit() was given; rd_ring_end() takes the result, then or later,
	 * from any thread. NULL: the ring itself transfers, by @fd.
	 */
	void (*submit)(struct rd_store *store, struct rd_op *op);
	/* Make all writes stable that have ended. */
	int (*sync)(struct rd_store *store);
	/* Give back ranges, which are in order. */
	int (*punch)(struct rd_store *store, const struct rd_range *ranges, unsigned int nr);
	/*
	 * As lseek() with SEEK_DATA or SEEK_HOLE. -1, and errno ENXIO: there is no more data; other
	 * values: that is not known.
	 */
	off_t (*seek)(struct rd_store *store, off_t offset, int whence);
	/* Become @bytes long, stable. */
	int (*resize)(struct rd_store *store, u64 bytes);
	/* How many bytes have room yet; U64_MAX: not known. */
	u64 (*room)(const struct rd_store *store);
	/* Before the first submit(), where a store waits in @ring itself; and after the last. */
	int (*begin)(struct rd_store *store, struct rd_ring *ring);
	void (*end)(struct rd_store *store);
	void (*close)(struct rd_store *store);
};

static inline bool rd_store_can(const struct rd_store *store, unsigned int cap)
{
	return store->caps & cap;
}

static inline off_t rd_store_seek(struct rd_store *store, off_t offset, int whence)
{
	return store->ops->seek(store, offset, whence);
}

/* Let @store use @ring, if it has to know; and not any more, before the ring is freed. */
static inline int rd_store_begin(struct rd_store *store, struct rd_ring *ring)
{
	return store->ops->begin ? store->ops->begin(store, ring) : 0;
}

static inline void rd_store_end(struct rd_store *store)
{
	if (store->ops->end)
		store->ops->end(store);
}

/*
 * Open a file or block device with the flags of open(2). After an error there is no store;
 * -ENOTBLK: it is neither.
 */
int rd_store_open(struct rd_store **ret, const char *path, int flags);
/* The same of @fd, which closing the store closes; an error does not. */
int rd_store_use(struct rd_store **ret, int fd);
#ifdef RD_TEST
/* Use files as devices, of which each discard is heard, from now on. */
extern bool rd_store_as_device;
#endif
/* NULL is no store, and nothing to do. */
void rd_store_close(struct rd_store *store);

#endif
