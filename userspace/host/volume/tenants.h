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
 * UUIDs of mapped versions: with this and the host, as they are gone when that
 * host's device-mapper does not know them.
 */
#define RD_MAPPED_UUID	"REVDEDUP-MAP-"
/* Makes a new one, and returns 0 or -errno. */
int rd_mapped_uuid(char ret[RD_DEVICE_MAX]);

/*
 * The device of @at is gone, and nobody can ask it any more: tell @pool, which is the one
 * that it could read. NULL: that cannot be opened; a warning, as it goes on keeping for it.
 */
int rd_tell_gone(struct rd_pool *pool, const struct rd_attachment *at);

#endif
