// SPDX-License-Identifier: GPL-2.0
/* Recipes, and how many rows name them. */
#include <errno.h>

#include "base/inject.h"
#include "base/log.h"
#include "base/sort.h"
#include "frames.h"
#include "fresh.h"
#include "owners.h"
#include "packs.h"
#include "recipes.h"
#include "version_sql.h"

static int read_recipe(struct rd_row *row, struct rd_recipe *recipe)
{
	const void *blob;
	size_t len;

	recipe->id = rd_row_i64(row, 0);
	if (!rd_row_copy(row, 1, recipe->fp.b, sizeof(recipe->fp.b)))
		return rd_err(-EUCLEAN, "recipe %lld has no fingerprint", recipe->id);
	recipe->frame = rd_row_i64(row, 2);
	blob = rd_row_blob(row, 3, &len);
	if (rd_map_unpack(&recipe->map, recipe->id, recipe->frame, blob, len))
		return rd_err(-EUCLEAN, "the map of recipe %lld is damaged", recipe->id);
	return 0;
}

static int one_recipe(struct rd_row *row, struct rd_recipe *recipe)
{
	int r = rd_row_next(row);

	return r > 0 ? read_recipe(row, recipe) : r ? r : -ENOENT;
}

int rd_recipe_load(struct rd_sql *sql, i64 id, struct rd_recipe *recipe)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT id, fp, frame, map FROM recipe WHERE id = ?", "i", id);
	return r ? r : one_recipe(row, recipe);
}

int rd_recipe_find(struct rd_sql *sql, const struct rd_seg_fp *fp, i64 *ret_id,
		   unsigned int *ret_pieces)
{
	RD_ROW struct rd_row *row = NULL;
	struct rd_recipe recipe;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT id, fp, frame, map FROM recipe WHERE fp = ?", "b",
		       fp->b, sizeof(fp->b));
	if (!r)
		r = one_recipe(row, &recipe);
	if (r)
		return r;
	*ret_id = recipe.id;
	*ret_pieces = rd_map_pieces(&recipe.map);
	return 0;
}

int rd_recipe_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp,
		 unsigned int *ret_pieces)
{
	struct rd_recipe recipe;
	int r = rd_recipe_load(sql, id, &recipe);

	if (r)
		return r;
	*ret_fp = recipe.fp;
	*ret_pieces = rd_map_pieces(&recipe.map);
	return 0;
}

int rd_recipe_quick(struct rd_sql *sql, i64 id, u64 *ret_sum)
{
	return rd_sql_get(sql, ret_sum, "SELECT quick FROM uses WHERE recipe = ?"
			  " AND quick IS NOT NULL", "i", id);
}

int rd_recipe_set_quick(struct rd_sql *sql, i64 id, u64 sum)
{
	return rd_sql_run(sql, "UPDATE uses SET quick = ? WHERE recipe = ?", "ii", (i64)sum, id);
}

/* --- slots that lose their recipe */

/* Queue the slots that @old has OWN and @new has not; NULL has none. */
static int queue_lost(struct rd_sql *sql, const struct rd_map *old, const struct rd_map *new)
{
	struct rd_slots slots = { 0 };
	rd_place had[RD_SEG_BLOCKS], has[RD_SEG_BLOCKS];
	unsigned int nr_had = 0, nr_has = 0, i, j = 0;
	u64 frame = U64_MAX;
	int r;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(old->at[i]) == RD_OWN)
			had[nr_had++] = old->at[i];
		if (new && rd_place_kind(new->at[i]) == RD_OWN)
			has[nr_has++] = new->at[i];
	}
	qsort(had, nr_had, sizeof(*had), rd_compare_u64);
	qsort(has, nr_has, sizeof(*has), rd_compare_u64);
	for (i = 0; i < nr_had; i++) {
		while (j < nr_has && has[j] < had[i])
			j++;
		if (j < nr_has && has[j] == had[i])
			continue;
		if (rd_place_id(had[i]) != frame && frame != U64_MAX) {
			r = rd_frames_queue(sql, frame, &slots);
			if (r)
				return r;
			memset(&slots, 0, sizeof(slots));
		}
		frame = rd_place_id(had[i]);
		rd_slots_set(&slots, rd_place_slot(had[i]));
	}
	return frame == U64_MAX ? 0 : rd_frames_queue(sql, frame, &slots);
}

