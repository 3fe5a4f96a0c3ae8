// SPDX-License-Identifier: GPL-2.0
/*
 * Which of the hard cases came up: seen in the catalog and in the model. See model.h.
 */
#include <stdio.h>
#include <string.h>

#include "pool/catalog/recipes.h"
#include "pool/catalog/sql.h"
#include "pool/engine/engine.h"
#include "model.h"

u64 covered[NR_COVERAGE];

const char *const coverage_names[NR_COVERAGE] = {
	[HIT_HOLED] = "content that the pool has in pieces",
	[TWICE_IN_VERSION] = "the same content twice in a version",
	[SHARED_FIRST] = "shared content superseded in the first volume, then the second",
	[SHARED_SECOND] = "shared content superseded in the second volume, then the first",
	[AT_ACROSS] = "a reference to another offset",
	[CHAIN] = "a chain of 5 references",
	[DELETE_NEWEST] = "the newest version deleted",
	[DELETE_MIDDLE] = "a version in the middle deleted",
	[DELETE_POINTED_AT] = "a version deleted that others point at",
	[UNIQUE_SOME] = "blocks that only one version has",
	[UNIQUE_NONE] = "a version that has nothing alone",
	[REUSED_FRAME] = "a freed frame used again",
	[HELD_NEWEST] = "the newest version deleted while a device reads it",
	[HELD_OTHER] = "an older version deleted while a device reads it",
	[LEFT] = "blocks that devices have left",
	[UNREACHABLE] = "times that a device could not be reached",
	[GONE] = "devices that were gone without a word",
	[RACING_DEVICE] = "devices whose version was deleted while they came",
	[STUCK] = "a queue that stays as it is, for a device out of reach",
	[LIE_ROW] = "a row that names another content, and who reads it refused",
	[LIE_FREE] = "a frame in use that is said to be free, and not given out",
	[OLD_CATALOG] = "an older catalog put back, and refused",
	[OLD_DATA] = "an older data area put back, and refused",
};

static unsigned int chain_length(i64 id, unsigned int slot)
{
	static struct rd_recipe recipe;
	unsigned int n = 0;

	for (;;) {
		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		if (rd_place_kind(recipe.map.at[slot]) != RD_REF)
			return n;
		n++;
		id = rd_place_id(recipe.map.at[slot]);
		slot = rd_place_slot(recipe.map.at[slot]);
	}
}

void see_maps(void)
{
	RD_ROW struct rd_row *row = NULL;
	static struct rd_recipe recipe;
	bool across = false, chain = false;
	unsigned int i;

	if (rd_sql_ask(pool->sql, &row,
		       "SELECT DISTINCT source FROM recipe_ref ORDER BY source DESC LIMIT 8", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0) {
		i64 id = rd_row_i64(row, 0);

		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		for (i = 0; i < RD_SEG_BLOCKS; i++) {
			if (rd_place_kind(recipe.map.at[i]) != RD_REF)
				continue;
			across |= rd_place_slot(recipe.map.at[i]) != i;
		}
	}
	rd_row_done(row);
	row = NULL;
	if (rd_sql_ask(pool->sql, &row,
		       "SELECT source FROM recipe_ref ORDER BY source LIMIT 4", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0 && !chain) {
		i64 id = rd_row_i64(row, 0);

		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		for (i = 0; i < RD_SEG_BLOCKS && !chain; i += 7)
			if (rd_place_kind(recipe.map.at[i]) == RD_REF)
				chain = chain_length(id, i) >= 5;
	}
	covered[AT_ACROSS] += across;
	covered[CHAIN] += chain;
}

static const u8 *seg_blocks(const struct model_version *version, unsigned int seg)
{
	return &version->blocks[seg * RD_SEG_BLOCKS];
}

static bool is_zero_seg(const u8 *blocks)
{
	return rd_is_zero(blocks, RD_SEG_BLOCKS);
}

static bool has_seg(const struct model_version *version, const u8 *blocks)
{
	unsigned int seg;

	for (seg = 0; seg < MAX_SEGS; seg++)
		if (!memcmp(seg_blocks(version, seg), blocks, RD_SEG_BLOCKS))
			return true;
	return false;
}

static bool another_has(const struct model_volume *volume, const u8 *blocks)
{
	unsigned int v;

	for (v = 0; v < NR_VOLUMES; v++)
		if (&volumes[v] != volume && volumes[v].nr &&
		    has_seg(newest(&volumes[v]), blocks))
			return true;
	return false;
}

/* Which volume was the first to let go of content that several newest versions had. */
static u8 let_go[1 << 16];

static u8 *who_let_go(const u8 *blocks)
{
	u64 hash = 0;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		hash = (hash ^ blocks[i]) * 0x100000001b3ULL;
	return &let_go[hash >> 48];
}

/* @new supersedes the version before it. */
void see_superseded(const struct model_volume *volume, const struct model_version *new)
{
	const struct model_version *old = newest(volume);
	unsigned int seg, me = volume - volumes + 1;

	for (seg = 0; old && seg < MAX_SEGS; seg++) {
		const u8 *blocks = seg_blocks(old, seg);
		u8 *who = who_let_go(blocks);

		if (is_zero_seg(blocks) || has_seg(new, blocks))
			continue;
		if (another_has(volume, blocks)) {
			*who = me;
		} else if (*who && *who != me) {
			covered[*who < me ? SHARED_FIRST : SHARED_SECOND]++;
			*who = 0;
		}
	}
}

/* Frames that had been in use, then were not, and now are. */
void see_frames(void)
{
	static enum { NEW, IN_USE, FREED } frames[2048];
	static bool is_used[2048];
	RD_ROW struct rd_row *row = NULL;
	unsigned int i;

	memset(is_used, 0, sizeof(is_used));
	if (rd_sql_ask(pool->sql, &row, "SELECT DISTINCT frame FROM slot_owner", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0)
		is_used[rd_row_i64(row, 0)] = true;
	for (i = 0; i < 2048; i++) {
		covered[REUSED_FRAME] += is_used[i] && frames[i] == FREED;
		frames[i] = is_used[i] ? IN_USE : frames[i] == NEW ? NEW : FREED;
	}
}

void print_coverage(void)
{
	unsigned int i;

	for (i = 0; i < NR_COVERAGE; i++)
		printf("%6llu  %s\n", covered[i], coverage_names[i]);
	printf("%6llu  errors planted and found\n", nr_planted());
}

bool are_covered(u64 wanted)
{
	unsigned int i;

	for (i = 0; i < NR_COVERAGE; i++)
		if (covered[i] < wanted)
			return false;
	return true;
}
