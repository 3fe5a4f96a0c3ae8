// SPDX-License-Identifier: GPL-2.0
/*
 * Leave the version before, when a version was made: each recipe that it had where the new one has
 * another is referred to by one newest version less. A recipe that no newest version refers to is
 * superseded. (In batches; version.cursor says how far that is.)
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "reverse_parts.h"

#define BATCH	2048		/* segments a transaction */

static int leave_segment(struct rd_sql *sql, const struct rd_version *version, i64 segment)
{
	i64 recipe;
	int r = rd_segment_before(sql, version, segment, &recipe);

	if (r)
		return r == -ENOENT ? 0 : r;
	return recipe ? rd_recipe_unref(sql, recipe, 0, 1, version->volume) : 0;
}

static int leave_batch(struct rd_sql *sql, struct rd_version *version,
		       struct rd_segment_content *rows, bool *ret_more)
{
	unsigned int i, nr;
	int r;

	r = rd_segments_born(sql, version, version->cursor, rows, BATCH, &nr);
	for (i = 0; i < nr && !r; i++) {
		r = leave_segment(sql, version, rows[i].segment);
		version->cursor = rows[i].segment + 1;
	}
	*ret_more = nr == BATCH;
	if (!r && !*ret_more)
		version->state = RD_VERSION_DONE;
	return r ? r : rd_version_set_state(sql, version);
}

int rd_leave_before(struct rd_pool *pool, struct rd_version *version)
{
	RD_FREE struct rd_segment_content *rows = malloc(BATCH * sizeof(*rows));
	bool more = true;
	int r = rows ? 0 : -ENOMEM;

	while (!r && more) {
		r = rd_failpoint("reverse-vacate");
		if (!r)
			r = rd_catalog_do(pool->sql, leave_batch(pool->sql, version, rows, &more));
		if (!r && more)
			rd_sql_pause();
	}
	return r;
}