/* --- all of them, or some */

int rd_recipe_known_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp, bool *ret_known)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT fp FROM recipe WHERE id = ?", "i", id);
	if (!r)
		r = rd_row_next(row);
	*ret_known = r > 0 && rd_row_copy(row, 0, ret_fp->b, sizeof(ret_fp->b));
	return r < 0 ? r : 0;
}

int rd_recipe_noted_pieces(struct rd_sql *sql, i64 id, unsigned int *ret)
{
	return rd_sql_get(sql, ret, "SELECT pieces FROM uses WHERE recipe = ?", "i", id);
}

int rd_recipes(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT id FROM recipe", "");
}

int rd_recipes_youngest_first(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT id FROM recipe ORDER BY id DESC", "");
}

int rd_recipes_sample(struct rd_sql *sql, struct rd_row **ret, unsigned int max)
{
	return rd_sql_ask(sql, ret, "SELECT id FROM"
			  " (SELECT id, row_number() OVER (ORDER BY id) AS nr FROM recipe)"
			  " WHERE nr % (1 + (SELECT count(*) FROM recipe) / ?1) = 0 LIMIT ?1", "i",
			  (i64)max);
}

/* --- changing them */

int rd_recipe_insert(struct rd_sql *sql, const struct rd_seg_fp *fp, u64 frame,
		     const struct rd_map *map, u64 quick, i64 *ret_id)
{
	u8 blob[RD_MAP_MAX];
	i64 id;
	int r;

	/* The blob of a map depends on the number of the recipe. */
	r = rd_sql_number(sql, &id, "SELECT coalesce(max(id), 0) + 1 FROM recipe", "");
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO recipe VALUES(?, ?, ?, ?)", "ibib", id, fp->b,
			       sizeof(fp->b), (i64)frame, blob, rd_map_pack(map, id, frame, blob));
	if (!r)
		r = rd_sql_run(sql, "INSERT INTO uses VALUES(?, 0, 0, ?, nullif(?, 0))", "iii", id,
			       (i64)rd_map_pieces(map), (i64)quick);
	if (!r)
		r = rd_owners_change(sql, id, NULL, map);
	if (!r)
		r = rd_fresh_mark(sql, id, false);
	*ret_id = id;
	return r;
}

int rd_recipe_count(struct rd_sql *sql, const struct rd_recipe *recipe)
{
	int r = rd_owners_change(sql, recipe->id, NULL, &recipe->map);

	if (r)
		return r;
	return rd_sql_run(sql, "INSERT INTO uses VALUES(?, 0, 0, ?, NULL)", "ii", recipe->id,
			  (i64)rd_map_pieces(&recipe->map));
}

int rd_recipes_count_uses(struct rd_sql *sql)
{
	int r;

	r = rd_sql_run(sql, "UPDATE uses SET refs ="
		       " (SELECT count(*) FROM segment WHERE segment.recipe = uses.recipe)", "");
	if (r)
		return r;
	return rd_sql_run(sql, "UPDATE uses SET latest_refs ="
			  " (SELECT count(*) FROM segment AS s WHERE s.recipe = uses.recipe"
			  " AND NOT EXISTS (SELECT 1 FROM segment AS t"
			  " WHERE t.volume = s.volume AND t.segment = s.segment"
			  " AND t.born > s.born AND NOT EXISTS"
			  " (SELECT 1 FROM version AS v WHERE v.volume = t.volume"
			  " AND v.number = t.born AND (v." RD_VERSION_UNBORN
			  " OR (v.state = " RD_STATE(NEW) " AND v.cursor <= t.segment)))))", "");
}

/* A pass over the pool has to look at blocks that have become those of the recipe, or moved. */
static int mark_fresh(struct rd_sql *sql, i64 id, const struct rd_map *old,
		      const struct rd_map *new)
{
	bool gained = false, moved = false;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(new->at[i]) != RD_OWN || new->at[i] == old->at[i])
			continue;
		moved |= rd_place_kind(old->at[i]) == RD_OWN;
		gained |= rd_place_kind(old->at[i]) != RD_OWN;
	}
	return gained || moved ? rd_fresh_mark(sql, id, !gained) : 0;
}

