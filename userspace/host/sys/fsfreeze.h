/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File systems that are mounted on this host and lie on a volume, but not directly: on
 * a partition of it, or a logical volume in it. One that is mounted from the volume
 * itself is frozen by device-mapper when it suspends the volume; of these it knows
 * nothing.
 *
 * Not found: btrfs, whose files say another device than its mount, and mounts of other
 * namespaces. What they hold is as after a power cut.
 */
#ifndef RD_FSFREEZE_H
#define RD_FSFREEZE_H

#include <limits.h>
#include <sys/types.h>

#include "base/buffer.h"

struct rd_fs {
	dev_t dev;
	int fd;
	char where[PATH_MAX];
};

/*
 * Append each, open: what may lie on another one before that. Says what went wrong;
 * rd_fs_close() takes what there is.
 */
int rd_fs_find(const char *device, struct rd_buffer *ret);
void rd_fs_close(struct rd_buffer *fss);

/*
 * Who writes to it waits from now on, and nothing more comes from it; *@is_frozen: it
 * has to be thawed. Not so where somebody else has frozen it, or it cannot be frozen.
 */
int rd_fs_freeze(const struct rd_fs *fs, bool *is_frozen);
int rd_fs_thaw(const struct rd_fs *fs);

#endif
