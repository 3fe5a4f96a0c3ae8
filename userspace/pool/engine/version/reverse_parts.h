/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of reverse.c share. */
#ifndef RD_REVERSE_PARTS_H
#define RD_REVERSE_PARTS_H

#include "pool/catalog/versions.h"
#include "pool/engine/read/keepers.h"
#include "pool/engine/read/resolve.h"

#define RD_REVERSE_CHUNK	64		/* frames whose fingerprints are read at a time */
#define RD_REVERSE_CHUNKS	8		/* and are kept */

/* A block of a superseded recipe. */
struct rd_reverse_wanted {
	struct rd_fp fp;
	rd_place was;		/* where it is */
	rd_place at;		/* what it becomes; 0: nothing was found */
	rd_place here;		/* where the target was then */
	u32 next;		/* with the same fingerprint, or NONE */
	u16 slot;
};

/* A superseded recipe, and which of its blocks: @nr of them in the order of slots. */
struct rd_reverse_work {
	i64 id;
	struct rd_seg_fp fp;	/* a number may be another recipe's some day */
	u32 first, nr;
};

struct rd_reverse {
	struct rd_pool *pool;
	i64 volume;
	struct rd_version newest;
	unsigned int nr_works;
	struct rd_reverse_work *works;
	unsigned int nr_wanted;
	unsigned int nr_fps;	/* different ones among them that are not found */
	u64 waiting;		/* blocks that were not looked for */
	struct rd_reverse_wanted *wanted;
	unsigned int nr_heads;	/* a power of two */
	u32 *heads;
	unsigned int nr_sorted;
	struct rd_reverse_sorted *sorted;	/* see reverse.c */
	/* Fingerprints read last: those of old recipes and of new ones take turns. */
	struct rd_resolver *resolver;	/* of what recipes refer to */
	struct rd_hasher *hasher;
	struct rd_keepers *keepers;
	struct rd_written *written;	/* by this command; or NULL */
	u64 damaged;			/* keepers */
	i64 asked;			/* whether a newest version names it; 0: nothing was */
	bool asked_is_latest;
	unsigned int next_chunk;
	u64 chunks[RD_REVERSE_CHUNKS];
	struct rd_fp (*chunk_fps)[RD_REVERSE_CHUNK][RD_SEG_BLOCKS];
};

/* For a new transaction: forget fingerprints. */
void rd_reverse_forget_fps(struct rd_reverse *rev);
/* The fingerprint that is beside the block @here; zeros: it cannot be read. */
struct rd_fp rd_reverse_fp_at(struct rd_reverse *rev, rd_place here);

/* leave.c; and swap.c, for all that newest recipes refer to in what @volume has superseded. */
int rd_leave_before(struct rd_pool *pool, struct rd_version *version);
int rd_swap_superseded(struct rd_pool *pool, i64 volume);

/* reverse_change.c: prove what was found, and let recipes refer to it. */
int rd_reverse_change(struct rd_reverse *rev);

#endif
