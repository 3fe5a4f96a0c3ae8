// SPDX-License-Identifier: GPL-2.0
/*
 * Go on from the catalog.
 *
 * The catalog must be sound, by its own counts. Blocks that it names may be gone: each is
 * checked when it is read. The journal that is there is the only record of what the data
 * area has and the catalog does not know, so it is kept, as a catalog, before a new one
 * is begun.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/version/recover.h"
#include "pool/engine/version/version.h"
#include "adopt.h"
#include "check.h"

static int check_catalog(struct rd_pool *pool)
{
	struct rd_check_report report = { .wrong = NULL };
	int r;

	r = rd_check_catalog(pool, &report);
	if (r || !report.nr_wrong)
		return r;
	rd_err(0, "the catalog of '%s' is damaged as well", pool->path);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

/* Keep the frames of the catalog @other: of its recipes, of its journal and in its queue. */
static int keep_frames_of(struct rd_pool *pool, struct rd_sql *other)
{
	RD_ROW struct rd_row *rows = NULL;
	int r = rd_frames_not_free(other, &rows);

	return r ? r : rd_frames_keep_all(pool->sql, rows);
}

static int keep_frames(struct rd_pool *pool, const char *old)
{
	RD_FREE char *path = rd_path_in(pool->path, old);
	struct rd_sql *other;
	int r;

	r = path ? rd_catalog_open(&other, path, false) : -ENOMEM;
	if (r)
		return r;
	r = rd_catalog_do(pool->sql, keep_frames_of(pool, other));
	rd_sql_close(other);
	return r;
}

int rd_adopt_catalog(struct rd_pool *pool, char old[RD_REBUILD_OLD])
{
	int r;

	r = check_catalog(pool);
	if (!r)
		r = rd_rebuild_keep(pool, old);
	/* The pool may have grown since: all that is not kept of that is room. */
	if (!r)
		r = rd_catalog_do(pool->sql,
				  rd_frames_free_new(pool->sql, pool->area.super.nr_frames));
	/* Before anything is written, or given back, that the other state needs. */
	if (!r)
		r = old[0] ? keep_frames(pool, old) : rd_rebuild_queue_unnamed(pool);
	if (!r)
		r = rd_journal_renew(pool, 0);
	if (r)
		return r;
	pool->life = RD_LIFE_ONE;
	return rd_recover(pool);
}

int rd_adopt_finish(struct rd_pool *pool)
{
	u64 nr;
	int r;

	r = rd_frames_nr_kept(pool->sql, &nr);
	if (r || !nr)
		return r;
	r = rd_catalog_do(pool->sql, rd_rebuild_queue_kept(pool->sql));
	return r ? r : rd_free_queue(pool);
}
