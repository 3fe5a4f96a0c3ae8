/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A version as a block device:
 *
 *	NAME			revdedup, read-only: its table is an image in a file that
 *				is gone with it
 *
 * or, to be written to, with all that is written thrown away in the end:
 *
 *	NAME			snapshot of
 *	  +-- NAME:ro		the same
 *
 * Of either there may be one partition more, see mount.h:
 *
 *	NAME:part		linear, over NAME
 */
#ifndef RD_MAPPED_H
#define RD_MAPPED_H

#include <stdbool.h>

#include "host/sys/dm.h"
#include "pool/engine/lease.h"

/* Is @uuid that of a mapped version, and of one on this host? */
bool rd_is_mapped(const char *uuid);
bool rd_is_mapped_here(const char *uuid);

struct rd_mapped_options {
	const char *name;
	bool writable;
};

/*
 * The pool is open for writing. What is mapped when the command dies has its lease,
 * and what has a lease and is not mapped loses it with the next who frees.
 */
int rd_mapped_make(struct rd_pool *pool, const struct rd_version *version,
		   const struct rd_mapped_options *options);

/* Have it read all from where it is in the pool now. */
int rd_mapped_refresh(struct rd_pool *pool, const struct rd_version *version, const char *name);

/*
 * And its parts. -ENODEV, and that is said: there is no such device of ours; -EBUSY:
 * it is mounted, and it is said where, or somebody has it open.
 */
int rd_mapped_remove(struct rd_pool *pool, const char *name);

/* "NAME:part" */
void rd_mapped_part(char ret[RD_DM_NAME_MAX], const char *name);

#endif
