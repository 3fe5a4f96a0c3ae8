/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recipes that would go with one version, or with some together: no row names them that another
 * version sees. A version that a device reads stays. One pass over the rows of a volume, for all
 * of its versions.
 */
#ifndef RD_SOLE_H
#define RD_SOLE_H

#include "base/buffer.h"
#include "db.h"

/* @recipe would go with version @number of the volume. */
struct rd_sole {
	i64 recipe;
	i64 number;
};

/* Do not look at more rows that one version sees alone: the list must fit into memory. */
#define RD_SOLE_MAX	(2U << 20)

/*
 * Append a struct rd_sole for each such recipe of @volume, in the order of recipes. -E2BIG,
 * without a message: there are more than RD_SOLE_MAX rows to look at.
 */
int rd_sole_recipes(struct rd_sql *sql, i64 volume, struct rd_buffer *ret);

/* The same of recipes that would go with all @nr versions @ids together. Their number is 0. */
int rd_sole_together(struct rd_sql *sql, const i64 *ids, size_t nr, struct rd_buffer *ret);

#endif
