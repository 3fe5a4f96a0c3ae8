// SPDX-License-Identifier: GPL-2.0
/* Prove what a pass has found, and read what is to stay: see pass.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/catalog/sql.h"
#include "pool/engine/read/resolve.h"
#include "pass_parts.h"

/* Sources come one after the other, and most have few keepers. */
#define NR_PROOFS	8

/* A recipe whose fingerprints are certain. */
struct rd_pass_proof {
	i64 id;				/* 0: none */
	bool is_good;
	struct rd_seg_fp seg;
	bool has[RD_SEG_BLOCKS];	/* not zeros */
	rd_place own[RD_SEG_BLOCKS];	/* where it has its blocks; 0: elsewhere, or nowhere */
	struct rd_fp fps[RD_SEG_BLOCKS];
};

int rd_pass_read_begin(struct rd_pass *pass)
{
	pass->keepers = rd_keepers_new(pass->pool);
	pass->hasher = rd_hasher_new();
	pass->resolver = rd_resolver_new(pass->pool->sql);
	pass->proofs = calloc(NR_PROOFS + 1, sizeof(*pass->proofs));
	return pass->keepers && pass->hasher && pass->resolver && pass->proofs ? 0 : -ENOMEM;
}

void rd_pass_read_free(struct rd_pass *pass)
{
	rd_keepers_free(pass->keepers);
	rd_hasher_free(pass->hasher);
	rd_resolver_free(pass->resolver);
	free(pass->proofs);
}

/* --- proving */

/* In a transaction that reads. */
static int load_proof(struct rd_pass *pass, struct rd_pass_proof *proof, struct rd_map *map)
{
	const struct rd_recipe *recipe;
	unsigned int i;
	int r;

	r = rd_resolve(pass->resolver, proof->id, map, &proof->seg);
	if (!r)
		r = rd_resolver_load(pass->resolver, proof->id, &recipe);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		proof->has[i] = rd_place_kind(recipe->map.at[i]) != RD_ZERO;
		proof->own[i] = rd_place_kind(recipe->map.at[i]) == RD_OWN ? recipe->map.at[i] : 0;
	}
	return r;
}

static void forget(struct rd_pass *pass)
{
	rd_resolver_forget(pass->resolver);
	pass->changed_before = pass->report->changed;
}

/*
 * What this pass has changed itself since it followed a recipe has the same content elsewhere, and
 * that is no reason to follow all again: if a place was given back, the proof fails.
 */
static int forget_old(struct rd_pass *pass)
{
	i64 now;
	int r = rd_sql_changed_by_others(pass->pool->sql, &now);

	if (!r && now != pass->catalog_seen) {
		forget(pass);
		pass->catalog_seen = now;
	}
	return r;
}

/* One that has gone, or whose fingerprints are lost, is not good. */
static int try_proof(struct rd_pass *pass, struct rd_pass_proof *proof)
{
	struct rd_map map;
	int r = rd_sql_begin_read(pass->pool->sql);

	if (r)
		return r;
	r = forget_old(pass);
	if (!r)
		r = load_proof(pass, proof, &map);
	rd_sql_end_read(pass->pool->sql);
	proof->is_good = !r;
	if (!r) {
		rd_read_map_fps(&pass->pool->area, &map, proof->fps);
		proof->is_good = rd_fps_are_of(pass->hasher, proof->fps, &proof->seg);
	}
	return r == -ENOENT || r == -EUCLEAN ? 0 : r;
}

static int make_proof(struct rd_pass *pass, struct rd_pass_proof *proof, i64 id)
{
	int r;

	proof->id = id;
	r = try_proof(pass, proof);
	if (!r && !proof->is_good && pass->report->changed != pass->changed_before) {
		forget(pass);
		r = try_proof(pass, proof);
	}
	if (r)
		proof->id = 0;
	return r;
}

static int prove(struct rd_pass *pass, i64 id, const struct rd_pass_proof **ret)
{
	unsigned int i;

	for (i = 0; i < NR_PROOFS; i++) {
		*ret = &pass->proofs[i];
		if (pass->proofs[i].id == id)
			return 0;
	}
	*ret = &pass->proofs[pass->next_proof];
	i = pass->next_proof;
	pass->next_proof = (i + 1) % NR_PROOFS;
	return make_proof(pass, &pass->proofs[i], id);
}

/* The source has a place of its own, so that no keeper takes it. */
static int prove_source(struct rd_pass *pass, i64 id, const struct rd_pass_proof **ret)
{
	struct rd_pass_proof *proof = &pass->proofs[NR_PROOFS];

	*ret = proof;
	return proof->id == id ? 0 : make_proof(pass, proof, id);
}

/* How long is the run of equal blocks around these, up to @max? */
static unsigned int run_at(const struct rd_pass_proof *source, unsigned int block,
			   const struct rd_pass_proof *keeper, unsigned int kept, unsigned int max)
{
	unsigned int nr = 1, i;

	for (i = 1; nr < max && block + i < RD_SEG_BLOCKS && kept + i < RD_SEG_BLOCKS &&
	     source->has[block + i] &&
	     rd_fp_equal(&source->fps[block + i], &keeper->fps[kept + i]); i++)
		nr++;
	for (i = 1; nr < max && i <= block && i <= kept && source->has[block - i] &&
	     rd_fp_equal(&source->fps[block - i], &keeper->fps[kept - i]); i++)
		nr++;
	return nr;
}

static int prove_choice(struct rd_pass *pass, struct rd_pass_choice *choice)
{
	const unsigned int block = rd_block_number(choice->twin.block);
	const unsigned int kept = rd_block_number(choice->twin.keeper);
	const struct rd_pass_proof *source, *keeper;
	int r;

	r = prove_source(pass, rd_block_recipe(choice->twin.block), &source);
	if (r || !source->is_good)
		return r;
	choice->source = source->seg;
	choice->keeper.fp = source->fps[block];
	r = prove(pass, rd_block_recipe(choice->twin.keeper), &keeper);
	if (r || !keeper->is_good)
		return r;
	choice->kept = keeper->seg;
	/* The hint had a part of the fingerprint, perhaps of what was there before. */
	if (!rd_fp_equal(&choice->keeper.fp, &keeper->fps[kept]))
		return 0;
	choice->keeper.at = keeper->own[kept];
	choice->is_short = run_at(source, block, keeper, kept, pass->options->least_run) <
		pass->options->least_run;
	return 0;
}

static int prove_all(struct rd_pass *pass)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i <= NR_PROOFS; i++)
		pass->proofs[i].id = 0;
	for (i = 0; i < pass->nr && !r; i++)
		r = prove_choice(pass, &pass->choices[i]);
	return r;
}

/* --- reading */

/* What is in a run that is too short is not read. */
static int read_all(struct rd_pass *pass)
{
	unsigned int i, nr = 0;

	for (i = 0; i < pass->nr; i++)
		if (pass->choices[i].keeper.at && !pass->choices[i].is_short)
			pass->by_place[nr++] = &pass->choices[i].keeper;
	return rd_keepers_read(pass->keepers, pass->by_place, nr, &pass->pace);
}

int rd_pass_read(struct rd_pass *pass)
{
	int r = prove_all(pass);

	return r ? r : read_all(pass);
}
