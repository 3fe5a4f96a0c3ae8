/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Store for data that is overwritten while a dm-snapshot is copied: a logical volume
 * beside the original where its group has room, else a file in the pool without a name,
 * which vanishes with the snapshot.
 */
#ifndef RD_COW_H
#define RD_COW_H

#include "host/sys/lvm.h"

struct rd_cow {
	char path[RD_LV_PATH_MAX];
	int fd;			/* keeps a loop device; or -1 */
};

#define RD_COW_NONE	((struct rd_cow){ .fd = -1 })

/* Make one. @base: the original. @dir: the pool. -ENOSPC, and says so, before anything was made. */
int rd_cow_open(struct rd_cow *cow, const char *base, const char *dir, u64 bytes);
/*
 * The same for the metadata of @base, of which @bytes can change: a file whose room is taken
 * at once, or a logical volume where the pool has no room.
 */
int rd_cow_open_meta(struct rd_cow *cow, const char *base, const char *dir, u64 bytes);
/* Close it: a table has it now. */
void rd_cow_keep(struct rd_cow *cow);
/* Remove it once no table has it, also that of an interrupted command. */
int rd_cow_remove(const char *base);

#endif