static int write_map(struct rd_sql *sql, struct rd_recipe *recipe, u64 frame,
		     const struct rd_map *map)
{
	u8 blob[RD_MAP_MAX];
	int r;

	r = rd_sql_run(sql, "UPDATE recipe SET frame = ?, map = ? WHERE id = ?", "ibi",
		       (i64)frame, blob, rd_map_pack(map, recipe->id, frame, blob), recipe->id);
	if (!r)
		r = rd_sql_run(sql, "UPDATE uses SET pieces = ?1 WHERE recipe = ?2"
			       " AND pieces <> ?1", "ii", (i64)rd_map_pieces(map), recipe->id);
	if (!r)
		r = mark_fresh(sql, recipe->id, &recipe->map, map);
	return r ? r : rd_owners_change(sql, recipe->id, &recipe->map, map);
}

int rd_recipe_change(struct rd_sql *sql, struct rd_recipe *recipe, u64 frame,
		     const struct rd_map *map)
{
	int r;

	r = queue_lost(sql, &recipe->map, map);
	if (!r)
		r = write_map(sql, recipe, frame, map);
	if (r)
		return r;
	recipe->frame = frame;
	recipe->map = *map;
	return 0;
}

int rd_recipe_ref(struct rd_sql *sql, i64 id, int refs, int latest_refs)
{
	int r;

	r = rd_sql_run(sql, "UPDATE uses SET refs = refs + ?, latest_refs = latest_refs + ?"
		       " WHERE recipe = ?", "iii", (i64)refs, (i64)latest_refs, id);
	if (!r && !rd_sql_changed(sql))
		return rd_err(-EUCLEAN, "recipe %lld is missing", id);
	if (!r && latest_refs)
		r = rd_sql_run(sql, "DELETE FROM superseded WHERE recipe = ?", "i", id);
	return r;
}

/*
 * Follow the entries of @map, of recipe @id, that point at another one of it: such an entry may
 * point at one in turn. -EUCLEAN: they go in a circle.
 */
static int follow_self(const struct rd_map *map, i64 id, unsigned int *slot)
{
	unsigned int hops;

	for (hops = 0; hops < RD_SEG_BLOCKS; hops++) {
		rd_place place = map->at[*slot];

		if (rd_place_kind(place) == RD_ZERO)
			return rd_err(-EUCLEAN,
				      "recipe %lld is referred to for a block that it does not have",
				      id);
		if (rd_place_kind(place) != RD_REF || rd_place_id(place) != (u64)id)
			return 0;
		*slot = rd_place_slot(place);
	}
	return rd_err(-EUCLEAN, "recipe %lld refers to itself in a circle", id);
}

/*
 * Give the blocks of @recipe, which is being deleted, to @source, which refers to them.
 * @heirs: the new place of each block of @recipe that an earlier source has taken.
 */
static int hand_over(struct rd_sql *sql, const struct rd_recipe *recipe,
		     rd_place heirs[RD_SEG_BLOCKS], i64 source_id)
{
	struct rd_recipe source;
	struct rd_map map;
	unsigned int i;
	int r;

	r = rd_recipe_load(sql, source_id, &source);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	map = source.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = map.at[i];
		unsigned int slot = rd_place_slot(place);

		if (rd_place_kind(place) != RD_REF || rd_place_id(place) != (u64)recipe->id)
			continue;
		r = follow_self(&recipe->map, recipe->id, &slot);
		if (r)
			return r;
		if (rd_place_kind(recipe->map.at[slot]) == RD_REF) {
			map.at[i] = recipe->map.at[slot];
		} else if (heirs[slot]) {
			map.at[i] = heirs[slot];
		} else {
			map.at[i] = recipe->map.at[slot];
			heirs[slot] = rd_place_make(RD_REF, source.id, i);
		}
	}
	return write_map(sql, &source, source.frame, &map);
}

