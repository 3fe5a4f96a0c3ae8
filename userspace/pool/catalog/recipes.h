/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recipes: the tables recipe, uses and superseded of the catalog. A recipe is one content
 * of a segment, known by its fingerprint. It exists as long as a row of the table segment
 * names it. owners.h counts the entries of its map.
 *
 * A recipe is in as many pieces as its map is (map.h); of a newest version in no more than the
 * rule of the volume allows. It never gives a block up for good while a newest version names
 * it. When none does any more, it is superseded: swap.c lets newest recipes that refer to its
 * blocks take them, and reverse.c replaces each block that the newer version has as well with
 * a reference to the block there, a REF. An OWN place belongs to exactly one recipe, so no
 * place needs a count.
 *
 * A new REF always refers to an entry that is OWN, so every chain of references ends.
 *
 * The caller is in a transaction.
 */
#ifndef RD_RECIPES_H
#define RD_RECIPES_H

#include "pool/data/fp.h"
#include "pool/data/map.h"
#include "db.h"
#include "frames.h"

struct rd_recipe {
	i64 id;
	u64 frame;
	struct rd_seg_fp fp;
	struct rd_map map;
};

/* Read a recipe. -ENOENT: it does not exist. -EUCLEAN: its map is damaged. */
int rd_recipe_load(struct rd_sql *sql, i64 id, struct rd_recipe *recipe);
int rd_recipe_find(struct rd_sql *sql, const struct rd_seg_fp *fp, i64 *ret_id,
		   unsigned int *ret_pieces);
int rd_recipe_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp,
		 unsigned int *ret_pieces);

/*
 * Read only the fingerprint. *@ret_known: false if the recipe does not exist, or has no
 * fingerprint.
 */
int rd_recipe_known_fp(struct rd_sql *sql, i64 id, struct rd_seg_fp *ret_fp, bool *ret_known);

/* Read the pieces as noted; 0: more than one. -ENOENT: there is no row in the table uses. */
int rd_recipe_noted_pieces(struct rd_sql *sql, i64 id, unsigned int *ret);

/* Ask for all recipes, or for up to @max spread over the catalog: rd_next_id(). */
int rd_recipes(struct rd_sql *sql, struct rd_row **ret);
int rd_recipes_youngest_first(struct rd_sql *sql, struct rd_row **ret);
int rd_recipes_sample(struct rd_sql *sql, struct rd_row **ret, unsigned int max);

/* Read the quick sum of a recipe. -ENOENT: the sum is not known. */
int rd_recipe_quick(struct rd_sql *sql, i64 id, u64 *ret_sum);
int rd_recipe_set_quick(struct rd_sql *sql, i64 id, u64 sum);

/*
 * Insert a recipe that has the quick sum @quick (0: not known), and that no row names. What @map
 * refers to is OWN, or is on the way there.
 */
int rd_recipe_insert(struct rd_sql *sql, const struct rd_seg_fp *fp, u64 frame,
		     const struct rd_map *map, u64 quick, i64 *ret_id);

/*
 * Make the counts of a rebuilt catalog: first the places of each recipe, then for all
 * recipes the rows that name them, and how many of these rows a newest version sees (the
 * last born). Reversing a NEW version has reached only its cursor, so the version before
 * it still counts from there on.
 */
int rd_recipe_count(struct rd_sql *sql, const struct rd_recipe *recipe);
int rd_recipes_count_uses(struct rd_sql *sql);

/*
 * Change the map and the frame of @recipe, in memory and in the catalog. Queue the slots
 * that it no longer owns.
 */
int rd_recipe_change(struct rd_sql *sql, struct rd_recipe *recipe, u64 frame,
		     const struct rd_map *map);

/* Add @refs rows that name the recipe, @latest_refs of which a newest version sees. */
int rd_recipe_ref(struct rd_sql *sql, i64 id, int refs, int latest_refs);

