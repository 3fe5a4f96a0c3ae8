/* SPDX-License-Identifier: GPL-2.0 */
/* What live_snapshot.c and live_group.c share: the steps of live_snapshot.h for one volume. */
#ifndef RD_LIVE_PARTS_H
#define RD_LIVE_PARTS_H

#include "host/volume/attach/view_pool.h"
#include "host/volume/freeze/freeze.h"
#include "live_snapshot.h"

struct rd_live {
	const struct rd_caller *caller;
	struct rd_pool *pool;		/* of it */
	struct rd_attachment *at;
	const struct rd_live_options *options;
	struct rd_freeze freeze;
	struct rd_view_pool reads;	/* from here, the view */
	i64 volume;			/* its id in the catalog; 0: it has none */
	struct rd_version last;		/* the newest one that the pool has; id 0: none */
	struct rd_buffer ranges;	/* struct rd_changed_range, that are dirty */
	struct rd_changed changed;
	struct rd_snapshot_options snapshot;
	bool copied;		/* all is read: what is overwritten is not needed any more */
	bool committed;
	bool is_shared;		/* a program writes past the target, or could */
};

void rd_live_init(struct rd_live *live, const struct rd_caller *caller, struct rd_attachment *at,
		  const struct rd_live_options *options);
/* 1, and all that can be done before the volume is held still. */
int rd_live_prepare(struct rd_live *live);
/* 2, for @nr volumes with the same pool and options: of one moment. */
int rd_live_freeze(struct rd_live *const *lives, unsigned int nr);
/* Fill in live->snapshot, with which 3 can begin. */
int rd_live_ready(struct rd_live *live);
/* 4: the version exists. */
int rd_live_commit(struct rd_live *live, const struct rd_version *version);
/* Clean up if no version was made, or if it was and the commit failed. */
void rd_live_give_up(struct rd_live *live);
/* End it: 0 or the first error, of which @r comes before all others. */
int rd_live_end(struct rd_live *live, int r, struct rd_live_report *report);

#endif
