/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leases: devices that read the data area by themselves. A device-mapper device
 * whose table was made of a version names places of the pool, and goes on naming
 * them when the catalog has other ones for the same blocks. A row of the table
 * lease says so, and then
 *
 * - the version stays, for the engine, until the last such device is gone (it is
 *   HELD if the user has deleted it meanwhile): all that the device may name can
 *   be found at some place
 * - before a place is given back each device is asked to leave it
 *
 * A device may have leases of several versions, while one table takes the place of
 * another; then it is asked for each of them, and only who made the tables knows
 * which of its blocks are of which version.
 *
 * To load a table: rd_lease_shut(), rd_lease_add(), read the version's map, load,
 * rd_lock_drop(), and rd_free_queue(), for those who could not free meanwhile. A
 * lease without a device does no harm where it is known that there is none: it goes when
 * the device is asked.
 *
 * pool->lease_ops is set by the caller when the pool is open, and stays until it is
 * closed. A pool with leases that has none gives nothing back.
 */
#ifndef RD_LEASE_H
#define RD_LEASE_H

#include "base/buffer.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/versions.h"
#include "pool/pool.h"

/* As device-mapper's UUIDs, with the zero. */
#define RD_DEVICE_MAX	129

struct rd_lease {
	i64 id;
	char device[RD_DEVICE_MAX];
	/* The version that the table was made of. */
	i64 volume;
	i64 number;
	i64 time;
};

/* Places that are about to be given back: blocks of 4 KiB of the data area. */
struct rd_doomed {
	u64 first, last;		/* all are between these, which are of them */
	unsigned int nr;
	struct rd_doomed_frame {		/* in order; something of each */
		u64 frame;
		struct rd_slots slots;
	} *frames;
};

bool rd_doomed_has(const struct rd_doomed *doomed, u64 block);

/* Who knows the devices. */
struct rd_lease_ops {
	/*
	 * Make the device of @lease leave the places that are @doomed: what it has
	 * there is where rd_resolve() says for its version now, which the catalog and
	 * its copy will still say after a crash.
	 *
	 * 0: it names none of them, and will not again. 1: there is no such device any
	 * more. Negative: that is not known, and nothing of it is given back now.
	 */
	int (*vacate)(struct rd_lease_ops *ops, struct rd_pool *pool,
		      const struct rd_lease *lease, const struct rd_doomed *doomed);
};

/* Nothing is given back while this lock is held. */
int rd_lease_shut(struct rd_pool *pool, struct rd_lock *ret);

/*
 * Device @device will read @version. Stable when it returns. -ENOENT: the version
 * does not exist any more.
 */
int rd_lease_add(struct rd_pool *pool, const struct rd_version *version, const char *device,
		 i64 *ret_id);

/*
 * The device does not read it any more; the second: nothing at all. A version that
 * was held for it goes. The caller has neither the lock of a volume nor that of
 * rd_lease_shut().
 */
int rd_lease_drop(struct rd_pool *pool, i64 id);
int rd_lease_drop_device(struct rd_pool *pool, const char *device);

/* Only the row: what it held goes later, by rd_finish_volumes(). */
int rd_lease_forget(struct rd_pool *pool, i64 id);

/* Append struct rd_lease: all of them, or those of @version. */
int rd_lease_list(struct rd_sql *sql, const struct rd_version *version, struct rd_buffer *ret);

/* The version of a lease, which may be HELD. -ENOENT. */
int rd_lease_version(struct rd_sql *sql, const struct rd_lease *lease,
		     struct rd_version *version);

#endif
