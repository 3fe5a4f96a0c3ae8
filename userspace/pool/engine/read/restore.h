/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read a version, check every block of it, and write it to a file, a device, a disk that a server
 * has, or a stream.
 */
#ifndef RD_RESTORE_H
#define RD_RESTORE_H

#include "base/buffer.h"
#include "pool/catalog/versions.h"
#include "pool/pool.h"

struct rd_store;

enum rd_restore_mode {
	RD_RESTORE_NEW,		/* @fd is all zeros: write all other blocks */
	RD_RESTORE_DELTA,	/* write what differs */
	RD_RESTORE_FULL,	/* write everything, zeros too */
	RD_RESTORE_STREAM,	/* write everything in order; @fd may be a pipe */
	RD_RESTORE_NONE,	/* read and check only */
};

struct rd_restore_options {
	struct rd_version version;
	enum rd_restore_mode mode;
	int fd;
	bool is_device;		/* @fd is */
	struct rd_store *store;	/* instead of @fd, which is as a device; or NULL */
};

/* What could not be read. */
struct rd_bad_range {
	u64 offset;
	u64 len;
};

struct rd_restore_report {
	u64 bytes_read;		/* from the pool */
	u64 bytes_written;
	u64 bytes_same;		/* that the target had */
	u64 blocks_copied;	/* that are damaged, and were taken from copies on another disk */
	struct rd_buffer bad;	/* struct rd_bad_range each, in order */
};

/*
 * Restore a version, of which the caller has a shared lock. Returns 0 even if blocks are
 * bad: see the report, whose list the caller frees. -EUCLEAN, after a message: the content
 * that was read is not that of the version. A caller that overwrites something calls
 * rd_version_prove() first.
 */
int rd_restore(struct rd_pool *pool, const struct rd_restore_options *options,
	       struct rd_restore_report *report);

#endif
