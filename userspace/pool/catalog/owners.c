// SPDX-License-Identifier: GPL-2.0
/* Which recipes have a frame's slots, and which refer to a recipe. */
#include <errno.h>

#include "base/log.h"
#include "owners.h"
#include "sql.h"

/* --- counting */

/* How many entries of a map are of a kind and an id; mostly there are few ids. */
struct counts {
	unsigned int nr;
	struct {
		u64 id;
		int n;
	} of[2 * RD_SEG_BLOCKS];
};

static void count(struct counts *counts, u64 id, int n)
{
	unsigned int i = counts->nr;

	/* What was counted last is likely the next. */
	while (i--)
		if (counts->of[i].id == id)
			break;
	if (i == -1U) {
		i = counts->nr++;
		counts->of[i].id = id;
		counts->of[i].n = 0;
	}
	counts->of[i].n += n;
}

static void count_map(const struct rd_map *map, enum rd_kind kind, int n,
		      struct counts *counts)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(map->at[i]) == kind)
			count(counts, rd_place_id(map->at[i]), n);
}

struct pair_sql {
	const char *add, *take, *remove;
};

static const struct pair_sql pair_slot_owner = {
	"INSERT INTO slot_owner VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + ?3",
	"UPDATE slot_owner SET n = n - ?3 WHERE frame = ?1 AND recipe = ?2 AND n > ?3",
	"DELETE FROM slot_owner WHERE frame = ?1 AND recipe = ?2 AND n = ?3",
};

static const struct pair_sql pair_recipe_ref = {
	"INSERT INTO recipe_ref VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + ?3",
	"UPDATE recipe_ref SET n = n - ?3 WHERE target = ?1 AND source = ?2 AND n > ?3",
	"DELETE FROM recipe_ref WHERE target = ?1 AND source = ?2 AND n = ?3",
};

static int put_pair(struct rd_sql *sql, const struct pair_sql *pair, i64 to, i64 recipe, i64 n)
{
	int r;

	if (n >= 0)
		return n ? rd_sql_run(sql, pair->add, "iii", to, recipe, n) : 0;
	r = rd_sql_run(sql, pair->take, "iii", to, recipe, -n);
	if (r || rd_sql_changed(sql))
		return r;
	r = rd_sql_run(sql, pair->remove, "iii", to, recipe, -n);
	if (!r && !rd_sql_changed(sql))
		r = rd_err(-EUCLEAN, "a count of recipe %lld is wrong", recipe);
	return r;
}

static int put_counts(struct rd_sql *sql, i64 recipe, const struct rd_map *old,
		      const struct rd_map *new, enum rd_kind kind)
{
	const struct pair_sql *pair = kind == RD_OWN ? &pair_slot_owner : &pair_recipe_ref;
	struct counts counts = { .nr = 0 };
	unsigned int i;
	int r = 0;

	if (old)
		count_map(old, kind, -1, &counts);
	if (new)
		count_map(new, kind, 1, &counts);
	for (i = 0; i < counts.nr && !r; i++)
		r = put_pair(sql, pair, counts.of[i].id, recipe, counts.of[i].n);
	return r;
}

int rd_owners_change(struct rd_sql *sql, i64 recipe, const struct rd_map *old,
		     const struct rd_map *new)
{
	int r = put_counts(sql, recipe, old, new, RD_OWN);

	return r ? r : put_counts(sql, recipe, old, new, RD_REF);
}

int rd_owners_pack(struct rd_sql *sql, u64 frame, u64 packed, i64 n)
{
	return put_pair(sql, &pair_slot_owner, frame, -(i64)packed, n);
}

/* --- slots of frames */

int rd_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame)
{
	return rd_sql_ask(sql, ret, "SELECT recipe FROM slot_owner WHERE frame = ?", "i",
			  (i64)frame);
}

int rd_owners(struct rd_sql *sql, struct rd_row **ret, u64 first)
{
	return rd_sql_ask(sql, ret, "SELECT frame, recipe FROM slot_owner WHERE frame >= ?"
			  " ORDER BY frame", "i", (i64)first);
}

int rd_next_owner(struct rd_row *rows, u64 *ret_frame, i64 *ret_recipe)
{
	return rd_row_next_two(rows, (i64 *)ret_frame, ret_recipe);
}

int rd_frames_owned(struct rd_sql *sql, struct rd_row **ret, u64 first, u64 last,
		    unsigned int max)
{
	return rd_sql_ask(sql, ret, "SELECT DISTINCT frame FROM slot_owner"
			  " WHERE frame BETWEEN ? AND ? ORDER BY frame LIMIT ?", "iii",
			  (i64)first, (i64)last, (i64)max);
}

int rd_frames_filled(struct rd_sql *sql, struct rd_row **ret, u64 first, unsigned int max)
{
	return rd_sql_ask(sql, ret, "SELECT frame, sum(n) FROM slot_owner"
			  " WHERE frame >= ? AND recipe > 0 GROUP BY frame ORDER BY frame LIMIT ?",
			  "ii", (i64)first, (i64)max);
}

int rd_next_filled(struct rd_row *rows, u64 *ret_frame, u64 *ret_slots)
{
	return rd_row_next_two(rows, (i64 *)ret_frame, (i64 *)ret_slots);
}

int rd_frame_live(struct rd_sql *sql, u64 frame, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(sum(n), 0) FROM slot_owner"
			  " WHERE frame = ? AND recipe > 0", "i", (i64)frame);
}

int rd_slots_of_recipes(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(sum(n), 0) FROM slot_owner"
			  " WHERE recipe > 0", "");
}

int rd_blocks_owned(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT coalesce(sum(n), 0) FROM slot_owner"
			  " WHERE frame < " RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES), "");
}

int rd_frames_with_fps(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(DISTINCT frame) FROM slot_owner"
			  " WHERE frame < " RD_SQL_NUMBER(RD_SQL_PACKED_FRAMES)
			  " AND recipe > 0", "");
}

/* --- who refers to a recipe */

int rd_recipe_sources(struct rd_sql *sql, struct rd_row **ret, i64 id)
{
	return rd_sql_ask(sql, ret, "SELECT source FROM recipe_ref WHERE target = ?", "i", id);
}

int rd_recipe_count_sources(struct rd_sql *sql, i64 id, i64 source, unsigned int max,
			    unsigned int *ret_nr, bool *ret_has)
{
	int r = rd_sql_get(sql, ret_nr, "SELECT count(*) FROM (SELECT 1 FROM recipe_ref"
			   " WHERE target = ?1 AND source <> ?1 LIMIT ?2)", "ii", id, (i64)max);

	*ret_has = false;
	return r ? r : rd_sql_get(sql, ret_has, "SELECT count(*) FROM recipe_ref"
				  " WHERE target = ? AND source = ?", "ii", id, source);
}

int rd_recipe_heirs(struct rd_sql *sql, struct rd_row **ret, i64 id, i64 max)
{
	return rd_sql_ask(sql, ret, "SELECT source FROM recipe_ref"
			  " LEFT JOIN uses ON recipe = source"
			  " WHERE target = ?1 AND source <> ?1"
			  " ORDER BY coalesce(latest_refs, 0) > 0 DESC, source DESC"
			  " LIMIT ?2", "ii", id, max);
}
