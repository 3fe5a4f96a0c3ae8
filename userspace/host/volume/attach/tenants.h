/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Move devices that read the pool off blocks that are about to be freed: blocks of a
 * volume are remapped to where its version has them now; a mapped version, whose table is
 * read-only, gets a new one. The view of a frozen volume keeps its blocks until it is copied.
 */
#ifndef RD_TENANTS_H
#define RD_TENANTS_H

#include "host/volume/device/attachment.h"
#include "pool/engine/space/lease.h"

extern struct rd_lease_ops rd_host_lease_ops;

/* Does the table of the device @name have any block of the pool? Reads all of it. */
int rd_device_names_pool(const char *name, bool *ret);

/*
 * Tell @pool, the one that the device of @at could read, that the device is gone and
 * cannot be asked any more. NULL: the pool cannot be opened, and goes on keeping what
 * the device could read; a warning says so.
 */
int rd_tell_gone(struct rd_pool *pool, const struct rd_attachment *at);

#endif
