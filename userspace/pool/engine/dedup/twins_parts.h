/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of twins.h share. */
#ifndef RD_TWINS_PARTS_H
#define RD_TWINS_PARTS_H

#include <errno.h>

#include "base/clock.h"
#include "spill.h"
#include "twins.h"

/* How long a recipe lives: that of a newest version for ever. */
#define RD_LIVES_NEWEST		UINT32_MAX

/*
 * A block that a recipe owns. Its fingerprint is cut to 12 bytes: blocks that agree in these and
 * are not the same are told apart by whoever uses what was found.
 */
struct rd_twin_entry {
	u8 key[12];
	u32 lives;		/* until the last version that sees it, in seconds since 1970 */
	rd_block_id block;
};

/* Choose a number below @nr by the beginning of the key. */
static inline unsigned int rd_twin_part(const u8 *key, unsigned int nr)
{
	return ((u64)key[0] << 24 | key[1] << 16 | key[2] << 8 | key[3]) * nr >> 32;
}

/* -EINTR: the user has asked to stop; -ETIMEDOUT: it is later than @until_us, 0: never. */
static inline int rd_twins_check(struct rd_pool *pool, u64 until_us)
{
	if (until_us && rd_now_us() >= until_us)
		return -ETIMEDOUT;
	return rd_pool_progress(pool, "find", 0, 0);
}

typedef int rd_twin_emit_fn(void *ctx, const struct rd_twin_entry *entry);

/* twins_stream.c: read all that recipes own, and give what is in the filter to @emit. */
struct rd_twins_stream {
	struct rd_pool *pool;
	const struct rd_twins_filter *filter;	/* NULL: all is */
	struct rd_pace *pace;
	u64 until_us;
	struct rd_twins_counts *counts;
	rd_twin_emit_fn *emit;
	void *ctx;
};

int rd_twins_stream(const struct rd_twins_stream *what);

/*
 * twins_join.c: find the twins in @bucket of @entries, and put them into @twins, in buckets by
 * recipe.
 */
struct rd_twins_join {
	struct rd_pool *pool;
	struct rd_spill *entries, *twins;
	unsigned int nr_buckets;	/* of @twins */
	bool all;
	u64 until_us;
	struct rd_twins_counts *counts;
	struct rd_twins_table *table;	/* of the last bucket */
};

void rd_twins_join_free(struct rd_twins_join *join);
int rd_twins_join(struct rd_twins_join *join, unsigned int bucket);

#endif
