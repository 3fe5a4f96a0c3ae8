// SPDX-License-Identifier: GPL-2.0
/*
 * Finish or undo what commands that died have left.
 *
 * A session whose lock nobody holds is dead. The version that it was writing
 * does not exist yet: its rows go, and what it had reserved is given back. What
 * exists and is not reversed, is half deleted, or was held by a lease that is gone,
 * is gone on with, volume by volume, where nobody else works on the volume.
 */
#include <errno.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/recipes.h"
#include "engine.h"
#include "recover.h"

#define BATCH	2048

struct unborn {
	i64 segment, recipe;
};

static int read_unborn(struct rd_sql *sql, const struct rd_version *version,
		       struct unborn *rows, unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	unsigned int nr = 0;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT segment, recipe FROM segment"
		       " WHERE volume = ? AND born = ? LIMIT ?", "iii", version->volume,
		       version->number, (i64)BATCH);
	while (!r && (r = rd_row_next(row)) > 0) {
		rows[nr++] = (struct unborn){ rd_row_i64(row, 0), rd_row_i64(row, 1) };
		r = 0;
	}
	*ret_nr = nr;
	return r;
}

static int undo_batch(struct rd_sql *sql, const struct rd_version *version,
		      struct unborn *rows, bool *ret_more)
{
	unsigned int i, nr, maps = RD_HAND_OVERS;
	int r;

	r = read_unborn(sql, version, rows, &nr);
	for (i = 0; i < nr && !r; i++) {
		/* It may be the last one of a recipe that other versions had meanwhile. */
		if (rows[i].recipe)
			r = rd_recipe_prepare(sql, rows[i].recipe, &maps);
		if (r)
			break;
		r = rd_sql_run(sql, "DELETE FROM segment WHERE volume = ? AND segment = ?"
			       " AND born = ?", "iii", version->volume, rows[i].segment,
			       version->number);
		if (!r && rows[i].recipe)
			r = rd_recipe_unref(sql, rows[i].recipe, 1, 1, version->volume);
	}
	*ret_more = r > 0 || nr == BATCH;
	if (r > 0)
		r = 0;
	if (!r && !*ret_more)
		r = rd_version_remove(sql, version);
	return r;
}

static int undo_version(struct rd_sql *sql, i64 id)
{
	struct unborn *rows = malloc(BATCH * sizeof(*rows));
	struct rd_version version;
	bool more = true;
	int r = rows ? 0 : -ENOMEM;

	if (!r)
		r = rd_version_by_id(sql, id, &version);
	while (!r && more) {
		r = rd_failpoint("recover-undo");
		if (!r)
			r = rd_catalog_begin(sql);
		if (!r)
			r = rd_catalog_end(sql, undo_batch(sql, &version, rows, &more));
		if (!r && more)
			rd_sql_pause();
	}
	free(rows);
	return r == -ENOENT ? 0 : r;
}

int rd_end_session(struct rd_sql *sql, i64 session)
{
	i64 version;
	int r;

	r = rd_sql_number(sql, &version, "SELECT version FROM session WHERE id = ?", "i", session);
	if (!r && version)
		r = undo_version(sql, version);
	if (!r)
		r = rd_catalog_begin(sql);
	if (r)
		return r;
	r = rd_frames_release(sql, session);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM session WHERE id = ?", "i", session);
	return rd_catalog_end(sql, r);
}

/*
 * What was written into frames that are still reserved is nobody's: it goes at
 * once, and makes the room that the catalog needs for the rest.
 */
static int punch_reserved(struct rd_pool *pool)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(pool->sql, &row, "SELECT start, len FROM reserved WHERE session = ?", "i",
		       pool->session);
	while (!r && (r = rd_row_next(row)) > 0)
		r = rd_area_punch_frames(&pool->area, rd_row_i64(row, 0), rd_row_i64(row, 1));
	return r;
}

int rd_undo(struct rd_pool *pool)
{
	i64 version;
	int r;

	r = punch_reserved(pool);
	if (!r)
		r = rd_sql_number(pool->sql, &version, "SELECT version FROM session WHERE id = ?",
				  "i", pool->session);
	if (!r && version)
		r = undo_version(pool->sql, version);
	if (!r)
		r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_frames_release(pool->sql, pool->session);
	if (!r)
		r = rd_sql_run(pool->sql, "UPDATE session SET version = 0 WHERE id = ?", "i",
			       pool->session);
	r = rd_catalog_end(pool->sql, r);
	return r ? r : rd_free_queue(pool);
}

/* The next session after *@id. */
static int next_session(struct rd_pool *pool, i64 *id)
{
	return rd_sql_number(pool->sql, id, "SELECT id FROM session WHERE id > ? AND id <> ?"
			     " ORDER BY id LIMIT 1", "ii", *id, pool->session);
}

