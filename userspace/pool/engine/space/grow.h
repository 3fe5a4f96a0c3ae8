/* SPDX-License-Identifier: GPL-2.0 */
#ifndef RD_GROW_H
#define RD_GROW_H

#include "pool/pool.h"

struct rd_grow_report {
	u64 frames_before, frames;	/* equal: there was nothing to do */
};

/*
 * Give the pool, which was opened with RD_POOL_ALONE, more frames. A data area on a device
 * gets those that fit into the device; @size must be 0. A file becomes @size bytes long, or
 * where that is 0, as long as its file system is large. A pool does not shrink: -EINVAL.
 * After a crash it has its old number of frames or the new one.
 */
int rd_grow(struct rd_pool *pool, u64 size, struct rd_grow_report *report);

#endif
