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

#include "adopt.h"
#include "check.h"
#include "engine.h"
#include "journal.h"
#include "log.h"
#include "recover.h"

static int check_catalog(struct rd_pool *pool)
{
	struct rd_check_report report = { .wrong = NULL };
	int r;

	r = rd_check_catalog(pool, &report);
	if (r || !report.nr_wrong)
		return r;
	rd_err(0, "the catalog of '%s' is damaged as well", pool->path);
	rd_hint("nothing was changed; 'revdedupctl repair --rebuild-catalog' makes one from the data area");
	return -EUCLEAN;
}

int rd_adopt_catalog(struct rd_pool *pool, char old[RD_REBUILD_OLD])
{
	int r;

	r = check_catalog(pool);
	if (!r)
		r = rd_rebuild_keep(pool, old);
	if (!r)
		r = rd_journal_renew(pool);
	return r ? r : rd_recover(pool);
}

int rd_adopt_finish(struct rd_pool *pool)
{
	int r = rd_rebuild_queue_unnamed(pool);

	return r ? r : rd_free_queue(pool);
}