/*
 * How many maps of other recipes a transaction may write to delete recipes: it must stay
 * short, because other commands wait for it. Tests set the limit so low that even small
 * recipes need several transactions.
 */
#ifdef RD_TEST
#define RD_HAND_OVERS	1
#else
#define RD_HAND_OVERS	2048
#endif

/*
 * Prepare rd_recipe_unref() with one reference, in the same transaction. *@maps: how many
 * maps this transaction may still write, RD_HAND_OVERS at first. 1: the recipe has lost its
 * last reference, but more recipes refer to its blocks than *@maps allows. As many of them as
 * allowed have got their blocks, and the recipe is in pieces. The row that names it must
 * stay until the next transaction calls this again.
 */
int rd_recipe_prepare(struct rd_sql *sql, i64 id, unsigned int *maps);

/*
 * Undo rd_recipe_ref(). Delete a recipe without references, and hand its blocks over to the
 * recipes that still refer to them. Note that the newest version of @volume supersedes a
 * recipe that only older versions still name.
 */
int rd_recipe_unref(struct rd_sql *sql, i64 id, int refs, int latest_refs, i64 volume);

/*
 * Let @taker have the blocks of @giver that it refers to, and @giver refer to them there: no
 * data moves. What @giver itself refers to, @taker refers to without it.
 */
int rd_recipe_adopt(struct rd_sql *sql, i64 taker, i64 giver);

/*
 * Adopt all that @id refers to in recipes that no newest version names. *@ret_changed: there was
 * some, and maps have changed.
 */
int rd_recipe_adopt_old(struct rd_sql *sql, i64 id, bool *ret_changed);

/* Count the rows that name the recipe and that a newest version sees. -ENOENT. */
int rd_recipe_latest_refs(struct rd_sql *sql, i64 id, u64 *ret);
/* Does no newest version name the recipe, and has it given up what its volume has? -ENOENT. */
int rd_recipe_is_old(struct rd_sql *sql, i64 id, bool *ret);
/* Find the frame that has the recipe, or most of it. -ENOENT. */
int rd_recipe_frame(struct rd_sql *sql, i64 id, u64 *ret);
/*
 * Recipes that a newest version has in pieces, but in one; 0 pieces: they were not counted. Find
 * the next number above @pieces that there is (-ENOENT), and list up to @max recipes above @after
 * that have this number, in order.
 */
int rd_recipes_next_pieces(struct rd_sql *sql, unsigned int pieces, unsigned int *ret);
int rd_recipes_in_pieces(struct rd_sql *sql, unsigned int pieces, i64 after, i64 *ids,
			 unsigned int max, unsigned int *ret_nr);

/* List up to @max recipes above @after that @volume has superseded, in order. */
int rd_superseded_list(struct rd_sql *sql, i64 volume, i64 after, i64 *ids, unsigned int max,
		       unsigned int *ret_nr);
/*
 * Ask for up to @max pairs: a recipe from @first on that @volume has superseded, in order, and
 * one of a newest version that refers to it: rd_next_source().
 */
int rd_superseded_sources(struct rd_sql *sql, struct rd_row **ret, i64 volume, i64 first,
			  unsigned int max);
int rd_next_source(struct rd_row *rows, i64 *ret_superseded, i64 *ret_source);
int rd_superseded_count(struct rd_sql *sql, i64 volume, u64 *ret);
/* Forget that the recipe, or each recipe of @volume, is superseded: it is reversed. */
int rd_superseded_remove(struct rd_sql *sql, i64 recipe);
int rd_superseded_remove_all(struct rd_sql *sql, i64 volume);

/*
 * Find the slots of @frame that recipes and packs own: all others may be written to. -EUCLEAN,
 * after a message: one of these cannot be read, or they are not as many as were counted.
 */
int rd_frame_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret);
/* Find those that recipes own, as far as these can be read. */
int rd_frame_live_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret);

#endif
