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

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/journal_frames.h"
#include "pool/catalog/leases.h"
#include "pool/catalog/outbox.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/pages.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/replay.h"
#include "pool/catalog/state.h"
#include "pool/catalog/versions.h"
#include "fence.h"
#include "journal.h"
#include "journal_life.h"
#include "journal_read.h"
#include "rebuild.h"

/* There is no data in the file between these. */
struct hole {
	u64 start, end;
};

/* What to do with a journal that is damaged at its end. */
enum if_cut {
	REFUSE_CUT,
	TAKE_CUT,
	KEEP_CUT,	/* beside a catalog that has the rest, and holds */
};

struct rebuild {
	struct rd_sql *sql;
	struct rd_area *area;
	u64 journal;
	enum if_cut if_cut;
	bool is_cut;
	bool all_may_be_read;		/* by devices, and holes do not tell otherwise */
	struct hole frames, fps;	/* found last, where these are */
};

/* --- the journal's tables */

static int apply(void *ctx, const struct rd_change *change)
{
	struct rebuild *rebuild = ctx;

	return rd_replay_change(rebuild->sql, change);
}

static int note_frame(void *ctx, u64 frame)
{
	struct rebuild *rebuild = ctx;

	return rd_journal_frame_note(rebuild->sql, rebuild->journal, frame);
}

/*
 * Refuse an end of the journal that is damage: versions behind it would be lost. -EAGAIN: another
 * command has begun a new one meanwhile, and what was read may be anything.
 */
static int check_end(struct rebuild *rebuild, const struct rd_journal_end *end)
{
	int r;

	r = rd_journal_is_cut(rebuild->area, end, &rebuild->is_cut);
	if (!r)
		r = rd_area_reread_super(rebuild->area);
	if (!r && rebuild->area->super.journal_id != rebuild->journal)
		return -EAGAIN;
	if (r || !rebuild->is_cut)
		return r;
	if (rebuild->if_cut == TAKE_CUT) {
		rd_warn("the copy of the catalog is damaged: changes after generation %llu are lost",
			end->generation);
		return 0;
	}
	if (rebuild->if_cut == KEEP_CUT) {
		rd_warn("the copy of the catalog is damaged: what is kept of it ends with generation %llu",
			end->generation);
		return 0;
	}
	rd_err(0, "the copy of the catalog is damaged, or was being written when the machine stopped: it can be read up to generation %llu",
	       end->generation);
	rd_remedy(RD_REMEDY_ACCEPT_OLDER, NULL, "nothing was changed");
	return -EUCLEAN;
}

static int read_journal(struct rebuild *rebuild, u64 *ret_generation)
{
	const struct rd_pool_super *super = &rebuild->area->super;
	struct rd_journal_reader reader = { .change = apply, .frame = note_frame, .ctx = rebuild };
	struct rd_journal_end end = { .frame = super->journal_frame };
	int r;

	r = rd_journal_frames_forget(rebuild->sql);
	if (!r)
		r = note_frame(rebuild, super->journal_frame);
	if (!r)
		r = rd_journal_read(rebuild->area, &end, &reader);
	if (!r)
		r = check_end(rebuild, &end);
	*ret_generation = end.generation;
	if (r)
		return r;
	r = rd_state_put_end(rebuild->sql, super, &end);
	return r ? r : rd_state_set_generation(rebuild->sql, end.generation);
}

/* --- what is counted */

static int count_recipes(struct rebuild *rebuild)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_recipe recipe;
	i64 id;
	int r;

	r = rd_recipes(rebuild->sql, &rows);
	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		r = rd_recipe_load(rebuild->sql, id, &recipe);
		if (!r)
			r = rd_recipe_count(rebuild->sql, &recipe);
	}
	return r;
}

/* --- frames */

/* Queue the slots of @frame that no recipe has. */
static int queue_unnamed(struct rd_sql *sql, u64 frame)
{
	struct rd_slots slots;
	unsigned int i;
	int r = rd_frame_slots(sql, frame, &slots);

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		slots.bits[i] = ~slots.bits[i];
	return r ? r : rd_frames_queue(sql, frame, &slots);
}

