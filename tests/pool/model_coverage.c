// SPDX-License-Identifier: GPL-2.0
/*
 * Which of the hard cases came up: seen in the catalog and in the model. See model.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/sql.h"
#include "pool/engine/version/version.h"
#include "model.h"

u64 *covered;

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
	[KEPT] = "doomed blocks that a device which is down keeps",
	[GONE] = "devices that were gone without a word",
	[RACING_DEVICE] = "devices whose version was deleted while they came",
	[PACKED] = "blocks of packs that devices read",
	[PACKED_LEFT] = "blocks of packs that devices have left",
	[STUCK] = "a queue that stays as it is, for a device out of reach",
	[LIE_ROW] = "a row that names another content, and who reads it refused",
	[LIE_FREE] = "a frame in use that is said to be free, and not given out",
	[LIE_TAIL] = "a frame in use that is said to have room, and not filled",
	[OLD_CATALOG] = "an older catalog put back, and refused",
	[OLD_DATA] = "an older data area put back, and refused",
	[STORED_RAW] = "segments that were stored raw since they do not compress",
	[PACK_WRITTEN] = "packs written",
	[RAW_GROUP] = "packs with a group that is raw",
	[PACK_ACROSS] = "packs that lie in two frames",
	[TAIL_CONTINUED] = "packs that go on behind those of an earlier command",
	[DEAD_SLOTS] = "packs that have lost blocks",
	[PACK_REMOVED] = "packs removed",
	[NUMBER_AGAIN] = "numbers of packs used again",
	[PACKS_REBUILT] = "catalogs with packs made anew",
	[STORED_PART] = "changed segments that were stored in part",
	[READ_PART] = "snapshots that read segments in part",
	[FOUND_ELSEWHERE] = "blocks that inline deduplication found",
	[PIECES_AGAIN] = "segments that were written again, as they were in too many pieces",
	[REF_IN_NEWEST] = "snapshots after which a newest version refers to another one",
	[ADOPTED] = "blocks that a newest version took over from an old one",
	[SWAPPED] = "blocks that went from newest version to newest version",
	[HIT_REFUSED] = "segments with a hit that was gone when it was committed",
	[INDEX_REMOVED] = "indexes that were removed",
	[INDEX_DAMAGED] = "indexes that were damaged",
	[INDEX_OLD] = "older indexes put back",
	[INDEX_ANEW] = "indexes that were made anew",
	[PASS_CHANGED] = "segments that gave blocks up in a pass over the pool",
	[PASS_IN_NEWEST] = "passes that found what newest versions have",
	[PASS_IN_OLD] = "passes that found what only old versions have",
	[PASS_CAPPED] = "blocks that a pass left, as their keeper had too many sources",
	[LEFT_TO_PASS] = "blocks that a snapshot left to a pass",
	[COPIES_MADE] = "blocks that were copied to another disk",
	[COPIES_DROPPED] = "frames whose copies made way for others",
	[PASS_TOO_NEW] = "blocks that a pass left, as they were not replaced often enough",
	[PASS_FRESH] = "passes over what is fresh that changed something",
	[RECOMPRESSED] = "pools stored in another way",
};

void begin_coverage(void)
{
	covered = mmap(NULL, NR_COVERAGE * sizeof(*covered), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (covered == MAP_FAILED)
		fail("no memory");
}

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

/* --- places that go from recipe to recipe */

struct owner {
	rd_place place;
	i64 recipe;
	bool is_latest;
};

/* As they were when they were noted, in the order of places. */
static struct owner *owners;
static size_t nr_owners, max_owners;

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static void note_recipe(const struct rd_recipe *recipe, bool is_latest)
{
	unsigned int i;

	if (nr_owners + RD_SEG_BLOCKS > max_owners) {
		max_owners = 2 * max_owners + RD_SEG_BLOCKS;
		owners = realloc(owners, max_owners * sizeof(*owners));
		if (!owners)
			fail("no memory");
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(recipe->map.at[i]) == RD_OWN)
			owners[nr_owners++] = (struct owner){
				.place = recipe->map.at[i],
				.recipe = recipe->id,
				.is_latest = is_latest,
			};
}

