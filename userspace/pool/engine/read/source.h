/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The image, block device or served disk that a snapshot reads: where it has holes, and whether
 * it is written meanwhile. Times and counters of the file system or the kernel tell; a write that
 * they do not show yet goes unnoticed.
 */
#ifndef RD_SOURCE_H
#define RD_SOURCE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "pool/data/ring.h"
#include "pool/data/store.h"

/* Values that a write changes. */
struct rd_source_stamp {
	struct stat st;
	u64 sectors;		/* of a device: how many it has written and discarded */
};

struct rd_source {
	const char *path;
	struct rd_store *store;	/* NULL: not open */
	bool is_served;		/* by a server, and not ours to close */
	bool is_frozen;		/* nothing can write to it */
	u64 size;
	u64 nr_segs;
	struct rd_source_stamp before;

	/* What was learned of a file's holes last. */
	u64 data_end;		/* no data between here ... */
	u64 data_start;		/* ... and there */
	u64 run, run_end;	/* and no hole between these */
};

/* Open an image; a device first writes its cache. */
int rd_source_open(struct rd_source *source, const char *path, bool is_frozen);
/* The same of a disk that a server has. Reads of it come out of @ring. */
int rd_source_serve(struct rd_source *source, struct rd_store *store, struct rd_ring *ring);
/* Before the ring is freed, for a served disk. */
void rd_source_close(struct rd_source *source);

/* Submit a read, whose file is filled in. Its done() comes out of rd_ring_wait(). */
void rd_source_read(struct rd_source *source, struct rd_ring *ring, struct rd_op *op);
/* The same, and wait. */
int rd_source_read_now(struct rd_source *source, struct rd_ring *ring, void *data, size_t len,
		       u64 offset);

/* Is all of the segment a hole? */
bool rd_source_is_hole(struct rd_source *source, u64 segment);

/*
 * Find the part of @segment between the hole at its start and the one at its end: a disk
 * may have little data in each segment. rd_source_is_hole() has just said that it is not a
 * hole.
 */
void rd_source_trim(struct rd_source *source, u64 segment, u64 *ret_from, u64 *ret_to);

/* Has the image been written since it was opened? -EIO: it was cut off. */
int rd_source_has_changed(struct rd_source *source, bool *ret);

#endif
