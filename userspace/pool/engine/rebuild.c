// SPDX-License-Identifier: GPL-2.0
/*
 * Make the catalog anew.
 *
 * The journal has the tables that cannot be made from others. Everything that
 * counts is counted here from the maps, frames that nothing names are free, and
 * what nothing names and has something in it goes to the queue, because a command
 * that died may have written there, or a device with a lease may read it. Versions
 * that were being made when the journal ends belong to a session that is dead: the
 * next command undoes them.
 *
 * A command that died may have left changes that only the catalog has. Where that
 * one is sound, they go into the journal first, as the next command would do it.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/changes.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/versions.h"
#include "journal.h"
#include "rebuild.h"

/* There is no data in the file between these. */
struct hole {
	u64 start, end;
};

struct rebuild {
	struct rd_sql *sql;
	const struct rd_area *area;
	i64 journal;
	bool force;
	bool all_may_be_read;		/* by devices, and holes do not tell otherwise */
	struct hole frames, fps;	/* found last, where these are */
};

/* --- the journal's tables */

static const char *const put_texts[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = "INSERT OR REPLACE INTO volume VALUES(?, ?, ?, ?)",
	[RD_TABLE_VERSION] = "INSERT OR REPLACE INTO version"
		" VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[RD_TABLE_TAG] = "INSERT OR REPLACE INTO tag VALUES(?, ?, ?)",
	[RD_TABLE_SEGMENT] = "INSERT OR REPLACE INTO segment VALUES(?, ?, ?, ?)",
	[RD_TABLE_RECIPE] = "INSERT OR REPLACE INTO recipe VALUES(?, ?, ?, ?)",
	[RD_TABLE_SUPERSEDED] = "INSERT OR REPLACE INTO superseded VALUES(?, ?)",
	[RD_TABLE_LEASE] = "INSERT OR REPLACE INTO lease VALUES(?, ?, ?, ?, ?)",
};

static const char *const delete_texts[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = "DELETE FROM volume WHERE id = ?",
	[RD_TABLE_VERSION] = "DELETE FROM version WHERE id = ?",
	[RD_TABLE_TAG] = "DELETE FROM tag WHERE volume = ? AND tag = ?",
	[RD_TABLE_SEGMENT] = "DELETE FROM segment WHERE volume = ? AND segment = ? AND born = ?",
	[RD_TABLE_RECIPE] = "DELETE FROM recipe WHERE id = ?",
	[RD_TABLE_SUPERSEDED] = "DELETE FROM superseded WHERE recipe = ? AND volume = ?",
	[RD_TABLE_LEASE] = "DELETE FROM lease WHERE id = ?",
};

static int apply(void *ctx, const struct rd_change *change)
{
	struct rebuild *rebuild = ctx;
	const char *const *texts = change->what == RD_CHANGE_PUT ? put_texts : delete_texts;

	return rd_sql_run_values(rebuild->sql, texts[change->table], change->values,
				 change->nr_values);
}

static int note_frame(void *ctx, u64 frame)
{
	struct rebuild *rebuild = ctx;

	return rd_sql_run(rebuild->sql, "INSERT OR IGNORE INTO journal_frame VALUES(?, ?)", "ii",
			  (i64)frame, rebuild->journal);
}

/* An end that is none would make versions go that are there. */
static int check_end(const struct rebuild *rebuild, const struct rd_journal_end *end)
{
	bool cut;
	int r;

	r = rd_journal_is_cut(rebuild->area, end, &cut);
	if (r || !cut)
		return r;
	if (rebuild->force) {
		rd_warn("the copy of the catalog is damaged: what was done after generation %llu is lost",
			(unsigned long long)end->generation);
		return 0;
	}
	rd_err(0, "the copy of the catalog is damaged, or was being written when the machine stopped: it can be read up to generation %llu",
	       (unsigned long long)end->generation);
	rd_hint("nothing was changed; --force makes a catalog of that, and versions made later are lost");
	return -EUCLEAN;
}

static int read_journal(struct rebuild *rebuild, u64 *ret_generation)
{
	const struct rd_pool_super *super = &rebuild->area->super;
	struct rd_journal_reader reader = { .change = apply, .frame = note_frame, .ctx = rebuild };
	struct rd_journal_end end = { .frame = super->journal_frame };
	int r;

	r = rd_sql_run(rebuild->sql, "DELETE FROM journal_frame", "");
	if (!r)
		r = note_frame(rebuild, super->journal_frame);
	if (!r)
		r = rd_journal_read(rebuild->area, &end, &reader);
	if (!r)
		r = check_end(rebuild, &end);
	*ret_generation = end.generation;
	if (r)
		return r;
	r = rd_journal_put_end(rebuild->sql, super, &end);
	return r ? r : rd_sql_run(rebuild->sql, "UPDATE state SET generation = ?", "i",
				  (i64)end.generation);
}

