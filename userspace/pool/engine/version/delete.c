// SPDX-License-Identifier: GPL-2.0
/*
 * Delete a version, whichever.
 *
 * Its state becomes DELETING: it does not exist any more. (If a device reads it,
 * HELD, and the rest is done when no device does.) Then the rows that no other version
 * sees go, in batches: those born after the version before it
 * and not later than it, unless the version after it still sees them. Where the
 * newest version goes, the one before is the newest from then on.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "pool/catalog/leases.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "version.h"
#include "undo.h"

#define BATCH	2048

struct deletion {
	struct rd_pool *pool;
	struct rd_version *version;
	i64 before;		/* number of the version before, or 0 */
	i64 after;		/* of the version after, or 0: it was the newest */
	struct rd_segment_content done;	/* rows up to this one */
};

/* Does the version after see the row, too? */
static int is_seen(struct deletion *d, const struct rd_segment_content *row, bool *ret)
{
	i64 next;
	int r;

	*ret = false;
	if (!d->after)
		return 0;
	r = rd_segment_next_born(d->pool->sql, d->version->volume, row->segment, row->born, &next);
	*ret = r == -ENOENT || next > d->after;
	return r == -ENOENT ? 0 : r;
}

/* Count the recipe of the version before, where the row of the newest version is gone. */
static int restore_before(struct deletion *d, i64 segment)
{
	i64 recipe;
	int r;

	if (d->after || !d->before)
		return 0;
	r = rd_segments_read(d->pool->sql, d->version->volume, d->before, segment, 1, &recipe);
	return r || !recipe ? r : rd_recipe_ref(d->pool->sql, recipe, 0, 1);
}

/* 1: its recipe is not ready to go, and the transaction is long enough. */
static int delete_row(struct deletion *d, const struct rd_segment_content *row, unsigned int *maps)
{
	struct rd_sql *sql = d->pool->sql;
	i64 volume = d->version->volume;
	bool seen;
	int r;

	r = is_seen(d, row, &seen);
	if (r || seen)
		return r;
	r = row->recipe ? rd_recipe_prepare(sql, row->recipe, maps) : 0;
	if (r)
		return r;
	r = rd_segment_remove(sql, volume, row);
	if (!r)
		r = restore_before(d, row->segment);
	if (!r && row->recipe)
		r = rd_recipe_unref(sql, row->recipe, 1, !d->after, volume);
	return r;
}

static int delete_batch(struct deletion *d, struct rd_segment_content *rows, bool *ret_more)
{
	unsigned int i, nr, maps = RD_HAND_OVERS;
	int r;

	/* The rows are read before any is deleted. */
	r = rd_segments_born_between(d->pool->sql, d->version->volume, d->before,
				     d->version->number, &d->done, rows, BATCH, &nr);
	for (i = 0; i < nr && !r; i++) {
		r = delete_row(d, &rows[i], &maps);
		if (!r)
			d->done = rows[i];
	}
	*ret_more = r > 0 || nr == BATCH;
	if (r > 0)
		r = 0;
	if (!r && !*ret_more)
		r = rd_version_remove(d->pool->sql, d->version);
	return r;
}

static int delete_rows(struct deletion *d)
{
	RD_FREE struct rd_segment_content *rows = malloc(BATCH * sizeof(*rows));
	bool more = true;
	int r = rows ? 0 : -ENOMEM;

	while (!r && more) {
		r = rd_failpoint("delete-rows");
		if (!r)
			r = rd_catalog_do(d->pool->sql, delete_batch(d, rows, &more));
		if (!r && more)
			rd_sql_pause();
	}
	return r;
}

int rd_delete_resume(struct rd_pool *pool, struct rd_version *version)
{
	struct deletion d = { .pool = pool, .version = version, .done.segment = -1 };
	struct rd_version other;
	int r;

	r = rd_version_before(pool->sql, version->volume, version->number, &other);
	if (!r)
		d.before = other.number;
	else if (r != -ENOENT)
		return r;
	r = rd_version_after(pool->sql, version->volume, version->number, &other);
	if (!r)
		d.after = other.number;
	else if (r != -ENOENT)
		return r;
	r = delete_rows(&d);
	return r ? r : rd_reverse_superseded(pool, version->volume);
}

/* To protect a version takes no lock of the volume. One that is HELD is deleted to users. */
static int may_end(struct rd_sql *sql, struct rd_version *version, rd_may_delete *may, void *ctx)
{
	struct rd_version now;
	int r;

	r = rd_version_by_id(sql, version->id, &now);
	if (r || !rd_version_exists(&now))
		return r;
	version->is_protected = now.is_protected;
	return now.is_protected ? -EPERM : may ? may(ctx, &now) : 0;
}

/* Leases come and go without the lock of the volume, too. */
static int end_version(struct rd_sql *sql, struct rd_version *version, rd_may_delete *may,
		       void *ctx)
{
	u64 leases;
	int r;

	r = may_end(sql, version, may, ctx);
	if (!r)
		r = rd_lease_count(sql, version, &leases);
	if (r)
		return r;
	version->state = leases ? RD_VERSION_HELD : RD_VERSION_DELETING;
	return rd_version_end(sql, version);
}

/* What has arrived of a version to come is based on the newest one, and goes with it. */
static int undo_partial(struct rd_pool *pool, const struct rd_version *version)
{
	struct rd_version other;
	int r = rd_version_after(pool->sql, version->volume, version->number, &other);

	if (r != -ENOENT)
		return r;
	r = rd_version_partial(pool->sql, version->volume, &other);
	return r ? r == -ENOENT ? 0 : r : rd_undo_version(pool->sql, other.id);
}

int rd_delete(struct rd_pool *pool, struct rd_version *version, rd_may_delete *may, void *ctx)
{
	int r;

	if (version->state == RD_VERSION_PARTIAL)
		return rd_undo_version(pool->sql, version->id);
	/* Before something is undone for it, and again when nothing can change any more. */
	r = may_end(pool->sql, version, may, ctx);
	if (!r)
		r = undo_partial(pool, version);
	if (!r)
		r = rd_catalog_do(pool->sql, end_version(pool->sql, version, may, ctx));
	return r || version->state == RD_VERSION_HELD ? r : rd_delete_resume(pool, version);
}
