/* SPDX-License-Identifier: GPL-2.0 */
/*
 * End leases (see lease.h), and delete the versions that these alone have held. The caller
 * has neither the lock of a volume nor that of rd_lease_shut().
 */
#ifndef RD_LEASE_DROP_H
#define RD_LEASE_DROP_H

#include "pool/pool.h"

/* Device and version of lease @id have nothing to do with each other any more. */
int rd_lease_drop(struct rd_pool *pool, i64 id);

/* Device @device does not read the data area any more. */
int rd_lease_drop_device(struct rd_pool *pool, const char *device);

#endif
