// SPDX-License-Identifier: GPL-2.0
/* Open a pool for a command, and end the command. */
#include <errno.h>

#include "base/log.h"
#include "pool/catalog/filling.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/sessions.h"
#include "pool/engine/journal/fence.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/journal/journal_life.h"
#include "version.h"
#include "recover.h"
#include "session.h"
#include "undo.h"

/* --- the life check */

void rd_session_hint_life(enum rd_life life)
{
	rd_remedy(RD_REMEDY_CHOOSE_SIDE, NULL, "nothing was changed; bring back the %s if you can",
		  life == RD_LIFE_OLD_CATALOG ? "newer catalog.db, with its catalog.db-pages" :
		  life == RD_LIFE_OLD_DATA ? "newer data area" : "two that belong together");
}

/*
 * A command that only reads may go on with an older data area: each block is checked as
 * it is read, so a block that is lost is an error. An older catalog may refer to frames
 * that have other content by now, and so no command may use one.
 */
static int check_life(struct rd_pool *pool, enum rd_pool_mode mode)
{
	enum rd_life life;
	int r;

	r = rd_journal_life(pool, &life);
	if (r)
		return r;
	pool->life = life;
	if (mode == RD_POOL_APART)
		return life == RD_LIFE_ONE ? -EEXIST : 0;
	if (life == RD_LIFE_ONE)
		return 0;
	if (mode == RD_POOL_READ && life != RD_LIFE_OLD_CATALOG) {
		rd_warn("'%s': %s; versions may be damaged, and nothing can be written", pool->path,
			rd_life_text(life));
		return 0;
	}
	rd_err(0, "'%s': %s", pool->path, rd_life_text(life));
	rd_session_hint_life(life);
	return -ESTALE;
}

/* --- the session */

static int begin_session(struct rd_pool *pool, const char *verb)
{
	int r;

	r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_session_insert(pool->sql, verb, &pool->session);
	/* Before another command can see the row, and take the session for dead. */
	if (!r)
		r = rd_lock_take(&pool->session_lock, pool->lock_fd, RD_LOCK_SESSION,
				 pool->session, true, 0);
	return rd_catalog_end(pool->sql, r);
}

/* Free slots of @frame that this session may have written to. */
static int punch_free_slots(struct rd_pool *pool, u64 frame)
{
	struct rd_slots slots;
	unsigned int first, end = 0;
	int r = rd_filling_free_slots(pool->sql, frame, &slots);

	while (!r && rd_slots_run(&slots, &first, &end))
		r = rd_area_punch(&pool->area, rd_slot_offset(frame, first),
				  (u64)(end - first) * RD_BLOCK_SIZE);
	return r;
}

/* Nobody has any of it, or had a part that waits for the journal. */
static int is_nobodys(struct rd_pool *pool, u64 frame, bool *ret)
{
	struct rd_slots queued;
	bool owned;
	int r = rd_frames_is_owned(pool->sql, frame, &owned);

	if (!r)
		r = rd_frames_queued_of(pool->sql, frame, &queued);
	*ret = !r && !owned && rd_slots_are_none(&queued);
	return r;
}

static int punch_frames(struct rd_pool *pool, u64 start, u64 len)
{
	bool are_nobodys = true;
	u64 frame;
	int r = 0;

	for (frame = start; frame < start + len && !r && are_nobodys; frame++)
		r = is_nobodys(pool, frame, &are_nobodys);
	if (!r && are_nobodys)
		return rd_area_punch_frames(&pool->area, start, len);
	for (frame = start; frame < start + len && !r; frame++)
		r = punch_free_slots(pool, frame);
	return r;
}

/*
 * Content in frames that are still reserved belongs to no version, where nobody has it: it goes
 * at once, and makes the room that the catalog needs for the rest. But a transaction that failed
 * and may hold has given it to versions; then it goes by the queue, behind the next transaction.
 * And so it does on a device: that gives the catalog no room, and kernel tables may name slots
 * that no version has, for devices are asked only before a whole frame is given back.
 */
static int punch_reserved(struct rd_pool *pool)
{
	u64 start = 0, len = 0;
	int r;

	if (rd_sql_is_unsure(pool->sql) || !rd_area_can(&pool->area, RD_STORE_PUNCH))
		return 0;
	while (!(r = rd_frames_reserved(pool->sql, pool->session, start + len, &start, &len))) {
		r = punch_frames(pool, start, len);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

static int leave(struct rd_pool *pool)
{
	int r = rd_catalog_do(pool->sql, rd_filling_leave_all(pool->sql, pool->session));

	return r ? r : rd_free_queue(pool);
}

int rd_session_leave(struct rd_pool *pool)
{
	int r = punch_reserved(pool);

	return r ? r : leave(pool);
}

/*
 * Undo what a command that failed has not finished, and give back what it took: else the
 * space would be taken until the next command.
 */
static int undo_own(struct rd_pool *pool)
{
	int r = punch_reserved(pool);

	if (!r)
		r = rd_undo_version_of(pool->sql, pool->session);
	return r ? r : leave(pool);
}

static int end_session(struct rd_pool *pool, bool has_failed)
{
	int r;

	if (!pool->sql || !pool->session)
		return 0;
	/*
	 * If that fails, the next command does it. Where another catalog is still the one of the
	 * data area, its versions may have what this one would give back or write over.
	 */
	if (has_failed && pool->life == RD_LIFE_ONE)
		undo_own(pool);
	/* The catalog must know all that this session appended before it forgets the session. */
	r = pool->is_ahead && pool->life == RD_LIFE_ONE ? rd_journal_mark(pool) : 0;
	if (!r)
		r = rd_recover_session(pool->sql, pool->session, true);
	rd_lock_drop(&pool->session_lock);
	pool->session = 0;
	return r;
}

/* --- */

static int begin(struct rd_pool *pool, enum rd_pool_mode mode, const char *verb)
{
	bool is_fenced = rd_area_can(&pool->area, RD_STORE_FENCED);
	int r = is_fenced ? rd_fence_enter(pool, &mode) : 0;

	/* As it was made now, or the owner's commands left it. */
	if (r || (is_fenced && mode == RD_POOL_READ))
		return r;
	/* There is no catalog, or no superblock that it could be compared with. */
	if (mode == RD_POOL_REPAIR || mode == RD_POOL_LOST)
		return 0;
	r = check_life(pool, mode);
	if (r || mode == RD_POOL_READ)
		return r;
	r = begin_session(pool, verb);
	return r || mode == RD_POOL_APART ? r : rd_recover(pool);
}

int rd_session_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		    const char *verb, unsigned int wait_ms, const struct rd_progress *progress)
{
	struct rd_pool *pool;
	int r;

	r = rd_pool_open(&pool, path, mode, wait_ms, progress);
	if (r)
		return r;
	r = begin(pool, mode, verb);
	if (r)
		return rd_session_close(pool, r);
	*ret = pool;
	return 0;
}

int rd_session_close(struct rd_pool *pool, int r)
{
	int end = end_session(pool, r);

	rd_pool_close(pool);
	return r ? r : end;
}

int rd_sessions_running(struct rd_pool *pool, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct rd_session *session;
	size_t nr;
	int r;

	r = rd_session_list(pool->sql, pool->session, &all);
	session = (const struct rd_session *)all.data;
	nr = all.len / sizeof(*session);
	/* Others died, and the next command that writes finishes their work. */
	for (; nr-- && !r; session++)
		if (rd_lock_is_held(pool->lock_fd, RD_LOCK_SESSION, session->id))
			rd_buffer_put(ret, session, sizeof(*session));
	return r ? r : ret->failed ? -ENOMEM : 0;
}
