/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The entries of all maps, indexed by target: the table slot_owner says which recipes have
 * slots of a frame, the table recipe_ref which recipes refer to a recipe. recipes.c updates
 * both in the transaction that writes a map.
 *
 * Packs have slots of ordinary frames as well, and recipes have slots of packed frames. A pack
 * is in slot_owner with the number of its packed frame, negative; packs.c updates it.
 */
#ifndef RD_OWNERS_H
#define RD_OWNERS_H

#include "pool/data/map.h"
#include "db.h"

/* Note that the map of @recipe changes from @old to @new; NULL is a map without entries. */
int rd_owners_change(struct rd_sql *sql, i64 recipe, const struct rd_map *old,
		     const struct rd_map *new);

/* Note that the pack of packed frame @packed gets @n more slots of @frame, or has -@n less. */
int rd_owners_pack(struct rd_sql *sql, u64 frame, u64 packed, i64 n);

static inline bool rd_owner_is_pack(i64 owner)
{
	return owner < 0;
}

static inline u64 rd_owner_packed(i64 owner)
{
	return -owner;
}

/* Ask for the recipes and packs that have slots of @frame: rd_next_id(). */
int rd_frame_recipes(struct rd_sql *sql, struct rd_row **ret, u64 frame);

/* Ask for frames and their recipes and packs, from @first on, by frame: rd_next_owner(). */
int rd_owners(struct rd_sql *sql, struct rd_row **ret, u64 first);
int rd_next_owner(struct rd_row *rows, u64 *ret_frame, i64 *ret_recipe);

/* Ask for up to @max frames that recipes have slots of, in order: rd_next_frame(). */
int rd_frames_owned(struct rd_sql *sql, struct rd_row **ret, u64 first, u64 last,
		    unsigned int max);

/*
 * Ask for up to @max frames from @first on that recipes, not packs, have slots of, in order, and
 * how many: rd_next_filled().
 */
int rd_frames_filled(struct rd_sql *sql, struct rd_row **ret, u64 first, unsigned int max);
int rd_next_filled(struct rd_row *rows, u64 *ret_frame, u64 *ret_slots);

/* Count the slots of @frame, ordinary or packed, that recipes own. */
int rd_frame_live(struct rd_sql *sql, u64 frame, u64 *ret);

/* Count the slots of frames, ordinary and packed, that recipes own. */
int rd_slots_of_recipes(struct rd_sql *sql, u64 *ret);

/* Count the slots of ordinary frames that recipes and packs own. */
int rd_blocks_owned(struct rd_sql *sql, u64 *ret);

/* Count the ordinary frames that recipes have slots of: these have fingerprints. */
int rd_frames_with_fps(struct rd_sql *sql, u64 *ret);

/* Ask for the recipes that refer to recipe @id: rd_next_id(). */
int rd_recipe_sources(struct rd_sql *sql, struct rd_row **ret, i64 id);

/*
 * Ask for the same but @id itself, up to @max (-1: all): those of newest versions first, then
 * the youngest: rd_next_id().
 */
int rd_recipe_heirs(struct rd_sql *sql, struct rd_row **ret, i64 id, i64 max);

/*
 * Count the recipes that refer to recipe @id, itself not counted, up to @max. *@ret_has: is
 * @source one of them?
 */
int rd_recipe_count_sources(struct rd_sql *sql, i64 id, i64 source, unsigned int max,
			    unsigned int *ret_nr, bool *ret_has);

#endif