/* The copy of the catalog has no queue, and nothing else says that packs have lost blocks. */
static int queue_lost(struct rd_sql *sql)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	unsigned int live;
	int r;

	r = rd_packs(sql, &rows, 0);
	while (!r && (r = rd_next_pack(rows, &pack)) > 0) {
		r = rd_frames_count_live(sql, pack.frame, &live);
		if (!r && live < pack.slots)
			r = queue_unnamed(sql, pack.frame);
	}
	return r;
}

/* May any of it take space? Asks once for a hole, however long. */
static bool has_data(const struct rd_area *area, struct hole *hole, u64 offset, u64 len)
{
	off_t data;

	if (!rd_area_can(area, RD_STORE_PUNCH))
		return false;
	if (offset < hole->start || offset >= hole->end) {
		data = rd_store_seek(area->store, offset, SEEK_DATA);
		hole->start = offset;
		hole->end = data >= 0 ? (u64)data : errno == ENXIO ? U64_MAX : offset;
	}
	return hole->end < offset + len;
}

/* Where holes are not told to the block, those of frames in use are in the way of all others. */
static bool has_fps(const struct rd_area *area, struct hole *hole, u64 frame)
{
	return rd_area_can(area, RD_STORE_HOLES) &&
		has_data(area, hole, rd_frame_fps_offset(frame), RD_FPS_SIZE);
}

/*
 * Make the frames between two frames in use free, or queue those that hold data. Nothing is
 * freed here: until the new catalog is in its place, the old one may name that data. The
 * next command frees the queue.
 */
