/* SPDX-License-Identifier: GPL-2.0 */
/* Make a new catalog from the journal in the data area. */
#ifndef RD_REBUILD_H
#define RD_REBUILD_H

#include "pool/pool.h"

#define RD_REBUILD_OLD	32

struct rd_rebuild_report {
	u64 nr_versions;
	u64 generation;
	bool is_cut;			/* the journal had more, behind a damaged part */
	char old[RD_REBUILD_OLD];	/* the file of the previous catalog; "": none */
};

/*
 * Make a new catalog for @pool, which is open as RD_POOL_REPAIR. The present catalog, if
 * any, is kept as catalog.old, catalog.old.2 and so on; on failure it stays in its place.
 * If it is sound, changes that only it has are written to the journal first. If that fails,
 * or if the journal goes on behind a damaged part, these changes would be lost: this is
 * refused unless @force is set.
 */
int rd_rebuild_catalog(struct rd_pool *pool, bool force, struct rd_rebuild_report *report);

/*
 * The same where the journal is what counts: the catalog that is there is dropped, whatever it has.
 * pool->sql is not open.
 */
int rd_rebuild_cache(struct rd_pool *pool);

/* Keep the present catalog, if any, under such a name, and have none. */
int rd_rebuild_set_aside(struct rd_pool *pool);

/*
 * Make a catalog from the readable part of the journal beside the catalog with which @pool
 * continues. @ret is its name, catalog.old, catalog.old.2 and so on; "", after a message:
 * there is nothing to keep.
 */
int rd_rebuild_keep(struct rd_pool *pool, char ret[RD_REBUILD_OLD]);

/* Queue all that is kept (see rd_frames_keep()) and not in use; in a transaction. */
int rd_rebuild_queue_kept(struct rd_sql *sql);

/* Queue whatever takes space in free frames. */
int rd_rebuild_queue_unnamed(struct rd_pool *pool);

#endif
