/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A version as a block device:
 *
 *	NAME			revdedup, read-only: its table lies in a file without a
 *				name, which vanishes with the device
 *
 * or writable, with writes discarded when it is removed:
 *
 *	NAME			snapshot of
 *	  +-- NAME:ro		the same
 *
 * Either may have a partition on it, see mount.h:
 *
 *	NAME:part		linear, over NAME
 */
#ifndef RD_MAPPED_H
#define RD_MAPPED_H

#include <stdbool.h>

#include "host/sys/dm.h"
#include "pool/engine/space/lease.h"

/* Is @uuid that of a mapped version, and of one on this host? */
bool rd_is_mapped(const char *uuid);
bool rd_is_mapped_here(const char *uuid);

struct rd_mapped_options {
	const char *name;
	bool writable;
};

/*
 * Map @version. The pool is open for writing. A crash may leave a lease without a device,
 * which the next command that frees space drops, but no device without a lease.
 */
int rd_mapped_make(struct rd_pool *pool, const struct rd_version *version,
		   const struct rd_mapped_options *options);

/* Give it a new table, of the places that @version has in the pool now. */
int rd_mapped_refresh(struct rd_pool *pool, const struct rd_version *version, const char *name);

/*
 * Remove it and its parts. -ENODEV: there is no such device of ours; -EBUSY: it is
 * mounted, or a program has it open. Says so, and where it is mounted.
 */
int rd_mapped_remove(struct rd_pool *pool, const char *name);

/* "NAME:part" */
void rd_mapped_part(char ret[RD_DM_NAME_MAX], const char *name);

/* Remove the partition of a mount, if there is one. -EBUSY: it is open; says so. */
int rd_mapped_remove_part(const char *name);

#endif