/*
 * The lock of the volume that dead session @id was making a version of: a version
 * made now would have its rows below it. -EAGAIN: who has the lock has seen, or
 * will see, what was left.
 */
static int lock_its_volume(struct rd_pool *pool, i64 id, struct rd_lock *ret)
{
	i64 volume;
	int r;

	r = rd_sql_number(pool->sql, &volume, "SELECT volume FROM version WHERE id ="
			  " (SELECT version FROM session WHERE id = ?)", "i", id);
	if (r)
		return r == -ENOENT ? 0 : r;
	return rd_lock_take(ret, pool->lock_fd, RD_LOCK_VOLUME, volume, true, 0);
}

/* Its lock is ours. */
static int bury(struct rd_pool *pool, i64 id)
{
	struct rd_lock lock = RD_LOCK_NONE;
	int r;

	r = lock_its_volume(pool, id, &lock);
	if (r)
		return r == -EAGAIN ? 0 : r;
	rd_info("undoing what session %lld left", (long long)id);
	r = rd_end_session(pool->sql, id);
	rd_lock_drop(&lock);
	/* It has ended by itself while we were looking. */
	return r == -ENOENT ? 0 : r;
}

static int undo_dead_sessions(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	i64 id = 0;
	int r;

	while (!(r = next_session(pool, &id))) {
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_SESSION, id, true, 0);
		if (r == -EAGAIN)
			continue;
		if (r)
			return r;
		r = bury(pool, id);
		rd_lock_drop(&lock);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

/*
 * The version of @volume that is to be finished next: one that is NEW before the one
 * it has not left yet may go.
 */
static int next_unfinished(struct rd_pool *pool, i64 volume, struct rd_version *version)
{
	i64 id;
	int r;

	r = rd_sql_number(pool->sql, &id, "SELECT id FROM version WHERE volume = ?"
			  " AND " RD_VERSION_UNFINISHED
			  " AND (state IN (1, 3) OR " RD_VERSION_RELEASED ")"
			  " ORDER BY state, number LIMIT 1", "i", volume);
	return r ? r : rd_version_by_id(pool->sql, id, version);
}

/* Who was making these had the lock of the volume, and so is gone. */
static int undo_unborn(struct rd_pool *pool, i64 volume)
{
	i64 id;
	int r;

	while (!(r = rd_sql_number(pool->sql, &id, "SELECT id FROM version WHERE volume = ?"
				   " AND " RD_VERSION_UNFINISHED " AND state = 0 LIMIT 1", "i",
				   volume))) {
		r = undo_version(pool->sql, id);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

int rd_finish_volume(struct rd_pool *pool, i64 volume)
{
	struct rd_version version;
	int r;

	r = undo_unborn(pool, volume);
	if (r)
		return r;
	while (!(r = next_unfinished(pool, volume, &version))) {
		if (version.state == RD_VERSION_NEW)
			r = rd_reverse(pool, &version);
		else if (version.state == RD_VERSION_HELD)
			r = rd_delete(pool, &version);
		else
			r = rd_delete_resume(pool, &version);
		if (r)
			return r;
	}
	return r == -ENOENT ? rd_reverse_superseded(pool, volume) : r;
}

static int next_volume(struct rd_pool *pool, i64 *id)
{
	return rd_sql_number(pool->sql, id, "SELECT min(volume) FROM"
			     " (SELECT volume FROM version WHERE " RD_VERSION_UNFINISHED
			     " AND (state IN (1, 3) OR " RD_VERSION_RELEASED ")"
			     " UNION SELECT volume FROM superseded) WHERE volume > ?"
			     " HAVING min(volume) IS NOT NULL", "i", *id);
}

int rd_finish_volumes(struct rd_pool *pool)
{
	struct rd_lock lock = RD_LOCK_NONE;
	i64 volume = 0;
	int r = 0;

	while (!r && !(r = next_volume(pool, &volume))) {
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_VOLUME, volume, true, 0);
		if (r == -EAGAIN) {
			r = 0;
			continue;
		}
		if (!r)
			r = rd_finish_volume(pool, volume);
		rd_lock_drop(&lock);
	}
	return r == -ENOENT ? 0 : r;
}

int rd_recover(struct rd_pool *pool)
{
	i64 queued;
	int r;

	r = undo_dead_sessions(pool);
	if (!r)
		r = rd_finish_volumes(pool);
	/* Who knows the devices is not known yet: then the command does it. */
	if (!r)
		r = rd_sql_number(pool->sql, &queued, "SELECT count(*) FROM queue"
				  " WHERE NOT EXISTS (SELECT 1 FROM lease)", "");
	return r || !queued ? r : rd_free_queue(pool);
}
