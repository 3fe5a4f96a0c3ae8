/* SPDX-License-Identifier: GPL-2.0 */
/* Find damaged blocks, and the versions that have them. */
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
	u64 fps_bad;		/* damaged fingerprints of sound blocks */
	u64 fps_healed;
	u64 recipes_lost;	/* whose map leads nowhere, or to the wrong blocks */
	bool journal_bad;	/* found, and always healed, only by rd_heal() */
	/* The damage that is left: struct rd_bad_row, by volume, segment and block. */
	struct rd_buffer rows;
	u64 rows_left_out;	/* how many more there are */
};

/* A place that does not have the content that it should have. */
struct rd_bad_block {
	rd_place place;
	u8 what;		/* of enum rd_bad; 0: nothing, after all */
	bool is_proven;		/* that, and what follows */
	bool had_fp;		/* one could be read, right or wrong */
	bool is_healed;
	bool is_gone;		/* no recipe has the place any more */
	struct rd_fp fp;	/* what it should have */
	/* By @recipe, which has the place as its block @block. */
	i64 recipe;
	struct rd_seg_fp recipe_fp;
	unsigned int block;
	u32 next;		/* for the healer */
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
 * A part of all that lives: what is read in several goes, in the order on disk. Blocks that other
 * commands move meanwhile are read twice, or in the next round.
 */
struct rd_damage_part {
	u64 next;		/* frame to begin with, and then to go on with; U64_MAX: the end */
	u64 max_bytes;		/* 0: no limit; so is the next one */
	u64 until_us;
};

/*
 * Read everything, or @part if it is not NULL; let @healer (or NULL) mend the damage, and report
 * the rest. The caller frees the rows of the report.
 */
int rd_damage_find(struct rd_pool *pool, struct rd_damage_part *part, struct rd_healer *healer,
		   struct rd_damage_report *report);

#endif
