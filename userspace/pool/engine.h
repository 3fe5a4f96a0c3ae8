/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What commands are made of. Each of these can be killed at any instant: the
 * next command that opens the pool for writing goes on where it ended.
 */
#ifndef RD_ENGINE_H
#define RD_ENGINE_H

#include "pool.h"
#include "versions.h"

/*
 * Reverse deduplication: what only older versions name gives up what the newest
 * version of its volume has as well. The caller has the lock of the volume.
 */
int rd_reverse(struct rd_pool *pool, struct rd_version *version);
int rd_reverse_superseded(struct rd_pool *pool, i64 volume);

/* Give back what is in the queue. */
int rd_free_queue(struct rd_pool *pool);

/*
 * Undo versions of @volume that were being made, and go on with those that are new
 * or half deleted. It is locked.
 */
int rd_finish_volume(struct rd_pool *pool, i64 volume);

/* Delete a version that exists. The caller has the lock of the volume. */
int rd_delete(struct rd_pool *pool, struct rd_version *version);
/* Go on with one whose state is DELETING. */
int rd_delete_go_on(struct rd_pool *pool, struct rd_version *version);

#endif
