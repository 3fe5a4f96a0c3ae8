// SPDX-License-Identifier: GPL-2.0
/* Proof of a version. See proof.h. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "proof.h"

#define WINDOW	1024		/* segments whose rows are read at a time */

struct proof {
	struct rd_sql *sql;
	const struct rd_version *version;
	struct rd_hasher *hasher;
	rd_sum sum;
	bool is_known;		/* what each segment is */
};

static int add_segment(struct proof *proof, u64 segment, i64 recipe)
{
	struct rd_seg_fp fp;
	bool known;
	int r;

	r = rd_recipe_known_fp(proof->sql, recipe, &fp, &known);
	if (r)
		return r;
	if (known)
		proof->sum += rd_fp_sum(proof->hasher, segment, &fp);
	else
		proof->is_known = false;
	return 0;
}

static int add_window(struct proof *proof, u64 first, unsigned int nr)
{
	i64 recipes[WINDOW];
	unsigned int i;
	int r;

	r = rd_segments_read(proof->sql, proof->version->volume, proof->version->number, first,
			     nr, recipes);
	for (i = 0; i < nr && !r; i++)
		if (recipes[i])
			r = add_segment(proof, first + i, recipes[i]);
	return r;
}

static int add_all(struct proof *proof)
{
	u64 first, end = rd_nr_segs(proof->version->size);
	int r;

	r = rd_sql_begin_read(proof->sql);
	if (r)
		return r;
	for (first = 0; first < end && !r && proof->is_known; first += WINDOW)
		r = add_window(proof, first, rd_min(WINDOW, end - first));
	rd_sql_end_read(proof->sql);
	return r;
}

int rd_version_disproved(struct rd_pool *pool, const struct rd_version *version)
{
	RD_FREE char *name = NULL;
	int r = rd_volume_name(pool->sql, version->volume, &name);

	if (r && r != -ENOENT)
		return r;
	rd_err(0, "'%s@%lld': the catalog does not name the segments that the version was made with",
	       name ? name : "?", (long long)version->number);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

int rd_version_prove(struct rd_pool *pool, const struct rd_version *version)
{
	struct proof proof = {
		.sql = pool->sql,
		.version = version,
		.hasher = rd_hasher_new(),
		.is_known = true,
	};
	int r = proof.hasher ? add_all(&proof) : -ENOMEM;

	rd_hasher_free(proof.hasher);
	if (r || !proof.is_known || proof.sum == version->sum)
		return r;
	return rd_version_disproved(pool, version);
}
