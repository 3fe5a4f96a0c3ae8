// SPDX-License-Identifier: GPL-2.0
/*
 * Undo versions that do not exist yet.
 *
 * A version does not exist before the last transaction of the snapshot that makes it.
 * Until then its rows are seen by no version, and so they can go one by one. A crash
 * leaves a version with fewer rows, which the next command undoes.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/catalog/sessions.h"
#include "pool/catalog/versions.h"
#include "undo.h"

/* Tests want more than one. */
#ifdef RD_TEST
#define BATCH	2
#else
#define BATCH	2048
#endif

/* 1: a recipe is not ready to go, and the transaction is long enough. */
static int undo_row(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row,
		    unsigned int *maps)
{
	int r = 0;

	/* It may be the last row of a recipe that other versions had meanwhile. */
	if (row->recipe)
		r = rd_recipe_prepare(sql, row->recipe, maps);
	if (r)
		return r;
	r = rd_segment_remove(sql, volume, row);
	if (!r && row->recipe)
		r = rd_recipe_unref(sql, row->recipe, 1, 1, volume);
	return r;
}

static int undo_batch(struct rd_sql *sql, const struct rd_version *version,
		      struct rd_segment_content *rows, bool *ret_more)
{
	unsigned int i, nr, maps = RD_HAND_OVERS;
	int r;

	r = rd_segments_born(sql, version, 0, rows, BATCH, &nr);
	for (i = 0; i < nr && !r; i++)
		r = undo_row(sql, version->volume, &rows[i], &maps);
	*ret_more = r > 0 || nr == BATCH;
	return r > 0 ? 0 : r;
}

/* From the first row that goes on, no feed may go on with it: it is one that a crash has left. */
static int give_up(struct rd_sql *sql, struct rd_version *version)
{
	int r = rd_catalog_begin(sql);

	if (r)
		return r;
	version->state = RD_VERSION_WRITING;
	version->cursor = 0;
	return rd_catalog_end(sql, rd_version_set_state(sql, version));
}

/* @removes: the version as well, with the last of its rows. */
static int undo_rows(struct rd_sql *sql, const struct rd_version *version, bool removes)
{
	RD_FREE struct rd_segment_content *rows = malloc(BATCH * sizeof(*rows));
	bool more = true;
	int r = rows ? 0 : -ENOMEM;

	while (!r && more) {
		r = rd_failpoint("recover-undo");
		if (!r)
			r = rd_catalog_begin(sql);
		if (r)
			break;
		r = undo_batch(sql, version, rows, &more);
		if (!r && !more && removes)
			r = rd_version_remove(sql, version);
		r = rd_catalog_end(sql, r);
		if (!r && more)
			rd_sql_pause();
	}
	return r;
}

int rd_undo_rows(struct rd_sql *sql, const struct rd_version *version)
{
	return undo_rows(sql, version, false);
}

int rd_undo_version(struct rd_sql *sql, i64 id)
{
	struct rd_version version;
	int r = rd_version_by_id(sql, id, &version);

	if (!r && version.state == RD_VERSION_PARTIAL)
		r = give_up(sql, &version);
	if (!r)
		r = undo_rows(sql, &version, true);
	return r == -ENOENT ? 0 : r;
}

int rd_undo_version_of(struct rd_sql *sql, i64 id)
{
	i64 version;
	int r = rd_session_version(sql, id, &version);

	return r || !version ? r : rd_undo_version(sql, version);
}
