/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File systems that are mounted on this host and lie on a volume indirectly: on a
 * partition of it, or on a logical volume in it. Device-mapper freezes a file system
 * that is mounted from the volume itself when it suspends the volume, but does not know
 * of these.
 *
 * Not found are btrfs, whose files have another device number than its mount, and mounts
 * of other namespaces: a snapshot has them as after a power cut.
 */
#ifndef RD_FSFREEZE_H
#define RD_FSFREEZE_H

#include <limits.h>
#include <sys/types.h>

#include "base/buffer.h"

struct rd_fs {
	dev_t dev;
	dev_t device;		/* that it is mounted from */
	int fd;
	char where[PATH_MAX];
};

/*
 * Append each that lies on one of @nr devices, open, in the order in which to freeze them: a file
 * system that may lie on another one comes first. Of several devices those that are mounted from
 * one of them itself are appended as well: when one is suspended, its file system may still have
 * to write to another one. Says what went wrong; rd_fs_close() frees what was appended.
 */
int rd_fs_find(const dev_t *devices, unsigned int nr, struct rd_buffer *ret);
void rd_fs_close(struct rd_buffer *fss);

/*
 * Make writes to it wait, and have it write nothing more. *@is_frozen: it must be
 * thawed, which is not so where it was frozen already, or cannot be frozen.
 */
int rd_fs_freeze(const struct rd_fs *fs, bool *is_frozen);
int rd_fs_thaw(const struct rd_fs *fs);

#endif
