/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What becomes of versions. A process that runs one of these can be killed at any instant: the
 * next command that opens the pool for writing finishes or undoes what it left.
 */
#ifndef RD_VERSION_H
#define RD_VERSION_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

struct rd_written;

/*
 * Reverse deduplication: recipes that only older versions refer to give up each block
 * that the newest version of the volume has as well. The caller has the volume's lock. @written:
 * what this command has written, and flushed; or NULL (keepers.h).
 * *@ret_waiting: how many contents are left to the pass over the pool (pass.h), as it would have
 * taken longer to look for them than to make the version.
 */
int rd_reverse(struct rd_pool *pool, struct rd_version *version, struct rd_written *written,
	       u64 *ret_waiting);
int rd_reverse_superseded(struct rd_pool *pool, i64 volume);

/*
 * Give back all that is in the queue. The caller has no lock of a volume: a device that
 * turns out to be gone may have been the last that held a version.
 */
int rd_free_queue(struct rd_pool *pool);
/* The same at the end of a command whose work is done: if it fails, that is only a warning. */
void rd_free_queue_late(struct rd_pool *pool);

/*
 * Undo versions of @volume that were being made, and finish those that are new
 * or half deleted. The caller has the volume's lock.
 */
int rd_finish_volume(struct rd_pool *pool, i64 volume);
/* Do the same for each volume that no other command has locked. */
int rd_finish_volumes(struct rd_pool *pool);

/*
 * Say whether a version that exists, as @version has it now, may be deleted: 0, or an error. It is
 * asked twice, the second time within the transaction that ends the version.
 */
typedef int rd_may_delete(void *ctx, const struct rd_version *version);

/*
 * Delete a version that exists, or is PARTIAL, of a volume that is locked and finished. Its state
 * is HELD then if it is still there for a device. @may: NULL, or asked with @ctx. -EPERM, with
 * is_protected set, without a message: it is protected by now.
 */
int rd_delete(struct rd_pool *pool, struct rd_version *version, rd_may_delete *may, void *ctx);
/* Delete the rest of a version whose state is DELETING. */
int rd_delete_resume(struct rd_pool *pool, struct rd_version *version);

/*
 * Say how many bytes would be free if the @nr versions @ids were deleted. Exact, unless one
 * is the newest of its volume: then it may become more. An estimate where blocks are in packs.
 */
int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes);

/* What only a version has: rd_delete_estimate() of that version alone. */
struct rd_unique {
	i64 number;
	u64 bytes;
};

/*
 * Add to each of the @nr versions of @volume, which are in the order of numbers, what only it
 * has; in one pass, for all of a volume. -E2BIG, without a message: that would take too much
 * memory.
 */
int rd_unique_bytes(struct rd_pool *pool, i64 volume, struct rd_unique *versions, size_t nr);

/*
 * End lease @id (see lease.h): its device does not read its version any more. The version goes if
 * only that had held it. The caller has neither the lock of a volume nor that of rd_lease_shut().
 */
int rd_lease_drop(struct rd_pool *pool, i64 id);

/* The same for all leases of @device: it does not read the data area any more. */
int rd_lease_drop_device(struct rd_pool *pool, const char *device);
/* The same for a device that is gone: if it fails, that is only a warning. */
void rd_lease_drop_late(struct rd_pool *pool, const char *device);

#endif
