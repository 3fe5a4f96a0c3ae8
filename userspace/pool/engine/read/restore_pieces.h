/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of a restore share: restore.c (which segment is next, and the windows),
 * restore_read.c (what a segment needs of the pool, and whether it is good), restore_packs.c
 * (what it needs of packs) and restore_target.c (what the target has, and gets).
 */
#ifndef RD_RESTORE_PIECES_H
#define RD_RESTORE_PIECES_H

#include "pool/data/copies.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "blocks.h"
#include "resolve.h"
#include "restore.h"

#define WINDOW		4
#define NR_PIECES	(8 * WINDOW)

#define RD_RESTORE_GAP	8	/* blocks between two that are wanted, and are read with them */

enum piece_state {
	PIECE_FREE,
	PIECE_TARGET,		/* the target is read and fingerprinted */
	PIECE_COMPARE,		/* that is done */
	PIECE_READ,		/* the pool is read */
	PIECE_CHECK,
	PIECE_CHECKED,
	PIECE_WRITE,
};

struct restore;

/* A segment on its way. */
struct piece {
	struct restore *restore;
	enum piece_state state;
	u64 segment;
	i64 recipe;
	size_t len;			/* of it, whole blocks */
	struct rd_map map;		/* resolved */
	struct rd_seg_fp want;
	u8 *data;
	struct rd_fp *fps;		/* of what is in data */
	bool need[RD_SEG_BLOCKS];	/* to be written */
	bool bad[RD_SEG_BLOCKS];
	bool is_unknown;		/* what it should be */
	struct rd_seg_fp fp;
	unsigned int busy;		/* blocks that were not read, or writes under way */
	int r;				/* of the reads */
	struct rd_job job;
	struct rd_op op;		/* on the target */
	struct rd_op ops[RD_SEG_BLOCKS];	/* writes; or reads, alone */
};

struct want {
	u64 offset;			/* in the data area, */
	rd_place place;			/* or in a pack */
	struct piece *piece;
	unsigned int block;
};

struct restore {
	struct rd_pool *pool;
	const struct rd_restore_options *options;
	struct rd_restore_report *report;
	u64 paid;			/* bytes that the pace of the pool knows of */
	struct rd_ring *ring;
	struct rd_workers *workers;
	struct rd_resolver *resolver;
	struct rd_hasher *hasher;
	struct rd_blocks *blocks;
	int r;
	u64 nr_segs;
	u64 next;			/* segment to begin with */
	u64 out;			/* segment that the target gets next */
	u64 gap, gap_end;		/* when it comes to the gap, what follows is next */
	u64 row, row_end;		/* no rows of the catalog between these segments */
	u64 hole, hole_end;		/* and no data in the target */
	u8 *data;			/* a segment for each piece */
	struct rd_fp *fps;		/* and its blocks' fingerprints */
	struct piece *pieces;		/* segment % NR_PIECES; large, and mostly unused */
	struct want *wants, *packed_wants;
	unsigned int nr_wants, nr_packed_wants;
	struct restore_packs *packs;	/* NULL: nothing was wanted of one */
	struct gather *spare, *made;
	u8 *gap_data;			/* read, and never looked at */
	struct rd_copies copies;	/* opened for the first damage */
	bool looked_for_copies, has_copies;
	rd_sum sum;			/* of what it has come from, see proof.h */
	bool is_unknown;		/* of some of it that is not known */
};

static inline u64 piece_offset(const struct piece *piece)
{
	return piece->segment << RD_SEG_SHIFT;
}

/* --- restore_read.c */

/* Say where the blocks of the piece's recipe are. -EUCLEAN, -ENOENT: it cannot be said. */
int rd_restore_resolve(struct restore *restore, struct piece *piece);

/* Note what the piece needs of the pool; then read all that is noted, in order. */
void rd_restore_want(struct piece *piece);
int rd_restore_read(struct restore *restore);

/* Give what is in memory to a thread that hashes it. */
void rd_restore_hash(struct piece *piece);

/* Is it what it should be? If not, try again: what is bad in the end is noted. */
bool rd_restore_is_good(struct restore *restore, struct piece *piece);
int rd_restore_try_again(struct restore *restore, struct piece *piece);

void rd_restore_free_reads(struct restore *restore);

/*
 * So many blocks were read for the piece, of those that piece->busy counts since they were
 * wanted: one that was not read for it keeps the piece from going on.
 */
void rd_restore_read_ended(struct piece *piece, unsigned int blocks, int r);

/* --- restore_packs.c */

void rd_restore_packs_free(struct restore *restore);

/* Read restore->packed_wants. */
int rd_restore_read_packs(struct restore *restore);

/* --- restore_target.c */

/* Read what the target has, and compare it with what the pool has. */
void rd_restore_read_target(struct piece *piece);
int rd_restore_compare(struct restore *restore, struct piece *piece);

int rd_restore_write(struct piece *piece);

#endif
