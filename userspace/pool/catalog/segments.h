/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of the segments of versions: the table segment. A row says that a segment of
 * a volume has the content of a recipe from version "born" on, until a row of a later
 * version replaces it; recipe 0 is zeros. A version sees, of each segment, the last row that
 * was born before it or with it.
 */
#ifndef RD_SEGMENTS_H
#define RD_SEGMENTS_H

#include "db.h"

struct rd_version;

/* Find the first segment from @from on that any version of @volume has a row of. -ENOENT. */
int rd_segment_next(struct rd_sql *sql, i64 volume, u64 from, u64 *ret);

/* Count the segments, @max at most, in which any version of @volume has or had content. */
int rd_segments_count(struct rd_sql *sql, i64 volume, u64 max, u64 *ret);

/*
 * Read the recipes that version @number has for @nr segments from @first on; 0: zeros.
 */
int rd_segments_read(struct rd_sql *sql, i64 volume, i64 number, u64 first, unsigned int nr,
		     i64 *recipes);
/* The same, and since which version; 0: there is no row, so it is zeros. */
int rd_segments_read_born(struct rd_sql *sql, i64 volume, i64 number, u64 first,
			  unsigned int nr, i64 *recipes, i64 *born);

/*
 * Ask for the @max youngest recipes below @below, and above @above, that segments have, the
 * youngest first: rd_next_id().
 */
int rd_segments_recipes(struct rd_sql *sql, struct rd_row **ret, i64 below, i64 above,
			unsigned int max);

/* A row, and the last version that may see it; INT64_MAX: no later row replaces it. */
struct rd_segment_row {
	i64 volume;
	u64 segment;
	i64 born;
	i64 until;
};

/* Ask for the rows that have @recipe: rd_next_segment_row(). */
int rd_segment_rows(struct rd_sql *sql, struct rd_row **ret, i64 recipe);
int rd_next_segment_row(struct rd_row *rows, struct rd_segment_row *ret);

/* A recipe in a segment from version @born on, until another row is born in @next. */
struct rd_segment_life {
	i64 recipe;
	i64 born, next;		/* @next: INT64_MAX: none */
};

/* Ask for the rows of @volume that are not zeros, and that no other replaces: rd_next_life(). */
int rd_segment_lives(struct rd_sql *sql, struct rd_row **ret, i64 volume);
/* Ask for those that another replaces, from the last of these back to the first. */
int rd_segment_past_lives(struct rd_sql *sql, struct rd_row **ret, i64 volume);
int rd_next_life(struct rd_row *rows, struct rd_segment_life *ret);

/* Find the time of the youngest version that has @recipe. -ENOENT: none has. */
int rd_recipe_last_seen(struct rd_sql *sql, i64 recipe, i64 *ret_time);
/*
 * Count the versions, @max at most, that have come since one of them replaced @recipe; of several
 * volumes or segments, where there are fewest.
 */
int rd_recipe_newer(struct rd_sql *sql, i64 recipe, unsigned int max, unsigned int *ret);

/*
 * A row, with the fingerprints of its content and of the row that it replaces. A fingerprint
 * that is NULL or has another length: zeros, no row, or a missing recipe.
 */
struct rd_segment_birth {
	u64 segment;
	i64 born;
	const void *fp, *before;
	size_t fp_len, before_len;
};

/* Of a part of a volume: in how many segments another content is born. */
struct rd_segment_part {
	i64 born;
	u64 part, nr;
	u64 zeros;		/* of them, those that become zeros */
};

/*
 * Ask for the births of @volume, whose @nr_segs segments are divided into @parts: by version, then
 * by part: rd_next_segment_part().
 */
int rd_segment_parts(struct rd_sql *sql, struct rd_row **ret, i64 volume, u64 parts, u64 nr_segs);
int rd_next_segment_part(struct rd_row *rows, struct rd_segment_part *ret);

/* How the segments of a part of the newest version lie in the pool; the others are zeros. */
struct rd_latest_part {
	u64 part;
	u64 whole, several;	/* in one piece, or more */
	u64 packed;		/* of both, those in packs */
};

/* Ask for those of @version, the newest one, in the same way: rd_next_latest_part(). */
int rd_latest_parts(struct rd_sql *sql, struct rd_row **ret, const struct rd_version *version,
		    u64 parts, u64 nr_segs);
int rd_next_latest_part(struct rd_row *rows, struct rd_latest_part *ret);

/* Ask for all rows of @volume in the order of birth: rd_next_birth(). */
int rd_segment_births(struct rd_sql *sql, struct rd_row **ret, i64 volume);
int rd_next_birth(struct rd_row *rows, struct rd_segment_birth *ret);

/* --- rows, one by one */

/* @segment has @recipe (0: zeros) from version @born on, until its next row. */
struct rd_segment_content {
	i64 segment, born, recipe;
};

/* Read up to @max rows born with @version, of segments from @first on, in order. */
int rd_segments_born(struct rd_sql *sql, const struct rd_version *version, i64 first,
		     struct rd_segment_content *rows, unsigned int max, unsigned int *ret_nr);
/*
 * Read up to @max rows of @volume born after version @before and not after @last, in the
 * order of birth, then of segments. Begin behind (@after->born, @after->segment).
 */
int rd_segments_born_between(struct rd_sql *sql, i64 volume, i64 before, i64 last,
			     const struct rd_segment_content *after,
			     struct rd_segment_content *rows, unsigned int max,
			     unsigned int *ret_nr);
/* Ask for the segments below @end that have, or had, @recipe: rd_next_segment(). */
int rd_segments_with(struct rd_sql *sql, struct rd_row **ret, i64 volume, i64 recipe, u64 end);
int rd_next_segment(struct rd_row *rows, u64 *ret);
/* Find any one of these segments. -ENOENT. */
int rd_segment_with(struct rd_sql *sql, i64 volume, i64 recipe, i64 *ret_segment);
/* Find the version in which the next row of @segment after @born is born. -ENOENT. */
int rd_segment_next_born(struct rd_sql *sql, i64 volume, i64 segment, i64 born, i64 *ret_born);
/* Find the recipe (0: zeros) of the last row of @segment born before @version. -ENOENT. */
int rd_segment_before(struct rd_sql *sql, const struct rd_version *version, i64 segment,
		      i64 *ret_recipe);
/* Insert or remove a row, in a transaction. The caller updates the counts of recipes. */
int rd_segment_insert(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row);
int rd_segment_remove(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row);

#endif
