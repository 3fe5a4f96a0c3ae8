/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices as such, and who has them or a file. All of these say what went wrong. */
#ifndef RD_BLOCK_H
#define RD_BLOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/units.h"
#include "dm.h"

/* In sectors of 512 bytes. */
int rd_block_sectors(const char *path, u64 *ret_sectors);

/*
 * -EBUSY, and it is said by whom as far as that can be known: somebody has it open
 * for himself (a mount, another device, a lock).
 */
int rd_block_is_free(const char *path);

/*
 * Has a program this device open, besides devices of ours that lie on it? Who looks at
 * it for a moment is not meant. Not all kinds of devices tell: of others it is known if
 * they are locked.
 */
bool rd_block_is_open(const char *path);

/* Has another program a lock on this file? (QEMU has some on each image.) */
bool rd_file_is_locked(const char *path);

/*
 * What device-mapper says of this device, "name" or "uuid": "" where it is none of its
 * own.
 */
void rd_block_dm(dev_t device, const char *what, char ret[RD_DM_NAME_MAX]);

/* "253:4"; returns @text */
const char *rd_block_number(char text[32], const char *path);

#endif
