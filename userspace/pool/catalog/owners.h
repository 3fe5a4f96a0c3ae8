/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What maps have, counted from the other side: the tables slot_owner (which recipes have
 * slots of a frame) and recipe_ref (which recipes refer to a recipe). recipes.c counts each
 * map here as it writes it, in the same transaction.
 */
#ifndef RD_OWNERS_H
#define RD_OWNERS_H

#include "pool/data/map.h"
#include "db.h"
#include "frames.h"

/* Recipe @recipe had the map @old and has @new; NULL has nothing. */
int rd_owners_change(struct rd_sql *sql, i64 recipe, const struct rd_map *old,
		     const struct rd_map *new);

/* Ask for the recipes that have slots of @frame: rd_next_id(). */
int rd_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame);

/* Find the slots of @frame that recipes have. -EUCLEAN, -ENOENT: a recipe cannot be read. */
int rd_frame_slots(struct rd_sql *sql, u64 frame, struct rd_slots *ret);

/* Ask for frames and their recipes, from @first on, by frame: rd_next_owner(). */
int rd_owners(struct rd_sql *sql, struct rd_row **ret, u64 first);
int rd_next_owner(struct rd_row *rows, u64 *ret_frame, i64 *ret_recipe);

/* Ask for up to @max frames that recipes have slots of, in order: rd_next_frame(). */
int rd_frames_owned(struct rd_sql *sql, struct rd_row **ret, u64 first, u64 last,
		    unsigned int max);

/* How many slots recipes have. */
int rd_blocks_owned(struct rd_sql *sql, u64 *ret);

/* Ask for the recipes that refer to recipe @id: rd_next_id(). */
int rd_recipe_sources(struct rd_sql *sql, struct rd_row **ret, i64 id);

/* Ask for @max (-1: all) of them but @id itself, the youngest first: rd_next_id(). */
int rd_recipe_heirs(struct rd_sql *sql, struct rd_row **ret, i64 id, i64 max);

#endif
