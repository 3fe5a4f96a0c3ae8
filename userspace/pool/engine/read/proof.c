// SPDX-License-Identifier: GPL-2.0
/* Proof of a version. See proof.h. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "proof.h"

#define WINDOW	1024		/* segments whose rows are read at a time */

static int add_segment(struct rd_sql *sql, struct rd_proof *proof, u64 segment, i64 recipe)
{
	struct rd_seg_fp fp;
	bool known;
	int r;

	r = rd_recipe_known_fp(sql, recipe, &fp, &known);
	if (r)
		return r;
	if (known)
		proof->sum += rd_fp_sum(proof->hasher, segment, &fp);
	else
		proof->is_unknown = true;
	return 0;
}

static int add_window(struct rd_sql *sql, struct rd_proof *proof, u64 first, unsigned int nr)
{
	const struct rd_version *version = proof->version;
	i64 recipes[WINDOW];
	unsigned int i;
	int r;

	r = rd_segments_read(sql, version->volume, version->number, first, nr, recipes);
	for (i = 0; i < nr && !r; i++)
		if (recipes[i])
			r = add_segment(sql, proof, first + i, recipes[i]);
	return r;
}

int rd_proof_add(struct rd_sql *sql, struct rd_proof *proof)
{
	u64 first, end = rd_nr_segs(proof->version->size);
	unsigned int nr;
	int r;

	/* What no version of the volume has a row of is zeros, and adds nothing. */
	r = rd_segment_next(sql, proof->version->volume, proof->next, &first);
	if (r || first >= end)
		return r == -ENOENT ? 0 : r;
	nr = rd_min(WINDOW, end - first);
	r = add_window(sql, proof, first, nr);
	proof->next = first + nr;
	return r ? r : proof->next < end && !proof->is_unknown;
}

bool rd_proof_holds(const struct rd_proof *proof)
{
	return proof->is_unknown || proof->sum == proof->version->sum;
}

static int add_all(struct rd_pool *pool, struct rd_proof *proof)
{
	int r = rd_sql_begin_read(pool->sql);

	if (r)
		return r;
	do {
		r = rd_pool_progress(pool, NULL, 0, 0);
		if (!r)
			r = rd_proof_add(pool->sql, proof);
	} while (r > 0);
	rd_sql_end_read(pool->sql);
	return r;
}

int rd_version_disproved(struct rd_pool *pool, const struct rd_version *version)
{
	RD_FREE char *name = NULL;
	int r = rd_volume_name(pool->sql, version->volume, &name);

	if (r && r != -ENOENT)
		return r;
	rd_err(0, "'%s@%lld': the catalog does not name the segments that the version was made with",
	       name ? name : "?", version->number);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "nothing was changed");
	return -EUCLEAN;
}

static int prove(struct rd_pool *pool, const struct rd_version *version, bool all_known)
{
	struct rd_proof proof = { .version = version, .hasher = rd_hasher_new() };
	int r = proof.hasher ? add_all(pool, &proof) : -ENOMEM;

	rd_hasher_free(proof.hasher);
	if (r || (rd_proof_holds(&proof) && !(all_known && proof.is_unknown)))
		return r;
	return rd_version_disproved(pool, version);
}

int rd_version_prove(struct rd_pool *pool, const struct rd_version *version)
{
	return prove(pool, version, false);
}

int rd_version_prove_base(struct rd_pool *pool, const struct rd_version *version)
{
	return prove(pool, version, true);
}
