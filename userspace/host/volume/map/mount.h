/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mount the file system of a mapped version (mapped.h), on the whole device or in a
 * partition. Options are added so that a read-only device needs no replay of a journal,
 * and that the original may be mounted at the same time.
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

/* Mount the mapped version @name. On failure only that is left; says what failed. */
int rd_mount(const char *name, const struct rd_mount_options *options,
	     char ret_type[RD_FS_TYPE_MAX]);

/* Find which mapped version is mounted at @dir. -ENODEV; says so. */
int rd_mounted_version(const char *dir, char ret[RD_DM_NAME_MAX]);

/* -EBUSY; says so. */
int rd_unmount(const char *dir);

#endif
