/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make a new volume from a version, at once: an empty logical volume, and a table that
 * points into the pool for all blocks. Writes go to the logical volume, and the rest is
 * copied there in the background.
 *
 *	1. /etc/revdedup/volumes/revdedup-vg-new, unfinished
 *	2. vg/new, with a tag that only this clone has, and vg/new_rdmeta
 *	3. the lease: blocks of the version are not freed
 *	4. the table, on the metadata device, with the order to copy all blocks home
 *	5. the devices, as 'attach' makes them
 *	6. the file: no longer unfinished
 *
 * A crash before 6 leaves a file that says so, and the next command that meets it removes
 * the clone, which is not in use yet. After 6 it is a volume like any other:
 * rd_volume_up() makes its devices after a boot, and the target goes on copying.
 */
#ifndef RD_CLONE_H
#define RD_CLONE_H

#include "host/volume/device/attachment.h"

struct rd_clone_options {
	const char *volume;	/* "vg/new" */
	const char *thin_pool;	/* of that group; NULL: a plain volume */
	bool stay;		/* do not copy it home */
};

/*
 * -EEXIST, -ENODEV, -ENOSPC: something exists already, is missing, or there is no room;
 * says so, and nothing was made. @at: the new volume, locked.
 */
int rd_clone(struct rd_pool *pool, const struct rd_version *version,
	     const struct rd_clone_options *options, unsigned int wait_ms,
	     struct rd_attachment *at);

/* Remove what there is of an unfinished clone, which is locked. */
int rd_clone_undo(struct rd_pool *pool, struct rd_attachment *at);

#endif
