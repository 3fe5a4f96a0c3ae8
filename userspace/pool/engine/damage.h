/* SPDX-License-Identifier: GPL-2.0 */
/* Find out what is rotten, and which versions have it where. */
#ifndef RD_DAMAGE_H
#define RD_DAMAGE_H

#include "base/buffer.h"
#include "pool/data/blame.h"
#include "pool/pool.h"

/* @nr blocks of a segment, in the versions @born to @until of a volume. */
struct rd_bad_row {
	i64 volume;
	u64 segment;
	i64 born, until;
	u32 block, nr;
	u32 bad;		/* the engine's */
};

struct rd_damage_report {
	u64 bytes_read;
	u64 blocks_bad;
	u64 blocks_healed;
	u64 fps_bad;		/* fingerprints that are, of blocks that are not */
	u64 fps_healed;
	u64 recipes_lost;	/* whose map leads nowhere, or to the wrong blocks */
	bool journal_bad;	/* which is healed always; only by rd_heal() */
	/* struct rd_bad_row each, by volume, segment and block: what is left. */
	struct rd_buffer rows;
	u64 rows_left_out;	/* more than these is not listed */
};

/* A place that has not what it should have. */
struct rd_bad_block {
	rd_place place;
	u8 what;		/* of enum rd_bad; 0: nothing, after all */
	bool is_proven;		/* that, and what follows */
	bool is_healed;
	bool is_gone;		/* nobody has it any more */
	struct rd_fp fp;	/* what it should have */
	/* By @recipe, which has the place as its block @block. */
	i64 recipe;
	struct rd_seg_fp recipe_fp;
	unsigned int block;
	u32 next;		/* for who heals */
};

struct rd_bad_list {
	struct rd_bad_block *blocks;	/* in the order of their places */
	size_t nr;
};

/* Mends what it can of @list, and marks it. */
struct rd_healer {
	int (*heal)(struct rd_healer *healer, struct rd_pool *pool, struct rd_bad_list *list);
};

/*
 * Read everything, have @healer (or NULL) mend it, and tell what is left. The
 * report's rows are the caller's to free.
 */
int rd_damage_find(struct rd_pool *pool, struct rd_healer *healer,
		   struct rd_damage_report *report);

#endif