void note_owners(void)
{
	RD_ROW struct rd_row *row = NULL;
	static struct rd_recipe recipe;
	i64 id;

	nr_owners = 0;
	if (rd_sql_ask(pool->sql, &row, "SELECT recipe, latest_refs FROM uses ORDER BY recipe", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0) {
		id = rd_row_i64(row, 0);
		if (rd_recipe_load(pool->sql, id, &recipe))
			fail("recipe %lld is missing", id);
		note_recipe(&recipe, rd_row_i64(row, 1));
	}
	if (nr_owners)
		qsort(owners, nr_owners, sizeof(*owners), compare_owners);
}

/* The one that had @place refers to slot @slot of recipe @id for it. */
static void see_taker(rd_place place, i64 id, unsigned int slot)
{
	struct owner key = { .place = place };
	const struct owner *old = !nr_owners ? NULL :
		bsearch(&key, owners, nr_owners, sizeof(*owners), compare_owners);
	static struct rd_recipe recipe;
	unsigned int i;

	if (!old || old->recipe == id)
		return;
	if (recipe.id != old->recipe && rd_recipe_load(pool->sql, old->recipe, &recipe)) {
		recipe.id = 0;
		return;
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (recipe.map.at[i] == rd_place_make(RD_REF, id, slot))
			break;
	if (i < RD_SEG_BLOCKS)
		covered[old->is_latest ? SWAPPED : ADOPTED]++;
}

void see_takers(void)
{
	RD_ROW struct rd_row *row = NULL;
	static struct rd_recipe recipe;
	unsigned int i;

	if (rd_sql_ask(pool->sql, &row, "SELECT recipe FROM uses WHERE latest_refs > 0", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0) {
		if (rd_recipe_load(pool->sql, rd_row_i64(row, 0), &recipe))
			fail("recipe %lld is missing", rd_row_i64(row, 0));
		for (i = 0; i < RD_SEG_BLOCKS; i++)
			if (rd_place_kind(recipe.map.at[i]) == RD_OWN)
				see_taker(recipe.map.at[i], recipe.id, i);
	}
}

/* --- */

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
	if (rd_sql_ask(pool->sql, &row, "SELECT DISTINCT frame FROM slot_owner"
		       " WHERE frame < 2048", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0)
		is_used[rd_row_i64(row, 0)] = true;
	for (i = 0; i < 2048; i++) {
		covered[REUSED_FRAME] += is_used[i] && frames[i] == FREED;
		frames[i] = is_used[i] ? IN_USE : frames[i] == NEW ? NEW : FREED;
	}
}

/* Packs as they were at the last look, by their number; a number stays known. */
static struct {
	u64 place;
	bool is_known, is_there, has_lost;
} packs[1 << 19];

/* Where the tails began then. */
static u64 tails[8];

static void see_group(const struct rd_pack *pack)
{
	RD_FREE void *bytes = malloc(RD_BLOCK_SIZE);
	struct dmr_pack_head head;
	unsigned int i;
	bool raw = false;

	if (!bytes ||
	    rd_area_read(&pool->area, bytes, RD_BLOCK_SIZE, rd_pack_offset(pack)) ||
	    rd_pack_read_head(&head, bytes, (size_t)pack->blocks * RD_BLOCK_SIZE,
			      pool->area.super.uuid, pack->frame))
		fail("the head of the pack of frame %llu is damaged", pack->frame);
	for (i = 0; i < RD_PACK_GROUPS; i++)
		raw |= head.groups[i].len && head.groups[i].codec == DMR_CODEC_RAW;
	covered[RAW_GROUP] += raw;
}

static void see_new_pack(const struct rd_pack *pack)
{
	unsigned int i;

	covered[PACK_WRITTEN]++;
	covered[NUMBER_AGAIN] += packs[pack->frame - RD_PACKED_FRAMES].is_known;
	covered[PACK_ACROSS] += pack->place % RD_SEG_BLOCKS + pack->blocks > RD_SEG_BLOCKS;
	for (i = 0; i < sizeof(tails) / sizeof(*tails); i++)
		covered[TAIL_CONTINUED] += tails[i] && tails[i] == pack->place;
	see_group(pack);
}

static void see_pack(const struct rd_pack *pack, bool *is_there)
{
	u64 number = pack->frame - RD_PACKED_FRAMES;
	bool has_lost;
	unsigned int live;

	if (rd_frames_count_live(pool->sql, pack->frame, &live))
		fail("cannot look");
	has_lost = live < pack->slots;
	if (!packs[number].is_there || packs[number].place != pack->place)
		see_new_pack(pack);
	covered[DEAD_SLOTS] += has_lost && !packs[number].has_lost;
	packs[number].is_known = true;
	packs[number].place = pack->place;
	packs[number].has_lost = has_lost;
	is_there[number] = true;
}

static void see_tails(void)
{
	RD_ROW struct rd_row *row = NULL;
	unsigned int nr = 0;

	memset(tails, 0, sizeof(tails));
	if (rd_sql_ask(pool->sql, &row, "SELECT 512 * frame + next FROM tail LIMIT 8", ""))
		fail("cannot look");
	while (rd_row_next(row) > 0)
		tails[nr++] = rd_row_i64(row, 0);
}

void see_packs(void)
{
	static bool is_there[1 << 19];
	RD_ROW struct rd_row *rows = NULL;
	struct rd_pack pack;
	unsigned int i;

	memset(is_there, 0, sizeof(is_there));
	if (!(pool->area.super.incompat & RD_INCOMPAT_PACKS) &&
	    number("SELECT count(*) FROM pack"))
		fail("the superblock does not say that there are packs");
	if (rd_packs(pool->sql, &rows, 0))
		fail("cannot look");
	while (rd_next_pack(rows, &pack) > 0)
		see_pack(&pack, is_there);
	for (i = 0; i < sizeof(is_there); i++) {
		covered[PACK_REMOVED] += packs[i].is_there && !is_there[i];
		packs[i].is_there = is_there[i];
	}
	see_tails();
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