/* --- what is counted */

static int count_recipes(struct rebuild *rebuild)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_recipe recipe;
	int r;

	r = rd_sql_ask(rebuild->sql, &row, "SELECT id FROM recipe", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		r = rd_recipe_load(rebuild->sql, rd_row_i64(row, 0), &recipe);
		if (!r)
			r = rd_recipe_count(rebuild->sql, &recipe);
		if (!r)
			r = rd_sql_run(rebuild->sql, "INSERT INTO uses VALUES(?, 0, 0, ?, NULL)", "ii",
				       recipe.id,
				       (i64)rd_map_is_whole(&recipe.map, recipe.frame));
	}
	return r;
}

/*
 * Newest versions: the rows born last. A version that is NEW has left the one
 * before up to its cursor only, and the rest still counts.
 */
static int count_uses(struct rebuild *rebuild)
{
	int r;

	r = rd_sql_run(rebuild->sql, "UPDATE uses SET refs ="
		       " (SELECT count(*) FROM segment WHERE segment.recipe = uses.recipe)", "");
	if (!r)
		r = rd_sql_run(rebuild->sql, "UPDATE uses SET latest_refs ="
			       " (SELECT count(*) FROM segment AS s WHERE s.recipe = uses.recipe"
			       " AND NOT EXISTS (SELECT 1 FROM segment AS t"
			       " WHERE t.volume = s.volume AND t.segment = s.segment"
			       " AND t.born > s.born AND NOT EXISTS"
			       " (SELECT 1 FROM version AS v WHERE v.volume = t.volume"
			       " AND v.number = t.born AND (v.state = 0"
			       " OR (v.state = 1 AND v.cursor <= t.segment)))))", "");
	return r;
}

/* --- frames */

static int queue_unnamed(struct rebuild *rebuild, i64 frame)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_recipe recipe;
	struct rd_slots slots;
	unsigned int i;
	int r;

	memset(&slots, 0xff, sizeof(slots));
	r = rd_sql_ask(rebuild->sql, &row, "SELECT recipe FROM slot_owner WHERE frame = ?", "i", frame);
	while (!r && (r = rd_row_next(row)) > 0) {
		r = rd_recipe_load(rebuild->sql, rd_row_i64(row, 0), &recipe);
		for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
			rd_place place = recipe.map.at[i];

			if (rd_place_kind(place) == RD_OWN && rd_place_id(place) == (u64)frame)
				slots.bits[rd_place_slot(place) / 64] &=
					~(1ULL << rd_place_slot(place) % 64);
		}
	}
	return r ? r : rd_frames_queue(rebuild->sql, frame, &slots);
}

/* May any of it take space? Asks once for a hole, however long. */
static bool has_data(const struct rd_area *area, struct hole *hole, u64 offset, u64 len)
{
	off_t data;

	if (area->is_device)
		return false;
	if (offset < hole->start || offset >= hole->end) {
		data = lseek(area->fd, offset, SEEK_DATA);
		hole->start = offset;
		hole->end = data >= 0 ? (u64)data : errno == ENXIO ? U64_MAX : offset;
	}
	return hole->end < offset + len;
}

/*
 * What is between two frames that somebody has. Nothing is given back here: until
 * this catalog is the pool's, the one that it has may name what is there. Where
 * there is something, the next command gives it back.
 */
static int add_free(struct rebuild *rebuild, u64 start, u64 end)
{
	const struct rd_area *area = rebuild->area;
	u64 frame;
	int r = 0;

	for (frame = start; frame < end && !r; frame++) {
		if (!rebuild->all_may_be_read &&
		    !has_data(area, &rebuild->frames, rd_frame_offset(frame), RD_SEG_SIZE) &&
		    !has_data(area, &rebuild->fps, rd_frame_fps_offset(frame), RD_FPS_SIZE))
			continue;
		if (start < frame)
			r = rd_frames_free(rebuild->sql, start, frame - start);
		if (!r)
			r = rd_frames_queue_whole(rebuild->sql, frame);
		start = frame + 1;
	}
	return r || start >= end ? r : rd_frames_free(rebuild->sql, start, end - start);
}

