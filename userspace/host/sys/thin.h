/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Thin volumes, by the tables and the status of device-mapper: what the kernel does, and not
 * what a configuration says. All of these say what went wrong.
 */
#ifndef RD_THIN_H
#define RD_THIN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"

struct rd_thin {
	u64 mapped;		/* bytes of the volume that have room in the pool */
	u64 chunk;		/* the unit in which the pool gives and takes room */
	bool has_origin;	/* what is not mapped is read from another volume */
	bool zeroes;		/* a new chunk reads as zeros where it was not written */
	bool discards;		/* a discard gives room back */
	u64 pool_bytes, pool_used;	/* of the pool's data */
	dev_t pool_data;	/* the device that has them */
};

/* -ENODEV, without a word: the block device @path is no thin volume. */
int rd_thin_find(const char *path, struct rd_thin *ret);

#endif