/*
 * @max of those that point at @id, but for itself: what it has of its own goes with it.
 * The first of them become the heirs: recipes of newest versions, which then need no other
 * one. Else the youngest: retention deletes old versions first, so it will not have to hand
 * the same blocks over again soon.
 */
static int find_sources(struct rd_sql *sql, i64 id, i64 max, struct rd_buffer *sources)
{
	RD_ROW struct rd_row *row = NULL;
	i64 source;
	int r;

	r = rd_recipe_heirs(sql, &row, id, max);
	while (!r && (r = rd_next_id(row, &source)) > 0)
		r = rd_buffer_put(sources, &source, sizeof(source));
	return r;
}

static int hand_over_to(struct rd_sql *sql, const struct rd_recipe *recipe, i64 max,
			rd_place heirs[RD_SEG_BLOCKS])
{
	RD_BUFFER struct rd_buffer sources = { 0 };
	size_t at;
	i64 source;
	int r;

	r = find_sources(sql, recipe->id, max, &sources);
	for (at = 0; at < sources.len && !r; at += sizeof(source)) {
		memcpy(&source, sources.data + at, sizeof(source));
		r = hand_over(sql, recipe, heirs, source);
	}
	return r;
}

/* The recipe stays for now: what it has handed over, it has where the heirs have it. */
static int hand_over_some(struct rd_sql *sql, i64 id, i64 max)
{
	rd_place heirs[RD_SEG_BLOCKS] = { 0 };
	struct rd_recipe recipe;
	struct rd_map left;
	unsigned int i;
	int r;

	r = rd_failpoint("hand-over");
	if (!r)
		r = rd_recipe_load(sql, id, &recipe);
	if (!r)
		r = hand_over_to(sql, &recipe, max, heirs);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	left = recipe.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (heirs[i])
			left.at[i] = heirs[i];
	return write_map(sql, &recipe, recipe.frame, &left);
}

int rd_recipe_prepare(struct rd_sql *sql, i64 id, unsigned int *maps)
{
	i64 nr;
	int r;

	r = rd_sql_number(sql, &nr, "SELECT (SELECT count(*) FROM (SELECT 1 FROM recipe_ref"
			  " WHERE target = ?1 AND source <> ?1 LIMIT ?2))"
			  " FROM uses WHERE recipe = ?1 AND refs <= 1", "ii", id,
			  (i64)*maps + 1);
	if (r)
		/* Another row names it, too. */
		return r == -ENOENT ? 0 : r;
	if (nr <= *maps) {
		*maps -= nr;
		return 0;
	}
	r = *maps ? hand_over_some(sql, id, *maps) : 0;
	*maps = 0;
	return r ? r : 1;
}

static int drop(struct rd_sql *sql, i64 id)
{
	rd_place heirs[RD_SEG_BLOCKS] = { 0 };
	struct rd_recipe recipe;
	struct rd_map left;
	unsigned int i;
	int r;

	r = rd_recipe_load(sql, id, &recipe);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	r = hand_over_to(sql, &recipe, -1, heirs);
	if (r)
		return r;
	left = recipe.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (heirs[i])
			left.at[i] = rd_place_make(RD_ZERO, 0, 0);
	r = queue_lost(sql, &left, NULL);
	if (!r)
		r = rd_owners_change(sql, id, &recipe.map, NULL);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM superseded WHERE recipe = ?", "i", id);
	if (!r)
		r = rd_fresh_remove(sql, id);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM uses WHERE recipe = ?", "i", id);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM recipe WHERE id = ?", "i", id);
	return r;
}

int rd_recipe_unref(struct rd_sql *sql, i64 id, int refs, int latest_refs, i64 volume)
{
	struct {
		i64 refs, latest_refs;
	} left;
	int r;

	r = rd_sql_numbers(sql, &left, "UPDATE uses SET refs = refs - ?,"
			   " latest_refs = latest_refs - ? WHERE recipe = ?"
			   " RETURNING refs, latest_refs", "iii", (i64)refs, (i64)latest_refs, id);
	if (r)
		return r == -ENOENT ? rd_err(-EUCLEAN, "recipe %lld is missing", id) : r;
	if (!left.refs)
		return drop(sql, id);
	if (left.latest_refs || !latest_refs)
		return 0;
	r = rd_fresh_mark(sql, id, false);
	return r ? r : rd_sql_run(sql, "INSERT OR IGNORE INTO superseded VALUES(?, ?)", "ii", id,
				  volume);
}

