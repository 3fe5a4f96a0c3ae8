/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What versions have in their segments: the table segment. A row says that the volume has
 * this content in that segment from version "born" on, until a row of a later version says
 * otherwise; recipe 0 is zeros. A version sees the row of each segment that was born last,
 * of those that were not born after the version.
 */
#ifndef RD_SEGMENTS_H
#define RD_SEGMENTS_H

#include "base/buffer.h"
#include "pool/data/fp.h"
#include "db.h"

struct rd_version;

/* Find the first segment from @from on that any version of @volume has a row of. -ENOENT. */
int rd_segment_next(struct rd_sql *sql, i64 volume, u64 from, u64 *ret);

/*
 * Read the recipes of @nr segments from @first on, as version @number has them: 0 for
 * zeros.
 */
int rd_segments_read(struct rd_sql *sql, i64 volume, i64 number, u64 first, unsigned int nr,
		     i64 *recipes);

/* Ask for @max recipes above @after that segments have, in order: rd_next_id(). */
int rd_segments_recipes(struct rd_sql *sql, struct rd_row **ret, i64 after, unsigned int max);

/* A row, and the last version that may see it; INT64_MAX: no row has taken its place. */
struct rd_segment_row {
	i64 volume;
	u64 segment;
	i64 born;
	i64 until;
};

/* Ask for the rows that have @recipe: rd_next_segment_row(). */
int rd_segment_rows(struct rd_sql *sql, struct rd_row **ret, i64 recipe);
int rd_next_segment_row(struct rd_row *rows, struct rd_segment_row *ret);

/*
 * A row, with the fingerprint of its content and that of the row whose place it takes. NULL
 * or of another length: zeros, none, or a recipe that is missing.
 */
struct rd_segment_birth {
	u64 segment;
	i64 born;
	const void *fp, *before;
	size_t fp_len, before_len;
};

/* Ask for all rows of @volume in the order of birth: rd_next_birth(). */
int rd_segment_births(struct rd_sql *sql, struct rd_row **ret, i64 volume);
int rd_next_birth(struct rd_row *rows, struct rd_segment_birth *ret);

/*
 * Append the recipes, i64 each and in order, that no row would name if the @nr versions
 * @ids were gone. A version that a device reads counts as one that stays.
 */
int rd_segments_dying(struct rd_sql *sql, const i64 *ids, size_t nr, struct rd_buffer *ret);

/* --- rows, one by one */

/* From version @born on @segment has @recipe, until the next row; 0: zeros. */
struct rd_segment_content {
	i64 segment, born, recipe;
};

/* Up to @max rows born with @version, of segments from @first on, in their order. */
int rd_segments_born(struct rd_sql *sql, const struct rd_version *version, i64 first,
		     struct rd_segment_content *rows, unsigned int max, unsigned int *ret_nr);
/*
 * Up to @max rows of @volume born after version @before and not after @last, in the
 * order of birth, then of segments; only rows that come after (@after->born,
 * @after->segment).
 */
int rd_segments_born_between(struct rd_sql *sql, i64 volume, i64 before, i64 last,
			     const struct rd_segment_content *after,
			     struct rd_segment_content *rows, unsigned int max,
			     unsigned int *ret_nr);
/* Ask for the segments below @end that have, or had, @recipe: rd_next_segment(). */
int rd_segments_with(struct rd_sql *sql, struct rd_row **ret, i64 volume, i64 recipe, u64 end);
int rd_next_segment(struct rd_row *rows, u64 *ret);
/* One of them, any. -ENOENT. */
int rd_segment_with(struct rd_sql *sql, i64 volume, i64 recipe, i64 *ret_segment);
/* The version with which the next row of @segment after @born is born. -ENOENT. */
int rd_segment_next_born(struct rd_sql *sql, i64 volume, i64 segment, i64 born, i64 *ret_born);
/* The recipe of the last row of @segment born before @version, 0: zeros. -ENOENT. */
int rd_segment_before(struct rd_sql *sql, const struct rd_version *version, i64 segment,
		      i64 *ret_recipe);
/* In a transaction. The counts of recipes are the caller's. */
int rd_segment_insert(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row);
int rd_segment_remove(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row);

#endif
