/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices, and whether a program has them open. All of these say what went wrong. */
#ifndef RD_BLOCK_H
#define RD_BLOCK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"
#include "dm.h"

/* In sectors of 512 bytes. */
int rd_block_sectors(const char *path, u64 *ret_sectors);

/*
 * -EBUSY: a mount, another device or a program has it open exclusively. The message
 * names that as far as it is known.
 */
int rd_block_is_free(const char *path);

/*
 * Does a program have this device open, apart from devices of ours that lie on it? A
 * program that looks at it for a moment, as udev does, does not count. Device-mapper
 * counts who opens a device; of other devices it is only known whether they are locked.
 */
bool rd_block_is_open(const char *path);

/* Does another device lie on it? */
bool rd_block_has_holders(const char *path);

/* Does another program hold a lock on this file? (QEMU does, on each image.) */
bool rd_file_is_locked(const char *path);

/* Read "name" or "uuid" of a device-mapper device; "" where @device is none. */
void rd_block_dm(dev_t device, const char *what, char ret[RD_DM_NAME_MAX]);

/* Find the path of a block device by its number, "253:4". */
int rd_block_path(char path[PATH_MAX], const char *number);
/* The same without a word, of @size bytes. */
int rd_block_node(char *path, size_t size, const char *number);

/* "253:4"; returns @text */
const char *rd_block_number(char text[32], const char *path);

#endif