/* --- places that go over to another recipe */

int rd_recipe_adopt(struct rd_sql *sql, i64 taker_id, i64 giver_id)
{
	struct rd_recipe taker, giver;
	struct rd_map takes, gives;
	unsigned int i, slot, nr = 0;
	int r;

	r = rd_recipe_load(sql, taker_id, &taker);
	if (!r)
		r = rd_recipe_load(sql, giver_id, &giver);
	if (r)
		return r == -ENOENT ? -EUCLEAN : r;
	takes = taker.map;
	gives = giver.map;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(takes.at[i]) != RD_REF ||
		    rd_place_id(takes.at[i]) != (u64)giver_id)
			continue;
		nr++;
		slot = rd_place_slot(takes.at[i]);
		r = follow_self(&gives, giver_id, &slot);
		if (r)
			return r;
		takes.at[i] = gives.at[slot];
		if (rd_place_kind(gives.at[slot]) == RD_OWN)
			gives.at[slot] = rd_place_make(RD_REF, taker_id, i);
	}
	/* Else the caller would find the two again and again. */
	if (!nr)
		return rd_err(-EUCLEAN, "recipe %lld is counted as one that refers to recipe %lld",
			      taker_id, giver_id);
	r = write_map(sql, &giver, giver.frame, &gives);
	return r ? r : write_map(sql, &taker, rd_map_frame(&takes, taker.frame), &takes);
}

/* Find a recipe that @map refers to and that no newest version names; 0: there is none. */
static int find_old(struct rd_sql *sql, const struct rd_map *map, i64 *ret)
{
	i64 last = 0;
	unsigned int i;
	u64 latest;
	int r = 0;

	*ret = 0;
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		i64 id = rd_place_id(map->at[i]);

		if (rd_place_kind(map->at[i]) != RD_REF || id == last)
			continue;
		last = id;
		r = rd_recipe_latest_refs(sql, id, &latest);
		if (r || latest)
			continue;
		*ret = id;
		break;
	}
	return r == -ENOENT ? -EUCLEAN : r;
}

int rd_recipe_adopt_old(struct rd_sql *sql, i64 id, bool *ret_changed)
{
	struct rd_recipe recipe;
	unsigned int hops = 0;
	struct rd_map before;
	i64 old;
	int r;

	*ret_changed = false;
	/* What is taken may be a reference to another old one: each time a chain gets shorter. */
	for (;;) {
		r = rd_recipe_load(sql, id, &recipe);
		if (!r)
			r = find_old(sql, &recipe.map, &old);
		if (r || !old)
			return r;
		if (hops && !memcmp(&recipe.map, &before, sizeof(before)))
			return rd_err(-EUCLEAN, "the references of recipe %lld go in a circle", id);
		rd_map_note(&recipe.map, &before, hops++);
		*ret_changed = true;
		r = rd_recipe_adopt(sql, id, old);
		if (r)
			return r;
	}
}

int rd_recipe_latest_refs(struct rd_sql *sql, i64 id, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT latest_refs FROM uses WHERE recipe = ?", "i", id);
}

int rd_recipe_is_old(struct rd_sql *sql, i64 id, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT latest_refs = 0 AND NOT EXISTS (SELECT 1"
			  " FROM superseded WHERE superseded.recipe = ?1) FROM uses"
			  " WHERE recipe = ?1", "i", id);
}

int rd_recipe_frame(struct rd_sql *sql, i64 id, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT frame FROM recipe WHERE id = ?", "i", id);
}

static int read_ids(struct rd_row *row, i64 *ids, unsigned int *ret_nr)
{
	int r;

	while ((r = rd_row_next(row)) > 0)
		ids[(*ret_nr)++] = rd_row_i64(row, 0);
	return r;
}

/*
 * All recipes are many more: each statement must use the index, and does so only with an equal
 * number of pieces or without an order by recipe.
 */
#define IN_PIECES	"uses INDEXED BY uses_pieces WHERE latest_refs > 0 AND pieces <> 1"

