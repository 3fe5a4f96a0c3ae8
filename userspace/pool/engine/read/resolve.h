/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From recipes to places: follow every REF to where the block is. Within one
 * transaction that reads, begun by the caller.
 */
#ifndef RD_RESOLVE_H
#define RD_RESOLVE_H

#include "pool/catalog/recipes.h"
#include "pool/data/area.h"

struct rd_resolver;

struct rd_resolver *rd_resolver_new(struct rd_sql *sql);
void rd_resolver_free(struct rd_resolver *resolver);

/* Forget all recipes that were read; for a new transaction. */
void rd_resolver_forget(struct rd_resolver *resolver);

/* Load a recipe as the catalog has it; *@ret lasts until the next call. -ENOENT, -EUCLEAN. */
int rd_resolver_load(struct rd_resolver *resolver, i64 id, const struct rd_recipe **ret);

/* Find the places of all blocks of @recipe: OWN or ZERO. -ENOENT, -EUCLEAN. */
int rd_resolve(struct rd_resolver *resolver, i64 recipe, struct rd_map *ret_map,
	       struct rd_seg_fp *ret_fp);

/*
 * Read the fingerprints of the blocks of @map, which is resolved. A fingerprint that cannot
 * be read is zeros: the fingerprint of the segment then does not match.
 */
void rd_read_map_fps(const struct rd_area *area, const struct rd_map *map,
		     struct rd_fp fps[RD_SEG_BLOCKS]);

/*
 * The same, for who reads many maps: segments in many pieces are in the same frames, whose
 * fingerprints are kept until they are forgotten. They may be those of before another command
 * used the frame again, so the caller proves them, as ever.
 */
void rd_resolver_read_fps(struct rd_resolver *resolver, const struct rd_area *area,
			  const struct rd_map *map, struct rd_fp fps[RD_SEG_BLOCKS]);
void rd_resolver_forget_fps(struct rd_resolver *resolver);

#endif
