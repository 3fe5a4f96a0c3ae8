/* SPDX-License-Identifier: GPL-2.0 */
/* What is mounted on this host. */
#ifndef RD_MOUNTS_H
#define RD_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct rd_mount {
	dev_t number;		/* st_dev of what is in it */
	dev_t device;		/* the block device that it is in */
	bool is_read_only;	/* all of the file system, and not only there */
	char where[PATH_MAX];
};

/* NULL: that cannot be had. To be closed with fclose(). */
FILE *rd_mounts_open(void);
/* In the order in which they were mounted. False: there are no more. */
bool rd_mounts_next(FILE *mounts, struct rd_mount *ret);

/*
 * Is a file system mounted that lies on it, and, with @writable, that can be written?
 * @where: of PATH_MAX bytes.
 */
bool rd_is_mounted(dev_t device, bool writable, char *where);
bool rd_path_is_mounted(const char *path, char *where);

/* The block device whose file system is mounted at the directory @dir. -ENODEV. */
int rd_mounted_at(const char *dir, dev_t *ret);

#endif