static int find_frames(struct rebuild *rebuild)
{
	RD_ROW struct rd_row *row = NULL;
	u64 next = 0;
	i64 leases;
	int r;

	r = rd_sql_number(rebuild->sql, &leases, "SELECT count(*) FROM lease", "");
	if (r)
		return r;
	rebuild->all_may_be_read = leases && rebuild->area->is_device;
	if (rebuild->all_may_be_read)
		rd_warn("devices read the pool: what is not in use is free when they have been asked to leave it");
	r = rd_sql_run(rebuild->sql, "DELETE FROM extent", "");
	if (!r)
		r = rd_sql_ask(rebuild->sql, &row, "SELECT frame, 1 FROM slot_owner GROUP BY frame UNION"
			       " SELECT frame, 0 FROM journal_frame ORDER BY frame", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		u64 frame = rd_row_i64(row, 0);

		if (frame >= rebuild->area->super.nr_frames || frame < next)
			return rd_err(-EUCLEAN, "the journal names a frame twice, or beyond the end");
		r = add_free(rebuild, next, frame);
		if (!r && rd_row_i64(row, 1))
			r = queue_unnamed(rebuild, frame);
		next = frame + 1;
	}
	return r ? r : add_free(rebuild, next, rebuild->area->super.nr_frames);
}

/* --- */

static int fill(struct rebuild *rebuild, struct rd_rebuild_report *report)
{
	i64 nr;
	int r;

	r = read_journal(rebuild, &report->generation);
	if (!r)
		r = count_recipes(rebuild);
	if (!r)
		r = count_uses(rebuild);
	if (!r)
		r = find_frames(rebuild);
	if (!r)
		r = rd_sql_run(rebuild->sql, "INSERT INTO session(pid, verb, started, version)"
			       " SELECT 0, 'before the repair', 0, id FROM version WHERE state = 0",
			       "");
	if (!r)
		r = rd_sql_number(rebuild->sql, &nr, "SELECT count(*) FROM version"
				  " WHERE " RD_VERSION_EXISTS, "");
	report->nr_versions = r ? 0 : nr;
	return r;
}

static int make_new(struct rd_pool *pool, const char *path, bool force,
		    struct rd_rebuild_report *report)
{
	const struct rd_pool_super *super = &pool->area.super;
	struct rebuild rebuild = {
		.area = &pool->area,
		.journal = super->journal_id,
		.force = force,
	};
	int r;

	r = rd_catalog_create(path, super->uuid, super->nr_frames, super->journal_id);
	if (!r)
		r = rd_catalog_open(&rebuild.sql, path, true);
	if (r)
		return r;
	rd_sql_note_nothing(rebuild.sql);
	r = rd_sql_begin(rebuild.sql);
	if (!r) {
		r = fill(&rebuild, report);
		if (r)
			rd_sql_rollback(rebuild.sql);
		else
			r = rd_sql_commit(rebuild.sql);
	}
	if (!r)
		r = rd_sql_settle(rebuild.sql);
	rd_sql_close(rebuild.sql);
	return r;
}

/* --- what only the present catalog has */

/* -ESTALE: it is another pool's. */
static int look_at_present(const struct rd_pool *pool, const char *path, i64 *ret_waiting)
{
	struct rd_sql *sql;
	i64 ours;
	u64 page;
	int r;

	/* Who only reads leaves the file and its log as they are. */
	r = rd_catalog_open(&sql, path, false);
	if (r)
		return r;
	r = rd_sql_check_pages(sql, &page);
	if (!r)
		r = rd_sql_number(sql, &ours, "SELECT count(*) FROM state WHERE uuid = ?", "b",
				  pool->area.super.uuid, sizeof(pool->area.super.uuid));
	if (!r)
		r = rd_sql_number(sql, ret_waiting, "SELECT count(*) FROM outbox", "");
	rd_sql_close(sql);
	return r || ours ? r : -ESTALE;
}

/* Not from one that is older than the journal, nor into one that is damaged. */
static int flush_present(struct rd_pool *pool, const char *path)
{
	enum rd_life life = RD_LIFE_ONE;
	bool good = true;
	int r;

	r = rd_catalog_open(&pool->sql, path, true);
	if (r)
		return r;
	r = rd_journal_life(pool, &life);
	if (!r && life == RD_LIFE_ONE)
		r = rd_journal_verify(pool, &good);
	if (!r && life == RD_LIFE_ONE && good)
		r = rd_journal_flush(pool);
	rd_sql_close(pool->sql);
	pool->sql = NULL;
	return r;
}

