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

/* What was seen of the catalog before may have changed: a new transaction. */
void rd_resolver_forget(struct rd_resolver *resolver);

/* The recipe as it is in the catalog; it holds until the next call. -ENOENT, -EUCLEAN. */
int rd_resolver_load(struct rd_resolver *resolver, i64 id, const struct rd_recipe **ret);

/* All of @ret_map is OWN or ZERO. -ENOENT, -EUCLEAN. */
int rd_resolve(struct rd_resolver *resolver, i64 recipe, struct rd_map *ret_map,
	       struct rd_seg_fp *ret_fp);

/*
 * The fingerprints of the blocks that @map (resolved) names; zeros for what cannot
 * be read, and then the segment's is another one.
 */
void rd_read_map_fps(const struct rd_area *area, const struct rd_map *map,
		     struct rd_fp fps[RD_SEG_BLOCKS]);

#endif
