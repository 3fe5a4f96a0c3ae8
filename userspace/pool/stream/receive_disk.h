/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive one version as a disk, without a pool: each segment is fingerprinted before it is
 * written, and the pin is compared in the end.
 */
#ifndef RD_RECEIVE_DISK_H
#define RD_RECEIVE_DISK_H

#include "pool/pool.h"
#include "wire.h"

struct rd_receive_disk_target {
	int fd;
	bool is_device;		/* else it has room for whole blocks */
	bool is_empty;		/* all zeros */
};

struct rd_receive_disk_options {
	/* Open what a disk of @size bytes is to be written to. Messages were printed. */
	int (*open)(void *ctx, const char *volume, i64 number, u64 size,
		    struct rd_receive_disk_target *ret);
	void *ctx;
	const struct rd_progress *progress;
};

struct rd_receive_disk_report {
	i64 number;
	u64 size;
	bool is_consistent;
	u64 bytes_written;
};

/* -ENOENT, without a message: the sender has sent nothing. */
int rd_receive_disk(struct rd_wire *wire, const struct rd_receive_disk_options *options,
		    struct rd_receive_disk_report *report);

#endif
