/* SPDX-License-Identifier: GPL-2.0 */
/* The data area of a pool as the block device that a table can name. */
#ifndef RD_POOLBLOCKS_H
#define RD_POOLBLOCKS_H

#include <limits.h>
#include <stdbool.h>

#include "pool/data/area.h"

struct rd_poolblocks {
	char path[PATH_MAX];
	int fd;			/* keeps the device until a table has it; or -1 */
	bool is_rbd;
};

#define RD_POOLBLOCKS_NONE	((struct rd_poolblocks){ .fd = -1 })

/* Can the kernel read the pool in the directory @pool? Else -EOPNOTSUPP, after a message. */
int rd_poolblocks_require(const char *pool);

/*
 * Open the data area of the pool in the directory @pool. A read-only table needs a
 * read-only device. Its logical blocks have 512 bytes, whatever the disk has. That of a shard is
 * read-only anyway: krbd.h. Who takes it out of a table calls rd_krbd_tidy().
 */
int rd_poolblocks_open(struct rd_poolblocks *blocks, const char *pool, bool read_only);
void rd_poolblocks_close(struct rd_poolblocks *blocks);

/*
 * Is the device with this number, as a table names it, the data area @area? -EXDEV: it is
 * another one, perhaps that of a copy of the pool.
 */
int rd_poolblocks_compare(const struct rd_area *area, const char *number);

/*
 * Read the UUID of a pool that is not open from its superblock: the directory may lead
 * to another device than before. Says what went wrong.
 */
int rd_poolblocks_uuid(const char *pool, u8 uuid[16]);

#endif
