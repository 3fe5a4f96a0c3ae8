// SPDX-License-Identifier: GPL-2.0
/* What versions have in their segments. */
#include <string.h>

#include "pool/data/area.h"
#include "segments.h"
#include "sql.h"
#include "version_sql.h"
#include "versions.h"

int rd_segments_read_born(struct rd_sql *sql, i64 volume, i64 number, u64 first,
			  unsigned int nr, i64 *recipes, i64 *born)
{
	RD_ROW struct rd_row *row = NULL;
	u64 at;
	int r;

	memset(recipes, 0, nr * sizeof(*recipes));
	if (born)
		memset(born, 0, nr * sizeof(*born));
	/* Rows of a segment come in the order of birth: the last one holds. */
	r = rd_sql_ask(sql, &row, "SELECT segment, recipe, born FROM segment"
		       " WHERE volume = ? AND segment >= ? AND segment < ? AND born <= ?"
		       " ORDER BY segment, born", "iiii", volume, (i64)first,
		       (i64)(first + nr), number);
	while (!r && (r = rd_row_next(row)) > 0) {
		at = rd_row_i64(row, 0) - first;
		recipes[at] = rd_row_i64(row, 1);
		if (born)
			born[at] = rd_row_i64(row, 2);
		r = 0;
	}
	return r;
}

int rd_segments_read(struct rd_sql *sql, i64 volume, i64 number, u64 first, unsigned int nr,
		     i64 *recipes)
{
	return rd_segments_read_born(sql, volume, number, first, nr, recipes, NULL);
}

int rd_segments_count(struct rd_sql *sql, i64 volume, u64 max, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM (SELECT DISTINCT segment FROM segment"
			  " WHERE volume = ? AND recipe LIMIT ?)", "ii", volume, (i64)max);
}

int rd_segment_next(struct rd_sql *sql, i64 volume, u64 from, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT segment FROM segment"
			  " WHERE volume = ? AND segment >= ? ORDER BY segment LIMIT 1", "ii",
			  volume, (i64)from);
}

int rd_segments_recipes(struct rd_sql *sql, struct rd_row **ret, i64 below, i64 above,
			unsigned int max)
{
	return rd_sql_ask(sql, ret, "SELECT recipe FROM segment WHERE recipe < ?"
			  " AND recipe > ? GROUP BY recipe ORDER BY recipe DESC LIMIT ?", "iii",
			  below, above, (i64)max);
}

int rd_segment_rows(struct rd_sql *sql, struct rd_row **ret, i64 recipe)
{
	return rd_sql_ask(sql, ret, "SELECT volume, segment, born, coalesce("
			  "(SELECT min(born) - 1 FROM segment AS t WHERE t.volume = s.volume"
			  " AND t.segment = s.segment AND t.born > s.born), ?2)"
			  " FROM segment AS s WHERE recipe = ?1", "ii", recipe, INT64_MAX);
}

/* The version in which the next row of the segment is born. */
#define NEXT_BORN \
"coalesce((SELECT min(born) FROM segment AS t WHERE t.volume = s.volume" \
" AND t.segment = s.segment AND t.born > s.born), 9223372036854775807)"

int rd_segment_lives(struct rd_sql *sql, struct rd_row **ret, i64 volume)
{
	return rd_sql_ask(sql, ret, "SELECT recipe, born, ?2 FROM segment AS s"
			  " WHERE volume = ?1 AND recipe AND NOT EXISTS (SELECT 1"
			  " FROM segment AS t WHERE t.volume = s.volume"
			  " AND t.segment = s.segment AND t.born > s.born)",
			  "ii", volume, INT64_MAX);
}

