// SPDX-License-Identifier: GPL-2.0
/*
 * Finish what commands that died, and leases that end, have left of versions, volume by volume.
 *
 * A version that does not exist yet is undone. One that exists and is not reversed, is
 * half deleted, or was held by a lease that is gone, is finished. The lock of the volume
 * says that no other command works on it.
 */
#include <errno.h>
#include <string.h>

#include "base/inject.h"
#include "base/log.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/space/free.h"
#include "pool/engine/space/lease.h"
#include "undo.h"
#include "version.h"

/* The commands that made these had the lock of the volume, and so are gone. */
static int undo_unborn(struct rd_pool *pool, i64 volume)
{
	i64 id;
	int r;

	while (!(r = rd_version_next_unborn(pool->sql, volume, &id))) {
		r = rd_undo_version(pool->sql, id);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

int rd_finish_volume(struct rd_pool *pool, i64 volume)
{
	struct rd_version version;
	u64 waiting;
	int r;

	r = undo_unborn(pool, volume);
	if (r)
		return r;
	while (!(r = rd_version_next_unfinished(pool->sql, volume, &version))) {
		if (version.state == RD_VERSION_NEW)
			r = rd_reverse(pool, &version, NULL, &waiting);
		else if (version.state == RD_VERSION_HELD)
			r = rd_delete(pool, &version, NULL, NULL);
		else
			r = rd_delete_resume(pool, &version);
		if (r)
			return r;
	}
	return r == -ENOENT ? rd_reverse_superseded(pool, volume) : r;
}

/* Call @finish for each volume where something is unfinished, and no other command works. */
static int for_volumes(struct rd_pool *pool, int (*finish)(struct rd_pool *pool, i64 volume))
{
	struct rd_lock lock = RD_LOCK_NONE;
	i64 volume = 0;
	int r = 0;

	while (!r && !(r = rd_volume_next_unfinished(pool->sql, &volume))) {
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_VOLUME, volume, true, 0);
		if (r == -EAGAIN) {
			r = 0;
			continue;
		}
		if (!r)
			r = finish(pool, volume);
		rd_lock_drop(&lock);
	}
	return r == -ENOENT ? 0 : r;
}

int rd_finish_volumes(struct rd_pool *pool)
{
	/* All of that first: it makes room, and what comes then may need some. */
	int r = for_volumes(pool, undo_unborn);

	return r ? r : for_volumes(pool, rd_finish_volume);
}

int rd_free_queue(struct rd_pool *pool)
{
	bool forgot_lease;
	int r;

	do {
		forgot_lease = false;
		r = rd_free_places(pool, &forgot_lease);
		/* The versions that only that lease had held go as well. */
		if (!r && forgot_lease)
			r = rd_finish_volumes(pool);
	} while (!r && forgot_lease);
	/* All that a command has done is in the journal when it returns. */
	return r ? r : rd_journal_flush(pool);
}

static void tell_late(const struct rd_pool *pool, int r)
{
	if (!r)
		return;
	rd_warn("cannot free space in '%s' now: %s", pool->path, strerror(-r));
	if (r == -EUCLEAN)
		rd_remedy(RD_REMEDY_SCRUB, NULL, NULL);
	else
		rd_hint("the next command that writes to the pool does");
}

void rd_free_queue_late(struct rd_pool *pool)
{
	tell_late(pool, rd_free_queue(pool));
}

/* --- ends of leases */

/* A crash here leaves it to the next command. */
static int delete_released(struct rd_pool *pool)
{
	int r;

	r = rd_failpoint("lease-drop");
	if (!r)
		r = rd_finish_volumes(pool);
	return r ? r : rd_free_queue(pool);
}

int rd_lease_drop(struct rd_pool *pool, i64 id)
{
	int r = rd_lease_forget(pool, id);

	return r ? r : delete_released(pool);
}

int rd_lease_drop_device(struct rd_pool *pool, const char *device)
{
	int r = rd_catalog_do(pool->sql, rd_lease_delete_device(pool->sql, device));

	return r ? r : delete_released(pool);
}

void rd_lease_drop_late(struct rd_pool *pool, const char *device)
{
	tell_late(pool, rd_lease_drop_device(pool, device));
}