static int add_free(struct rebuild *rebuild, u64 start, u64 end)
{
	const struct rd_area *area = rebuild->area;
	u64 frame;
	int r = 0;

	for (frame = start; frame < end && !r; frame++) {
		if (!rebuild->all_may_be_read &&
		    !has_data(area, &rebuild->frames, rd_frame_offset(frame), RD_SEG_SIZE) &&
		    !has_fps(area, &rebuild->fps, frame))
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
	RD_ROW struct rd_row *rows = NULL;
	u64 leases, frame, next = 0;
	bool by_recipes;
	int r;

	r = rd_lease_count(rebuild->sql, NULL, &leases);
	if (r)
		return r;
	rebuild->all_may_be_read = leases && !rd_area_can(rebuild->area, RD_STORE_PUNCH);
	if (rebuild->all_may_be_read)
		rd_warn("mapped devices read the pool: unused space is freed once they no longer read from it");
	r = rd_frames_forget_free(rebuild->sql);
	if (!r)
		r = rd_frames_named(rebuild->sql, &rows);
	while (!r && (r = rd_next_named(rows, &frame, &by_recipes)) > 0) {
		if (frame >= rebuild->area->super.nr_frames || frame < next)
			return rd_err(-EUCLEAN, "the journal names a frame twice, or one beyond the end of the data area");
		r = add_free(rebuild, next, frame);
		if (!r && by_recipes)
			r = queue_unnamed(rebuild->sql, frame);
		next = frame + 1;
	}
	return r ? r : add_free(rebuild, next, rebuild->area->super.nr_frames);
}

/* --- */

static int fill(struct rebuild *rebuild, struct rd_rebuild_report *report)
{
	int r;

	r = read_journal(rebuild, &report->generation);
	if (!r)
		r = rd_packs_count_slots(rebuild->sql);
	if (!r)
		r = count_recipes(rebuild);
	if (!r)
		r = queue_lost(rebuild->sql);
	if (!r)
		r = rd_recipes_count_uses(rebuild->sql);
	if (!r)
		r = find_frames(rebuild);
	if (!r)
		r = rd_replay_session(rebuild->sql);
	return r ? r : rd_versions_count(rebuild->sql, &report->nr_versions);
}

static int try_new(struct rd_pool *pool, const char *path, enum if_cut if_cut,
		   struct rd_rebuild_report *report)
{
	const struct rd_pool_super *super = &pool->area.super;
	struct rebuild rebuild = {
		.area = &pool->area,
		.journal = super->journal_id,
		.if_cut = if_cut,
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
	report->is_cut = rebuild.is_cut;
	return r;
}

static int make_new(struct rd_pool *pool, const char *path, enum if_cut if_cut,
		    struct rd_rebuild_report *report)
{
	int r;

	do {
		r = try_new(pool, path, if_cut, report);
	} while (r == -EAGAIN);
	return r;
}

/* --- what only the present catalog has */

struct present {
	u64 waiting;		/* changes, in its outbox */
	u64 kept;		/* frames; U64_MAX: that is not known */
};

/* -ESTALE: it is another pool's. */
static int look_at_present(const struct rd_pool *pool, const char *path, struct present *present)
{
	struct rd_sql *sql;
	bool ours = false;
	u8 uuid[16];
	u64 page;
	int r;

	/* Who only reads leaves the file and its log as they are. */
	r = rd_catalog_open(&sql, path, false);
	if (r)
		return r;
	r = rd_sql_check_pages(sql, &page);
	if (!r)
		r = rd_state_uuid(sql, uuid);
	if (!r)
		ours = !memcmp(uuid, pool->area.super.uuid, sizeof(uuid));
	/* 1: it does not say. */
	if (r >= 0)
		r = rd_outbox_count(sql, &present->waiting);
	if (!r && ours)
		r = rd_frames_nr_kept(sql, &present->kept);
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

static int save_present(struct rd_pool *pool, bool force, struct present *present)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	int r;

	if (!path)
		return -ENOMEM;
	/* The map may be there alone. */
	r = rd_pages_know_format(path);
	if (r || access(path, F_OK))
		return r;
	r = look_at_present(pool, path, present);
	/* A later program has changed more than the catalog, or will not have it changed back. */
	if (r == -ENOMEM || r == -EBUSY || r == -EOPNOTSUPP)
		return r;
	if (r && r != -ESTALE)
		rd_warn("the present catalog cannot be used: changes that only it has are left out");
	if (r || !present->waiting)
		return 0;
	r = flush_present(pool, path);
	if (r && force) {
		rd_warn("changes that a command that died left in the catalog are left out");
		return 0;
	}
	if (r)
		rd_remedy(RD_REMEDY_ACCEPT_LOSS, NULL,
			  "the catalog was not changed, and has entries that its copy lacks");
	return r;
}

/*
 * The journal does not have what is kept for another state (see adopt.h), and in the @new catalog
 * all of that is queued.
 */
static int keep_kept(const struct rd_pool *pool, const char *new)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	struct rd_sql *from = NULL, *sql = NULL;
	struct rd_row *rows = NULL;
	int r;

	r = path ? rd_catalog_open(&from, path, false) : -ENOMEM;
	if (!r)
		r = rd_frames_kept(from, &rows, pool->area.super.nr_frames);
	if (!r)
		r = rd_catalog_open(&sql, new, true);
	if (!r)
		r = rd_catalog_do(sql, rd_frames_keep_all(sql, rows));
	if (!r)
		r = rd_sql_settle(sql);
	rd_row_done(rows);
	rd_sql_close(sql);
	rd_sql_close(from);
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

static int rename_to(const struct rd_pool *pool, const char *old_name)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	RD_FREE char *old = rd_path_in(pool->path, old_name);

	return path && old ? rd_catalog_rename(path, old) : -ENOMEM;
}

/* SQLite must not find the old one's log beside the new one. */
static int switch_to(struct rd_pool *pool, const char *new, const char *old_name)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	int r = path ? rename_to(pool, old_name) : -ENOMEM;

	if (!r)
		r = rd_catalog_rename(new, path);
	return r ? r : rd_sync_directory(pool->path);
}

/*
 * The catalog that is new is in its place. A journal with a damaged part is left for a new one, or
 * the next rebuild would find that part again. A full pool can make room once it has a catalog.
 */
static int leave_damage(struct rd_pool *pool)
{
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	bool fenced = rd_area_can(&pool->area, RD_STORE_FENCED);
	int r = path ? rd_catalog_open(&pool->sql, path, true) : -ENOMEM;

	if (r)
		return r;
	r = fenced ? rd_fence_rebuilt(pool) : rd_journal_renew(pool, 0);
	if (r == -ENOSPC && !fenced) {
		rd_warn("the damaged part of the copy stays, and the next rebuild finds it again");
		r = 0;
	}
	rd_sql_close(pool->sql);
	pool->sql = NULL;
	return r;
}

