/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of pass.h share. */
#ifndef RD_PASS_PARTS_H
#define RD_PASS_PARTS_H

#include "base/buffer.h"
#include "base/pace.h"
#include "pool/catalog/fresh.h"
#include "pool/data/fp.h"
#include "pool/engine/read/keepers.h"
#include "pass.h"

/* Blocks of a batch: of keepers that are read together, and of what one transaction changes. */
#define RD_PASS_BATCH	RD_KEEPERS

struct rd_resolver;

/* A block that is to be given up. */
struct rd_pass_choice {
	struct rd_twin twin;
	/* By rd_pass_read(): what both recipes are, and where the keeper was; 0: not proven. */
	struct rd_seg_fp source, kept;
	struct rd_keeper keeper;
	bool is_short;		/* the run that it is in, as proven */
};

struct rd_pass_proof;

struct rd_pass {
	struct rd_pool *pool;
	const struct rd_pass_options *options;
	struct rd_pass_report *report;
	struct rd_pace pace;
	struct rd_keepers *keepers;
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	i64 catalog_seen;		/* by it: see forget_old() */
	u64 changed_before;		/* of the report, when it had forgotten all */
	struct rd_pass_proof *proofs;
	unsigned int next_proof;	/* to be replaced */
	unsigned int nr;
	struct rd_pass_choice choices[RD_PASS_BATCH];
	struct rd_keeper *by_place[RD_PASS_BATCH];
	u64 waiting;			/* blocks that were given up, and not given back */
	unsigned int slices;		/* of what is compared */
	struct rd_fresh_pass row;
	struct rd_buffer left;		/* i64 each: recipes that stay fresh */
};

static inline i64 rd_block_recipe(rd_block_id block)
{
	return block >> 9;
}

static inline unsigned int rd_block_number(rd_block_id block)
{
	return block % RD_SEG_BLOCKS;
}

/* pass_read.c. */
int rd_pass_read_begin(struct rd_pass *pass);
void rd_pass_read_free(struct rd_pass *pass);
/* Prove the choices, and read their keepers. */
int rd_pass_read(struct rd_pass *pass);

struct rd_twins_filter;

/*
 * pass_fresh.c. Begin, or go on with what was begun: pass->row says in which slice. *@ret: of
 * what is fresh; NULL: all is compared.
 */
int rd_pass_begin(struct rd_pass *pass, unsigned int slices, struct rd_twins_filter **ret);
/* From now on, or no longer, it is read where blocks are. */
int rd_pass_read_places(struct rd_pass *pass, bool reads_places);
/* Something was found for @recipe, and is left for the next pass. */
int rd_pass_leave(struct rd_pass *pass, i64 recipe);
/* Note what was left, if that is much. */
int rd_pass_mark_left(struct rd_pass *pass);
/* All that the slice has was used, or left. */
int rd_pass_end_slice(struct rd_pass *pass);
/* If that was the last slice, forget what was fresh. */
int rd_pass_end(struct rd_pass *pass);

/* pass_change.c: let the recipes refer, in one transaction. */
int rd_pass_change(struct rd_pass *pass);

#endif
