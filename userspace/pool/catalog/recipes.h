/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recipes: the tables recipe, uses and superseded of the catalog (owners.h has what is
 * counted of their maps). A recipe is one content of a segment, known by its fingerprint;
 * it exists as long as a row of the table segment names it.
 *
 * A recipe is whole if its blocks are in one frame in order. One that a newest
 * version names never gives a block up. When the last such goes, the recipe is
 * superseded, and reverse.c makes of its blocks what the newer version also has
 * references to there: REF. A place that is OWN belongs to one recipe, so no
 * place needs a count.
 *
 * A REF is only ever made to an entry that is OWN, so a chain of them ends.
 *
 * All of it happens in the caller's transaction.
 */
#ifndef RD_RECIPES_H
#define RD_RECIPES_H

#include "pool/data/fp.h"
#include "pool/data/map.h"
#include "db.h"

struct rd_recipe {
	i64 id;
	u64 frame;
	struct rd_seg_fp fp;
	struct rd_map map;
};

/* -ENOENT: there is none. -EUCLEAN: its map cannot be read. */
int rd_recipe_load(struct rd_sql *sql, i64 id, struct rd_recipe *recipe);
int rd_recipe_find(struct rd_sql *sql, const struct rd_seg_fp *fp, i64 *ret_id,
		   bool *ret_whole);
int rd_recipe_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp, bool *ret_whole);

/*
 * Read the fingerprint alone. *@ret_known: false where there is no such recipe, or it has
 * none.
 */
int rd_recipe_known_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp, bool *ret_known);

/* Is it noted to be whole? -ENOENT: nothing is noted of it. */
int rd_recipe_noted_whole(struct rd_sql *sql, i64 id, bool *ret);

/* Ask for all recipes, or for up to @max from all over the catalog: rd_next_id(). */
int rd_recipes(struct rd_sql *sql, struct rd_row **ret);
int rd_recipes_youngest_first(struct rd_sql *sql, struct rd_row **ret);
int rd_recipes_sample(struct rd_sql *sql, struct rd_row **ret, unsigned int max);

/* The quick sum of one that is whole. -ENOENT: that is not known. */
int rd_recipe_quick(struct rd_sql *sql, i64 id, u64 *ret_sum);
int rd_recipe_set_quick(struct rd_sql *sql, i64 id, u64 sum);

bool rd_map_is_whole(const struct rd_map *map, u64 frame);

/* A new one, whole in @frame, with the quick sum @quick, that nothing names yet. */
int rd_recipe_insert(struct rd_sql *sql, const struct rd_seg_fp *fp, u64 frame,
		     const struct rd_map *map, u64 quick, i64 *ret_id);

/*
 * Count what was never counted, of a catalog that is made anew: the places of @recipe; then,
 * of all recipes, the rows that name them, and which of these newest versions see: those born
 * last. A version that is NEW has left the one before up to its cursor only, and the rest
 * still counts.
 */
int rd_recipe_count(struct rd_sql *sql, const struct rd_recipe *recipe);
int rd_recipes_count_uses(struct rd_sql *sql);

/*
 * Change the map of @recipe, and its frame, in memory and in the catalog. Slots
 * that were its own and are no more go to the queue.
 */
int rd_recipe_change(struct rd_sql *sql, struct rd_recipe *recipe, u64 frame,
		     const struct rd_map *map);

/* Rows name it (@names more), and newest versions do (@latest more). */
int rd_recipe_ref(struct rd_sql *sql, i64 id, int names, int latest);

/*
 * How many maps of others a transaction writes for recipes that go: nobody is to wait
 * for it. A test has so few that recipes with little in them go in several.
 */
#ifdef RD_TEST
#define RD_HAND_OVERS	1
#else
#define RD_HAND_OVERS	2048
#endif

/*
 * Before rd_recipe_unref() with one name, in the same transaction. *@maps: how many maps
 * may still be written, RD_HAND_OVERS at first. 1: more than these point at the recipe,
 * which would go. It has handed its blocks over to as many as may be, and is in pieces
 * now; the row that names it stays, and the next transaction asks again.
 */
int rd_recipe_prepare(struct rd_sql *sql, i64 id, unsigned int *maps);

/*
 * The opposite of rd_recipe_ref(): a recipe that nothing names goes, and hands the
 * blocks that others still want to these; one that only older versions name is
 * superseded by the newest version of @volume.
 */
int rd_recipe_unref(struct rd_sql *sql, i64 id, int names, int latest, i64 volume);

/* How many of the rows that refer to it a newest version sees. -ENOENT. */
int rd_recipe_latest_refs(struct rd_sql *sql, i64 id, u64 *ret);
/* The frame that it is in, or most of it. -ENOENT. */
int rd_recipe_frame(struct rd_sql *sql, i64 id, u64 *ret);
/* Up to @max recipes above @after that a newest version has in pieces, in order. */
int rd_recipes_in_pieces(struct rd_sql *sql, i64 after, i64 *ids, unsigned int max,
			 unsigned int *ret_nr);

/* Up to @max recipes above @after that @volume has superseded, in order. */
int rd_superseded_list(struct rd_sql *sql, i64 volume, i64 after, i64 *ids, unsigned int max,
		       unsigned int *ret_nr);
int rd_superseded_count(struct rd_sql *sql, i64 volume, u64 *ret);
/* In a transaction: nothing is left to be taken out of the recipe; of all of @volume's. */
int rd_superseded_remove(struct rd_sql *sql, i64 recipe);
int rd_superseded_remove_all(struct rd_sql *sql, i64 volume);

#endif