int rd_rebuild_catalog(struct rd_pool *pool, bool force, struct rd_rebuild_report *report)
{
	RD_FREE char *new = rd_path_in(pool->path, "catalog.new");
	struct present present = { .kept = U64_MAX };
	char old[RD_REBUILD_OLD];
	int r;

	if (!new)
		return -ENOMEM;
	memset(report, 0, sizeof(*report));
	r = save_present(pool, force, &present);
	if (!r)
		r = make_new(pool, new, force ? TAKE_CUT : REFUSE_CUT, report);
	if (!r && present.kept && present.kept != U64_MAX)
		r = keep_kept(pool, new);
	if (r)
		return r;
	if (present.kept == U64_MAX && rd_is_in(pool->path, "catalog.old"))
		rd_warn("frames may have been kept for '%s': that is not known any more, and they are given back",
			"catalog.old");
	choose_old(pool, old);
	if (rd_is_in(pool->path, "catalog.db"))
		snprintf(report->old, sizeof(report->old), "%s", old);
	r = switch_to(pool, new, old);
	if (r || !(report->is_cut || rd_area_can(&pool->area, RD_STORE_FENCED)))
		return r;
	return leave_damage(pool);
}

int rd_rebuild_set_aside(struct rd_pool *pool)
{
	char name[RD_REBUILD_OLD];
	int r;

	if (!rd_is_in(pool->path, "catalog.db"))
		return 0;
	choose_old(pool, name);
	r = rename_to(pool, name);
	if (!r)
		rd_warn("the catalog that was here is kept as '%s'", name);
	return r ? r : rd_sync_directory(pool->path);
}

int rd_rebuild_cache(struct rd_pool *pool)
{
	RD_FREE char *new = rd_path_in(pool->path, "catalog.new");
	RD_FREE char *path = rd_path_in(pool->path, "catalog.db");
	struct rd_rebuild_report report = { 0 };
	int r;

	if (!new || !path)
		return -ENOMEM;
	r = make_new(pool, new, REFUSE_CUT, &report);
	if (!r)
		r = rd_catalog_remove(path);
	if (!r)
		r = rd_catalog_rename(new, path);
	return r ? r : rd_sync_directory(pool->path);
}

/* Is it the journal that @r is from, and not the catalog that was to be made of it? */
static bool is_of_journal(const struct rd_pool *pool, int r)
{
	const struct rd_journal_reader nothing = { .change = NULL };
	struct rd_journal_end end = { .frame = pool->area.super.journal_frame };

	/* Some devices say otherwise than by EIO that a sector cannot be read. */
	if (r == -EIO || r == -EILSEQ || r == -EREMOTEIO)
		return rd_journal_read(&pool->area, &end, &nothing) == r;
	return r == -EUCLEAN || r == -EBADMSG;
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
	r = make_new(pool, new, KEEP_CUT, &report);
	if (r == -EINTR)
		return r;
	if (r && !is_of_journal(pool, r))
		return rd_err(r, "cannot make '%s' of the copy of the catalog", ret);
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
	u64 frame;
	int r = rd_frames_unkeep_journal(sql);

	/* One that is kept is not queued. */
	while (!r && !(r = rd_frames_unkeep(sql, &frame)))
		r = queue_unnamed(sql, frame);
	return r == -ENOENT ? 0 : r;
}

int rd_rebuild_queue_unnamed(struct rd_pool *pool)
{
	struct rebuild rebuild = { .sql = pool->sql, .area = &pool->area };
	RD_ROW struct rd_row *rows = NULL;
	struct rd_buffer extents = { 0 };
	struct rd_extent extent;
	size_t at;
	int r;

	/* What is free stays so until it is queued. */
	r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_frames_extents(pool->sql, &rows);
	while (!r && (r = rd_next_extent(rows, &extent)) > 0)
		r = rd_buffer_put(&extents, &extent, sizeof(extent));
	if (!r)
		r = rd_frames_forget_free(pool->sql);
	for (at = 0; at < extents.len && !r; at += sizeof(extent)) {
		memcpy(&extent, extents.data + at, sizeof(extent));
		r = add_free(&rebuild, extent.start, extent.start + extent.len);
	}
	rd_buffer_free(&extents);
	return rd_catalog_end(pool->sql, r);
}
