/* SPDX-License-Identifier: GPL-2.0 */
/* Make the catalog anew from the journal in the data area. */
#ifndef RD_REBUILD_H
#define RD_REBUILD_H

#include "pool/pool.h"

#define RD_REBUILD_OLD	32

struct rd_rebuild_report {
	u64 nr_versions;
	u64 generation;
	char old[RD_REBUILD_OLD];	/* what the one before is called; "": none */
};

/*
 * @pool is open for repair. The catalog that is there, if any, is kept as
 * catalog.old, or catalog.old.2 and so on; on failure it is as it was. If it is
 * sound, what it has and the journal has not is brought there first. Where that
 * fails, or the journal has something behind a damaged part, this is lost: that is
 * refused unless @force.
 */
int rd_rebuild_catalog(struct rd_pool *pool, bool force, struct rd_rebuild_report *report);

/*
 * The same beside the catalog that @pool goes on with: what the journal says, as far as it
 * can be read, is in catalog.old, or catalog.old.2 and so on, and @ret is its name; "":
 * there is nothing to keep, which is told.
 */
int rd_rebuild_keep(struct rd_pool *pool, char ret[RD_REBUILD_OLD]);

/* In a transaction: what is kept (see rd_frames_keep()) and not in use is to be given back. */
int rd_rebuild_queue_kept(struct rd_sql *sql);

/* What takes space in frames that are free is to be given back. */
int rd_rebuild_queue_unnamed(struct rd_pool *pool);

#endif
