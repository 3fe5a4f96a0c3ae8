/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Block devices of the kernel's driver nbd, by netlink. nbd-client does the same, but few
 * hosts have it, and it cannot give a device an owner: a text in /sys/block/nbd0/backend that
 * the kernel keeps for as long as the device is connected. By that a device is found again,
 * and nothing on a disk can disagree with it.
 *
 * All of these say what went wrong, unless it is said otherwise.
 */
#ifndef RD_NBD_H
#define RD_NBD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buffer.h"

#define RD_NBD_OWNER	160
#define RD_NBD_PATH	32

struct rd_nbd {
	unsigned int index;
	char path[RD_NBD_PATH];		/* "/dev/nbd0" */
	char owner[RD_NBD_OWNER];
};

/* Does the kernel have the driver, also after loading its module? Without a word. */
bool rd_nbd_exists(void);

/*
 * Connect a device to the export called @name of the server at a Unix socket. If the server
 * goes, the device gives EIO; if it only does not answer, after RD_NBD_TIMEOUT seconds, and
 * from then on.
 *
 * Below the 120 s after which the kernel complains of a task that hangs; far above what a read
 * of a busy disk takes.
 */
#define RD_NBD_TIMEOUT	60

int rd_nbd_connect(const char *socket, const char *name, const char *owner, struct rd_nbd *ret);

/* Disconnect it, whoever has it open: reads become EIO. Waits until it is gone. */
int rd_nbd_disconnect(const struct rd_nbd *nbd);

/* Append a struct rd_nbd for each that has an owner. */
int rd_nbd_list(struct rd_buffer *ret);

/* Copy the owner of @device; "" where there is none. */
void rd_nbd_owner(dev_t device, char ret[RD_NBD_OWNER]);

#endif
