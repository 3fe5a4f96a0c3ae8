/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mount the file system that a mapped version holds (mapped.h), as it is or in a
 * partition of it. A device that is read-only takes no replay of a journal, and its
 * original may be mounted beside it: the options for that are added.
 */
#ifndef RD_MOUNT_H
#define RD_MOUNT_H

#include <stdbool.h>

#include "host/sys/dm.h"
#include "host/sys/probe.h"

struct rd_mount_options {
	const char *dir;
	unsigned int partition;		/* 0: there are none */
	bool writable;			/* as the device is */
};

/* The mapped version @name. On failure nothing is left but that; what failed is said. */
int rd_mount(const char *name, const struct rd_mount_options *options,
	     char ret_type[RD_FS_TYPE_MAX]);

/* Which mapped version is mounted at @dir. -ENODEV, and that is said. */
int rd_mounted_version(const char *dir, char ret[RD_DM_NAME_MAX]);

/* -EBUSY, and that is said. */
int rd_unmount(const char *dir);

#endif