static int save_present(struct rd_pool *pool, bool force)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	i64 waiting = 0;
	int r;

	if (!path)
		return -ENOMEM;
	if (access(path, F_OK))
		return 0;
	r = look_at_present(pool, path, &waiting);
	if (r == -ENOMEM || r == -EBUSY)
		return r;
	if (r && r != -ESTALE)
		rd_warn("the catalog that is there cannot be used: what it alone has is left out");
	if (r || !waiting)
		return 0;
	r = flush_present(pool, path);
	if (r && force) {
		rd_warn("what a command that died has left in the catalog is left out");
		return 0;
	}
	if (r)
		rd_hint("the catalog is as it was, and has what its copy has not; --force makes one without that");
	return r;
}

/* --- putting it in its place */

/* One that was put aside before may know more than the one that was made of it. */
static void choose_old(const struct rd_pool *pool, char ret[RD_REBUILD_OLD])
{
	unsigned int nr = 1;

	snprintf(ret, RD_REBUILD_OLD, "catalog.old");
	while (rd_is_in(pool->path, ret))
		snprintf(ret, RD_REBUILD_OLD, "catalog.old.%u", ++nr);
}

/* SQLite must not find the old one's log beside the new one. */
static int switch_to(struct rd_pool *pool, const char *new, const char *old_name)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	RD_FREE char *old = rd_path_in(pool->path, old_name);
	int r;

	r = path && old ? rd_catalog_rename(path, old) : -ENOMEM;
	if (!r)
		r = rd_catalog_rename(new, path);
	return r ? r : rd_sync_directory(pool->path);
}

int rd_rebuild_catalog(struct rd_pool *pool, bool force, struct rd_rebuild_report *report)
{
	RD_FREE char *new = rd_path_in(pool->path, "catalog.new");
	char old[RD_REBUILD_OLD];
	int r;

	if (!new)
		return -ENOMEM;
	memset(report, 0, sizeof(*report));
	/* What an earlier try has left. */
	if (unlink(new) && errno != ENOENT)
		return rd_err(-errno, "cannot remove '%s'", new);
	r = save_present(pool, force);
	if (r)
		return r;
	r = make_new(pool, new, force, report);
	if (r)
		return r;
	choose_old(pool, old);
	if (rd_is_in(pool->path, "catalog.db"))
		snprintf(report->old, sizeof(report->old), "%s", old);
	return switch_to(pool, new, old);
}

int rd_rebuild_keep(struct rd_pool *pool, char ret[RD_REBUILD_OLD])
{
	RD_FREE char *new = rd_path_in(pool->path, "catalog.new"), *path = NULL;
	struct rd_rebuild_report report = { 0 };
	int r;

	choose_old(pool, ret);
	path = rd_path_in(pool->path, ret);
	if (!path || !new)
		return -ENOMEM;
	/* What an earlier try has left. */
	if (unlink(new) && errno != ENOENT)
		return rd_err(-errno, "cannot remove '%s'", new);
	r = make_new(pool, new, true, &report);
	if (r == -ENOMEM || r == -ENOSPC || r == -EINTR)
		return r;
	if (r) {
		rd_warn("the copy of the catalog in the data area cannot be read, and is not kept");
		ret[0] = 0;
		return 0;
	}
	r = rd_catalog_rename(new, path);
	return r ? r : rd_sync_directory(pool->path);
}

int rd_rebuild_queue_kept(struct rd_sql *sql)
{
	struct rebuild rebuild = { .sql = sql };
	i64 frame = -1;
	int r;

	/* One that is kept is not queued. */
	while (!(r = rd_sql_number(sql, &frame, "DELETE FROM kept WHERE frame ="
				   " (SELECT min(frame) FROM kept) RETURNING frame", ""))) {
		r = queue_unnamed(&rebuild, frame);
		if (r)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

int rd_rebuild_queue_unnamed(struct rd_pool *pool)
{
	struct rebuild rebuild = { .sql = pool->sql, .area = &pool->area };
	RD_ROW struct rd_row *row = NULL;
	struct rd_buffer extents = { 0 };
	const u64 *extent;
	size_t i, nr;
	u64 two[2];
	int r;

	/* What is free stays so until it is queued. */
	r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_sql_ask(pool->sql, &row, "SELECT start, start + len FROM extent", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		two[0] = rd_row_i64(row, 0);
		two[1] = rd_row_i64(row, 1);
		rd_buffer_put(&extents, two, sizeof(two));
		r = extents.failed ? -ENOMEM : 0;
	}
	extent = (const u64 *)extents.data;
	nr = extents.len / sizeof(two);
	if (!r)
		r = rd_sql_run(pool->sql, "DELETE FROM extent", "");
	for (i = 0; i < nr && !r; i++)
		r = add_free(&rebuild, extent[2 * i], extent[2 * i + 1]);
	rd_buffer_free(&extents);
	return rd_catalog_end(pool->sql, r);
}
