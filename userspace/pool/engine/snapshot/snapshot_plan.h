/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which segments a snapshot reads. All of them; or, with a list of changes, those that
 *
 *	- are in a range of the list
 *	- the version before has in too many pieces: they are written again to be whole
 *	- are audited: a few that should not have changed, others each time
 *
 * Where an audit finds a change, the snapshot begins again, with all of them.
 */
#ifndef RD_SNAPSHOT_PLAN_H
#define RD_SNAPSHOT_PLAN_H

#include "pool/catalog/versions.h"
#include "snapshot.h"

#define RD_PLAN_AHEAD	1024		/* segments whose recipes are read at a time */
#define RD_PLAN_RANDOM	4		/* segments that are audited, and not in turn */

struct rd_snapshot_plan {
	struct rd_sql *sql;
	const struct rd_version *base;	/* the version before; id 0: none */
	i64 number;			/* of the new version */
	u64 nr_segs;			/* of the image */
	u64 end;			/* the same, or where the version before ended */
	unsigned int max_pieces;	/* of a segment */
	u64 next;			/* segment to look at */
	bool all;			/* read everything */
	const struct rd_changed *changed;	/* unless @all */
	unsigned int range;		/* of these */
	u64 audit_random[RD_PLAN_RANDOM];
	u8 *pieces;			/* a bit for each segment in pieces; NULL: there is none */
	u64 pieces_next;		/* next segment in pieces */
	u64 window;			/* first segment of recipes[] */
	unsigned int window_len;
	i64 recipes[RD_PLAN_AHEAD];
};

/*
 * Plan to read an image of @nr_segs segments as version @number, after @base, no segment of
 * which may be in more than @max_pieces pieces. Read all of it if @changed is NULL.
 */
int rd_plan_begin(struct rd_snapshot_plan *plan, struct rd_sql *sql,
		  const struct rd_version *base, i64 number, u64 nr_segs,
		  unsigned int max_pieces, const struct rd_changed *changed);
void rd_plan_free(struct rd_snapshot_plan *plan);

/*
 * Find the next segment to read, U64_MAX if there is none. *@ret_audit: it is audited, and
 * should not have changed. It stays the next one until rd_plan_take().
 */
u64 rd_plan_next(struct rd_snapshot_plan *plan, bool *ret_audit);
void rd_plan_take(struct rd_snapshot_plan *plan, u64 segment);

/*
 * Find the blocks of @segment, the next one, that the list has: the first, and the end of the
 * last. All, if it is audited. Returns whether these are read alone: a segment whose turn it is
 * has its other blocks audited, and one in too many pieces, or of which most is listed, is
 * written as a whole.
 */
bool rd_plan_is_partial(struct rd_snapshot_plan *plan, u64 segment, u64 size,
			unsigned int *ret_first, unsigned int *ret_end);

/*
 * Skip segments before segment @data, where the image has no data, as far as the version
 * before has none either.
 */
int rd_plan_skip(struct rd_snapshot_plan *plan, u64 data);

/* Begin again, and read all segments. */
void rd_plan_read_all(struct rd_snapshot_plan *plan);

/* Find the recipe that the version before has for @segment, 0: zeros. */
int rd_plan_old_recipe(struct rd_snapshot_plan *plan, u64 segment, i64 *ret);

#endif
