/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reach the devices that read the pool, so that places can be given back: what a
 * volume has at one of these is remapped to where its version has it now; a mapped
 * version, whose table nobody can write to, gets a new one.
 */
#ifndef RD_TENANTS_H
#define RD_TENANTS_H

#include "pool/engine/lease.h"
#include "attachment.h"

extern struct rd_lease_ops rd_host_lease_ops;

/* Does the table of the device @name have any block of the pool? By what is in it. */
int rd_device_names_pool(const char *name, bool *ret);

/*
 * Tell @pool, the one that the device of @at could read, that the device is gone and
 * cannot be asked any more. NULL: the pool cannot be opened, and goes on keeping what
 * the device could read; a warning says so.
 */
int rd_tell_gone(struct rd_pool *pool, const struct rd_attachment *at);

#endif
