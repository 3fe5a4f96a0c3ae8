/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What commands are made of. Each of these can be killed at any instant: the
 * next command that opens the pool for writing goes on where it ended.
 */
#ifndef RD_ENGINE_H
#define RD_ENGINE_H

#include "pool/catalog/versions.h"
#include "pool/pool.h"

/*
 * Reverse deduplication: what only older versions name gives up what the newest
 * version of its volume has as well. The caller has the lock of the volume.
 */
int rd_reverse(struct rd_pool *pool, struct rd_version *version);
int rd_reverse_superseded(struct rd_pool *pool, i64 volume);

/*
 * Give back what is in the queue. The caller has no lock of a volume: a device that
 * turns out to be gone may have been the last that held a version.
 */
int rd_free_queue(struct rd_pool *pool);

/*
 * Undo versions of @volume that were being made, and go on with those that are new
 * or half deleted. It is locked.
 */
int rd_finish_volume(struct rd_pool *pool, i64 volume);
/* The same of each volume that nobody has locked. */
int rd_finish_volumes(struct rd_pool *pool);

/*
 * Delete a version that exists, of a volume that is locked and finished. Its state is
 * HELD then if it is still there for a device.
 */
int rd_delete(struct rd_pool *pool, struct rd_version *version);
/* Go on with one whose state is DELETING. */
int rd_delete_resume(struct rd_pool *pool, struct rd_version *version);

/*
 * Say how many bytes would be free if the @nr versions @ids were deleted. Exact, unless one
 * is the newest of its volume: then it may become more.
 */
int rd_delete_estimate(struct rd_pool *pool, const i64 *ids, size_t nr, u64 *ret_bytes);

#endif
