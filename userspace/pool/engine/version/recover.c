// SPDX-License-Identifier: GPL-2.0
/*
 * Finish or undo what commands that died have left.
 *
 * A session whose lock is free is dead. The version that it was writing does not exist
 * yet: its rows go, and what the session had reserved is queued. Then each volume that no
 * other command works on is finished (finish.c), and the queue is given back (free.c).
 */
#include <errno.h>

#include "base/log.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/leases.h"
#include "pool/catalog/sessions.h"
#include "pool/engine/journal/fence.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/space/hold.h"
#include "version.h"
#include "recover.h"
#include "undo.h"

int rd_recover_session(struct rd_sql *sql, i64 id, bool forget)
{
	int r;

	r = rd_undo_version_of(sql, id);
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_filling_leave_all(sql, id);
	if (!r)
		r = forget ? rd_session_delete(sql, id) : rd_session_set_version(sql, id, 0);
	return rd_catalog_end(sql, r);
}

/*
 * Lock the volume of which dead session @id was making a version: a version made now
 * would have its rows below it. -EAGAIN: another command has the lock, and has seen, or
 * will see, what was left.
 */
static int lock_its_volume(struct rd_pool *pool, i64 id, struct rd_lock *ret)
{
	i64 volume;
	int r = rd_session_volume(pool->sql, id, &volume);

	if (r)
		return r == -ENOENT ? 0 : r;
	return rd_lock_take(ret, pool->lock_fd, RD_LOCK_VOLUME, volume, true, 0);
}

/* Undo dead session @id, whose lock this command has, and forget it if @forget. */
static int undo_dead(struct rd_pool *pool, i64 id, bool forget)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = lock_its_volume(pool, id, &lock);
	if (r)
		return r == -EAGAIN ? 0 : r;
	rd_info("undoing the unfinished work of session %lld", id);
	r = rd_recover_session(pool->sql, id, forget);
	rd_lock_drop(&lock);
	/* It has ended by itself since it was found. */
	return r == -ENOENT ? 0 : r;
}

static int undo_dead_sessions(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	i64 id = 0;
	int r;

	while (!(r = rd_session_next(pool->sql, pool->session, &id))) {
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_SESSION, id, true, 0);
		if (r == -EAGAIN)
			continue;
		/*
		 * From here on, no copy of the catalog that knows of this work may go on. And what
		 * the session appended to the journal must be known before the session is not.
		 * In a full pool what is undone makes room, which nothing else would; the session
		 * stays. In a store far away, what it had sent off must not arrive any more.
		 */
		if (!r)
			r = rd_fence_renew(pool);
		if (!r)
			r = rd_journal_mark(pool);
		if (!r || r == -ENOSPC)
			r = undo_dead(pool, id, !r);
		rd_lock_drop(&lock);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

/* pool->lease_ops is not set yet: where there are leases, the command frees the queue. */
static int free_queue(struct rd_pool *pool)
{
	u64 leases, queued;
	int r;

	r = rd_lease_count(pool->sql, NULL, &leases);
	if (!r)
		r = rd_frames_nr_queued(pool->sql, &queued);
	return r || leases || !queued ? r : rd_free_queue(pool);
}

int rd_recover(struct rd_pool *pool)
{
	int r;

	r = undo_dead_sessions(pool);
	if (!r)
		r = rd_hold_drop_dead(pool);
	if (!r)
		r = rd_finish_volumes(pool);
	return r ? r : free_queue(pool);
}
