/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A version as a block device without our module: the kernel's nbd reads an export
 * (export.h) of this host.
 *
 *	/dev/nbdN	the kernel knows whose it is: "revdedup:NAME"
 *	NAME:map	its export, with the socket that it is connected to
 *
 * What a command that is killed leaves:
 *
 *	making:		an export without a device, or all of it
 *	removing:	an export without a device
 *
 * An export without a device is ended by the next command that takes the lock of all this:
 * whoever has it finds no other command half-way. If the export dies, the device stays until
 * it is removed, and gives EIO. After a boot neither is there.
 *
 * A device that does not get an answer for RD_NBD_TIMEOUT seconds gives EIO from then on.
 */
#ifndef RD_MAPPED_NBD_H
#define RD_MAPPED_NBD_H

#include <limits.h>
#include <stdbool.h>

#include "export.h"
#include "host/sys/dm.h"
#include "host/sys/nbd.h"

struct rd_mapped_nbd {
	char name[RD_DM_NAME_MAX];
	struct rd_nbd nbd;
	bool is_alive;			/* its export runs */
	struct rd_export export;	/* if so */
};

struct rd_mapped_nbd_options {
	const char *name;		/* of the device */
	const char *version;		/* VOL@N */
	const char *pool;
	const char *from, *rsh;		/* instead: see struct rd_export_options */
	bool writable;			/* writes are discarded when it is removed */
	volatile int *stop;
};

/* Make it. -EEXIST: there is one of that name. The caller has the pool not open. */
int rd_mapped_nbd_make(const struct rd_mapped_nbd_options *options, struct rd_mapped_nbd *ret);

/* Find one by its NAME, or by "/dev/nbdN". -ENODEV, without a word: there is none. */
int rd_mapped_nbd_find(const char *name, struct rd_mapped_nbd *ret);

/* Find the NAME of @device. False: it is none of ours. */
bool rd_mapped_nbd_name(dev_t device, char ret[RD_DM_NAME_MAX]);

/*
 * Remove one by its NAME, or by "/dev/nbdN", and end its export. -EBUSY: it is in use; says
 * so. -ENODEV, without a word: there is none. @ret->export.pool: which pool it read, or "".
 */
int rd_mapped_nbd_remove(const char *name, struct rd_mapped_nbd *ret);

/*
 * Append a struct rd_mapped_nbd for each, after ending exports that a killed command has left
 * without a device, unless another command is making or removing one now.
 */
int rd_mapped_nbds(struct rd_buffer *ret);

#endif
