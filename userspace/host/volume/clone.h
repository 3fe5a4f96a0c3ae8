/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A volume of its own that begins as a version, at once: a new logical volume that has
 * nothing of it, and a table that points into the pool for all. What is written goes
 * home, and the rest is copied there behind.
 *
 *	1. /etc/revdedup/volumes/revdedup-vg-new, unfinished
 *	2. vg/new, with a tag that only this clone has, and vg/new_rdmeta
 *	3. the lease: what the version has is not given back
 *	4. the table, on the metadata device, with the order to bring all of it home
 *	5. the devices, as 'attach' makes them
 *	6. the file: no longer unfinished
 *
 * A crash before 6 leaves a file that says so, and whoever meets it takes away all
 * that there is of the clone: nobody was told of it yet. After 6 it is a volume like
 * any other: 'attach' makes its devices after a boot, and the target goes on copying.
 */
#ifndef RD_CLONE_H
#define RD_CLONE_H

#include "pool/engine/lease.h"
#include "attachment.h"

struct rd_clone_options {
	const char *volume;	/* "vg/new" */
	const char *thin_pool;	/* of that group; NULL: a plain volume */
	bool stay;		/* do not copy it home */
};

/*
 * -EEXIST, -ENODEV, -ENOSPC: something is there already, or lacks, or there is no room;
 * that is said, and nothing was made. @at: what is attached then, locked.
 */
int rd_clone(struct rd_pool *pool, const struct rd_version *version,
	     const struct rd_clone_options *options, unsigned int wait_ms,
	     struct rd_attachment *at);

/* Take away what there is of one that is unfinished, and locked. */
int rd_clone_undo(struct rd_pool *pool, const struct rd_attachment *at);

#endif
