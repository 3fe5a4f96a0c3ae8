/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which block device or file lies on which, however deep: partitions, device-mapper,
 * loop devices, the devices of a btrfs.
 */
#ifndef RD_LAYERS_H
#define RD_LAYERS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Does what is at @path lie on the block device @device? */
bool rd_lies_on(const char *path, dev_t device);
/* The same of @what, a block device or a file. */
bool rd_lies_on_that(const char *path, const struct stat *what);
bool rd_device_lies_on(dev_t top, dev_t device);

/* Is there a disk, or a file system without one, on which both lie? */
bool rd_share_a_disk(const char *a, const char *b);

/*
 * Is a file system mounted that lies on it, and, with @writable, that can be written?
 * @where: of PATH_MAX bytes.
 */
bool rd_is_mounted(dev_t device, bool writable, char *where);
bool rd_path_is_mounted(const char *path, char *where);

#endif