int rd_segment_past_lives(struct rd_sql *sql, struct rd_row **ret, i64 volume)
{
	/* Each row ends the one before it. */
	return rd_sql_ask(sql, ret, "SELECT t.recipe, t.born, s.born FROM segment AS s"
			  " INDEXED BY segment_born CROSS JOIN segment AS t"
			  " WHERE s.volume = ? AND t.volume = s.volume"
			  " AND t.segment = s.segment AND t.born = (SELECT max(born)"
			  "  FROM segment AS u WHERE u.volume = s.volume"
			  "  AND u.segment = s.segment AND u.born < s.born)"
			  " AND t.recipe ORDER BY s.born DESC", "i", volume);
}

int rd_next_life(struct rd_row *rows, struct rd_segment_life *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_recipe_last_seen(struct rd_sql *sql, i64 recipe, i64 *ret_time)
{
	return rd_sql_number(sql, ret_time, "SELECT time FROM (SELECT max((SELECT time"
			     " FROM version AS v WHERE v.volume = s.volume AND v.number < "
			     NEXT_BORN " ORDER BY v.number DESC LIMIT 1)) AS time"
			     " FROM segment AS s WHERE recipe = ?) WHERE time IS NOT NULL",
			     "i", recipe);
}

int rd_recipe_newer(struct rd_sql *sql, i64 recipe, unsigned int max, unsigned int *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(min((SELECT count(*) FROM (SELECT 1"
			  " FROM version AS v WHERE v.volume = s.volume AND "
			  RD_VERSION_EXISTS " AND v.number >= " NEXT_BORN
			  " LIMIT ?2))), 0) FROM segment AS s WHERE recipe = ?1",
			  "ii", recipe, (i64)max);
}

int rd_next_segment_row(struct rd_row *rows, struct rd_segment_row *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_segment_parts(struct rd_sql *sql, struct rd_row **ret, i64 volume, u64 parts, u64 nr_segs)
{
	return rd_sql_ask(sql, ret, "SELECT born, segment * ?2 / ?3 AS part, count(*),"
			  " sum(recipe = 0) FROM segment WHERE volume = ?1 AND segment < ?3"
			  " GROUP BY born, part ORDER BY born, part", "iii", volume, (i64)parts,
			  (i64)nr_segs);
}

int rd_next_segment_part(struct rd_row *rows, struct rd_segment_part *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_latest_parts(struct rd_sql *sql, struct rd_row **ret, const struct rd_version *version,
		    u64 parts, u64 nr_segs)
{
	return rd_sql_ask(sql, ret, "SELECT segment * ?2 / ?3 AS part, sum(pieces = 1),"
			  " sum(pieces <> 1), sum(frame >= ?4) FROM segment AS s"
			  " CROSS JOIN uses ON uses.recipe = s.recipe"
			  " CROSS JOIN recipe ON recipe.id = s.recipe"
			  " WHERE volume = ?1 AND segment < ?3 AND born <= ?5 AND NOT EXISTS"
			  " (SELECT 1 FROM segment AS t WHERE t.volume = s.volume"
			  " AND t.segment = s.segment AND t.born > s.born AND t.born <= ?5)"
			  " GROUP BY part ORDER BY part", "iiiii", version->volume, (i64)parts,
			  (i64)nr_segs, (i64)RD_PACKED_FRAMES, version->number);
}

int rd_next_latest_part(struct rd_row *rows, struct rd_latest_part *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_segment_births(struct rd_sql *sql, struct rd_row **ret, i64 volume)
{
	return rd_sql_ask(sql, ret, "SELECT segment, born,"
			  " (SELECT fp FROM recipe WHERE id = s.recipe),"
			  " (SELECT fp FROM recipe WHERE id = (SELECT recipe FROM segment AS t"
			  " WHERE t.volume = s.volume AND t.segment = s.segment"
			  " AND t.born < s.born ORDER BY t.born DESC LIMIT 1))"
			  " FROM segment AS s WHERE volume = ? ORDER BY born", "i", volume);
}

int rd_next_birth(struct rd_row *rows, struct rd_segment_birth *ret)
{
	int r = rd_row_next(rows);

	if (r <= 0)
		return r;
	ret->segment = rd_row_i64(rows, 0);
	ret->born = rd_row_i64(rows, 1);
	ret->fp = rd_row_blob(rows, 2, &ret->fp_len);
	ret->before = rd_row_blob(rows, 3, &ret->before_len);
	return 1;
}

/* --- rows, one by one */

static int read_segments(struct rd_row *row, struct rd_segment_content *rows, unsigned int *ret_nr)
{
	int r;

	*ret_nr = 0;
	while ((r = rd_row_next(row)) > 0)
		rows[(*ret_nr)++] = (struct rd_segment_content){
			.segment = rd_row_i64(row, 0),
			.born = rd_row_i64(row, 1),
			.recipe = rd_row_i64(row, 2),
		};
	return r;
}

int rd_segments_born(struct rd_sql *sql, const struct rd_version *version, i64 first,
		     struct rd_segment_content *rows, unsigned int max, unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	*ret_nr = 0;
	/* By itself SQLite would look at all rows of the volume, since the index has no recipes. */
	r = rd_sql_ask(sql, &row, "SELECT segment, born, recipe FROM segment"
		       " INDEXED BY segment_born WHERE volume = ? AND born = ? AND segment >= ?"
		       " ORDER BY segment LIMIT ?", "iiii", version->volume, version->number,
		       first, (i64)max);
	return r ? r : read_segments(row, rows, ret_nr);
}

int rd_segments_born_between(struct rd_sql *sql, i64 volume, i64 before, i64 last,
			     const struct rd_segment_content *after,
			     struct rd_segment_content *rows, unsigned int max,
			     unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	*ret_nr = 0;
	r = rd_sql_ask(sql, &row, "SELECT segment, born, recipe FROM segment"
		       " WHERE volume = ?1 AND born > ?2 AND born <= ?3"
		       " AND (born, segment) > (?4, ?5) ORDER BY born, segment LIMIT ?6",
		       "iiiiii", volume, before, last, after->born, after->segment, (i64)max);
	return r ? r : read_segments(row, rows, ret_nr);
}

int rd_segments_with(struct rd_sql *sql, struct rd_row **ret, i64 volume, i64 recipe, u64 end)
{
	return rd_sql_ask(sql, ret, "SELECT segment FROM segment"
			  " WHERE recipe = ? AND volume = ? AND segment < ?", "iii", recipe,
			  volume, (i64)end);
}

int rd_next_segment(struct rd_row *rows, u64 *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_segment_with(struct rd_sql *sql, i64 volume, i64 recipe, i64 *ret_segment)
{
	return rd_sql_number(sql, ret_segment, "SELECT segment FROM segment WHERE recipe = ?"
			     " AND volume = ? LIMIT 1", "ii", recipe, volume);
}

int rd_segment_next_born(struct rd_sql *sql, i64 volume, i64 segment, i64 born, i64 *ret_born)
{
	return rd_sql_number(sql, ret_born, "SELECT born FROM segment WHERE volume = ?"
			     " AND segment = ? AND born > ? ORDER BY born LIMIT 1", "iii",
			     volume, segment, born);
}

int rd_segment_before(struct rd_sql *sql, const struct rd_version *version, i64 segment,
		      i64 *ret_recipe)
{
	return rd_sql_number(sql, ret_recipe, "SELECT recipe FROM segment WHERE volume = ?"
			     " AND segment = ? AND born < ? ORDER BY born DESC LIMIT 1", "iii",
			     version->volume, segment, version->number);
}

int rd_segment_insert(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row)
{
	return rd_sql_run(sql, "INSERT INTO segment VALUES(?, ?, ?, ?)", "iiii", volume,
			  row->segment, row->born, row->recipe);
}

int rd_segment_remove(struct rd_sql *sql, i64 volume, const struct rd_segment_content *row)
{
	return rd_sql_run(sql, "DELETE FROM segment WHERE volume = ? AND segment = ?"
			  " AND born = ?", "iii", volume, row->segment, row->born);
}
