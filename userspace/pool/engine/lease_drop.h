/* SPDX-License-Identifier: GPL-2.0 */
/*
 * End leases (see lease.h) on request, and delete the versions that these alone have held.
 * (free.c forgets the lease of a device that is gone, which tenants.c finds out.) The caller
 * has neither the lock of a volume nor that of rd_lease_shut().
 */
#ifndef RD_LEASE_DROP_H
#define RD_LEASE_DROP_H

#include "pool/pool.h"

/* End lease @id: its device does not read its version any more. */
int rd_lease_drop(struct rd_pool *pool, i64 id);

/* End all leases of @device: it does not read the data area any more. */
int rd_lease_drop_device(struct rd_pool *pool, const char *device);

#endif
