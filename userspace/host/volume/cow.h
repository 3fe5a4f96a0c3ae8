/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a dm-snapshot keeps what is overwritten while it is copied: a logical volume
 * beside the one that is snapshot, where its group has room, else a file in the pool,
 * of which nothing is left when the snapshot goes.
 */
#ifndef RD_COW_H
#define RD_COW_H

#include "host/sys/dm.h"
#include "host/sys/lvm.h"

struct rd_cow {
	char path[RD_LV_PATH_MAX];
	int fd;			/* keeps a loop device; or -1 */
};

#define RD_COW_NONE	((struct rd_cow){ .fd = -1 })

/*
 * @base: what is to be snapshot, NULL: a file will do; @dir: the pool. -ENOSPC, and
 * that is said, before anything was made.
 */
int rd_cow_open(struct rd_cow *cow, const char *base, const char *dir, u64 bytes);
/* A table has it now. */
void rd_cow_keep(struct rd_cow *cow);
/* No table has it any more: also of a command that died. */
int rd_cow_remove(const char *base);

#endif
