/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is mounted on this host, by libmount. It reads what the kernel says of it, and
 * neither needs nor writes /run/mount.
 */
#ifndef RD_MOUNTS_H
#define RD_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct rd_mount {
	dev_t number;		/* st_dev of what is in it */
	dev_t device;		/* the block device that it is in */
	bool is_read_only;	/* all of the file system, and not only there */
	char where[PATH_MAX];
};

struct rd_mounts {
	struct libmnt_table *table;
	struct libmnt_iter *at;
};

/* 0 or -errno, without a word; after 0 rd_mounts_close() frees it. */
int rd_mounts_open(struct rd_mounts *mounts);
/* In the order in which they were mounted. False: there are no more. */
bool rd_mounts_next(struct rd_mounts *mounts, struct rd_mount *ret);
void rd_mounts_close(struct rd_mounts *mounts);

/* The block device whose file system is mounted at the directory @dir. -ENODEV. */
int rd_mounted_at(const char *dir, dev_t *ret);

/*
 * The block device that the file system of @path was mounted from, also where @path has
 * another st_dev, as on a btrfs. -ENODEV: none is known.
 */
int rd_mount_source(const char *path, dev_t *ret);

#endif