int rd_recipes_next_pieces(struct rd_sql *sql, unsigned int pieces, unsigned int *ret)
{
	return rd_sql_get(sql, ret, "SELECT pieces FROM " IN_PIECES
			  " AND pieces > ? ORDER BY pieces LIMIT 1", "i", (i64)pieces);
}

int rd_recipes_in_pieces(struct rd_sql *sql, unsigned int pieces, i64 after, i64 *ids,
			 unsigned int max, unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	*ret_nr = 0;
	r = rd_sql_ask(sql, &row, "SELECT recipe FROM " IN_PIECES
		       " AND pieces = ? AND recipe > ? ORDER BY recipe LIMIT ?", "iii",
		       (i64)pieces, after, (i64)max);
	return r ? r : read_ids(row, ids, ret_nr);
}

/* --- the table superseded */

int rd_superseded_list(struct rd_sql *sql, i64 volume, i64 after, i64 *ids, unsigned int max,
		       unsigned int *ret_nr)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	*ret_nr = 0;
	r = rd_sql_ask(sql, &row, "SELECT recipe FROM superseded WHERE volume = ?"
		       " AND recipe > ? ORDER BY recipe LIMIT ?", "iii", volume, after,
		       (i64)max);
	return r ? r : read_ids(row, ids, ret_nr);
}

int rd_superseded_sources(struct rd_sql *sql, struct rd_row **ret, i64 volume, i64 first,
			  unsigned int max)
{
	return rd_sql_ask(sql, ret, "SELECT target, source FROM superseded"
			  " CROSS JOIN recipe_ref ON target = superseded.recipe"
			  " CROSS JOIN uses AS s ON s.recipe = source AND s.latest_refs > 0"
			  " CROSS JOIN uses AS t ON t.recipe = target AND t.latest_refs = 0"
			  " WHERE superseded.recipe >= ? AND volume = ?"
			  " ORDER BY superseded.recipe LIMIT ?", "iii", first, volume, (i64)max);
}

int rd_next_source(struct rd_row *rows, i64 *ret_superseded, i64 *ret_source)
{
	return rd_row_next_two(rows, ret_superseded, ret_source);
}

int rd_superseded_count(struct rd_sql *sql, i64 volume, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM superseded WHERE volume = ?", "i",
			  volume);
}

int rd_superseded_remove(struct rd_sql *sql, i64 recipe)
{
	return rd_sql_run(sql, "DELETE FROM superseded WHERE recipe = ?", "i", recipe);
}

int rd_superseded_remove_all(struct rd_sql *sql, i64 volume)
{
	return rd_sql_run(sql, "DELETE FROM superseded WHERE volume = ?", "i", volume);
}

static int add_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_recipe recipe;
	i64 id;
	int r;

	r = rd_frame_recipes(sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		if (rd_owner_is_pack(id)) {
			r = rd_pack_slots_in(sql, rd_owner_packed(id), frame, ret);
			continue;
		}
		r = rd_recipe_load(sql, id, &recipe);
		if (!r)
			rd_map_add_slots(&recipe.map, frame, ret);
	}
	return r;
}

int rd_frame_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	unsigned int nr;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = add_slots(sql, frame, ret);
	if (!r)
		r = rd_frames_count_live(sql, frame, &nr);
	if (!r && nr == rd_slots_count(ret))
		return 0;
	if (r && r != -EUCLEAN && r != -ENOENT)
		return r;
	rd_err(0, "the catalog counts other slots of frame %llu than it names", frame);
	rd_remedy(RD_REMEDY_RECOUNT_FRAMES, NULL, "nothing was written there");
	return -EUCLEAN;
}

int rd_frame_live_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_recipe recipe;
	i64 id;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_frame_recipes(sql, &rows, frame);
	while (!r && (r = rd_next_id(rows, &id)) > 0) {
		r = rd_owner_is_pack(id) ? -ENOENT : rd_recipe_load(sql, id, &recipe);
		if (!r)
			rd_map_add_slots(&recipe.map, frame, ret);
		if (r == -ENOENT || r == -EUCLEAN)
			r = 0;
	}
	return r;
}
