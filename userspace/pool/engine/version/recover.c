// SPDX-License-Identifier: GPL-2.0
/*
 * Finish or undo what commands that died have left.
 *
 * A session whose lock is free is dead: what it had reserved is queued. Then each volume that no
 * other command works on is finished, and with it the version goes that the session was writing
 * (finish.c). In the end the queue is given back (free.c).
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

int rd_recover_session(struct rd_sql *sql, i64 id, bool forget)
{
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	r = rd_filling_leave_all(sql, id);
	if (!r && forget)
		r = rd_session_delete(sql, id);
	return rd_catalog_end(sql, r);
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
		if (!r || r == -ENOSPC) {
			rd_info("undoing the unfinished work of session %lld", id);
			r = rd_recover_session(pool->sql, id, !r);
		}
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
