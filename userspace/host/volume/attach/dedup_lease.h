/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leases of attached volumes that read the pool: see lease.h. When the device is to
 * leave a place, the lease's version says where else the pool has the same block: what the
 * version has at the same offset. So every block of the device that lies in the pool has the
 * content that the version has there.
 *
 * After a snapshot that also holds for the new version: a block that was not written since is
 * still in the pool, and the new version has it, too; one that was written is home. The lease
 * moves on to the new version, or the old one would be kept for as long as the volume lives. The
 * new lease is stable before the old one goes: at each moment one of them is true, and in
 * between both are.
 */
#ifndef RD_DEDUP_LEASE_H
#define RD_DEDUP_LEASE_H

#include "host/volume/device/attachment.h"
#include "pool/catalog/versions.h"
#include "pool/engine/space/lease.h"
#include "pool/pool.h"

/* Append the leases of the device of @at: struct rd_lease. */
int rd_leases_of(struct rd_pool *pool, const struct rd_attachment *at, struct rd_buffer *ret);

/* Has the device a lease of @version? */
int rd_has_lease(struct rd_pool *pool, const struct rd_attachment *at,
		 const struct rd_version *version, bool *ret);

/*
 * Move the leases of the device, if it has any, to @version, the newest one: the snapshot that
 * made it is committed, and was of this volume as this device has it. The caller has neither the
 * lock of a volume nor that of rd_lease_shut().
 */
int rd_lease_move(struct rd_pool *pool, const struct rd_attachment *at,
		  const struct rd_version *version);

#endif
