/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leases: devices that read the data area by themselves. The table of a device-mapper device
 * that was made of a version refers to places of the pool, and still does when the catalog has
 * other places for the same blocks. A row of the table lease records the device and the
 * version. As long as it is there
 *
 * - the engine keeps the version (HELD, if the user has deleted it), so that every block
 *   which the device may refer to has a place
 * - each device is asked to leave a place before that place is given back
 *
 * A device may have leases of several versions while one table replaces another. Then it is
 * asked once for each, and only the maker of the tables knows which of its blocks belong to
 * which version.
 *
 * To load a table: rd_lease_shut(), rd_lease_add(), read the version's map, load,
 * rd_lock_drop(), and rd_free_queue(), for commands that could not free meanwhile. A lease
 * without a device does no harm: when the device is asked, the lease goes. rd_lease_drop()
 * ends one.
 *
 * The caller sets pool->lease_ops when the pool is open; it stays until the pool is closed. A
 * pool with leases and without lease_ops gives nothing back.
 */
#ifndef RD_LEASE_H
#define RD_LEASE_H

#include "pool/catalog/frames.h"
#include "pool/catalog/leases.h"
#include "pool/pool.h"
#include "doomed.h"

/* The agents of the devices, which are the tenants of the pool. */
struct rd_lease_ops {
	/*
	 * Make the device of @lease leave the places that are @doomed: the blocks that it has
	 * there are where rd_resolve() says for its version now, which the catalog and
	 * its copy will still say after a crash.
	 *
	 * 0: the device refers to none of them, and will not again, but for those in frames
	 * that it had rd_doomed_keep() keep. 1: there is no such device any more. Negative:
	 * that is not known, and none of them is given back now.
	 */
	int (*vacate)(struct rd_lease_ops *ops, struct rd_pool *pool,
		      const struct rd_lease *lease, struct rd_doomed *doomed);
	/*
	 * Can the device not be moved off any place at the moment, as it is down or being
	 * copied? Then nothing is compacted: what it names would be kept twice. NULL: never.
	 */
	bool (*is_fixed)(struct rd_lease_ops *ops, const struct rd_lease *lease);
};

/* Take a lock that keeps all other commands from freeing anything. */
int rd_lease_shut(struct rd_pool *pool, struct rd_lock *ret);

/*
 * Note, stable, that @device will read @version. -ENOENT: the version does not exist any
 * more.
 */
int rd_lease_add(struct rd_pool *pool, const struct rd_version *version, const char *device,
		 i64 *ret_id);

/*
 * Note, stable, that @device will read what @reader reads, from whose table its own is made.
 * The version may be HELD. The caller has rd_lease_shut(). -ENOENT: @reader has no lease.
 */
int rd_lease_share(struct rd_pool *pool, const char *reader, const char *device, i64 *ret_id);

/* Delete only the row: rd_finish_volumes() deletes the version that it held. */
int rd_lease_forget(struct rd_pool *pool, i64 id);

#endif
