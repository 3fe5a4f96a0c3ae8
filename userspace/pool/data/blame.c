// SPDX-License-Identifier: GPL-2.0
/* Tell rotten blocks from rotten fingerprints; see blame.h. */
#include "blame.h"

/* Up to this many differences are tried in every combination: 2 ^ 12 hashes of 8 KiB. */
#define MAX_TRIED	12

#define UNPROVEN	(RD_BAD_CONTENT | RD_BAD_UNPROVEN)

struct blame {
	struct rd_hasher *hasher;
	const struct rd_seg_fp *want;
	const struct rd_map *map;
	const struct rd_fp *stored;
	const struct rd_fp *found;
	struct rd_fp *truth;
	unsigned int nr;		/* that differ */
	u16 differ[RD_SEG_BLOCKS];
};

static bool is_proven(const struct blame *blame)
{
	return rd_fps_are_of(blame->hasher, blame->truth, blame->want);
}

static void choose(struct blame *blame, unsigned int nr, bool found)
{
	unsigned int block = blame->differ[nr];

	blame->truth[block] = found ? blame->found[block] : blame->stored[block];
}

/* Try every combination: a bit of `bits` says that a block is right. */
static bool try_all(struct blame *blame)
{
	unsigned int i, bits;

	if (blame->nr > MAX_TRIED)
		return false;
	for (bits = 0; bits < 1U << blame->nr; bits++) {
		for (i = 0; i < blame->nr; i++)
			choose(blame, i, bits >> i & 1);
		if (is_proven(blame))
			return true;
	}
	return false;
}

/* Find the block of fingerprints that has that of block @block: a disk loses it at once. */
static u64 fps_block_of(const struct blame *blame, unsigned int block)
{
	return blame->map->at[block] / RD_FPS_IN_BLOCK;
}

/* Try whether exactly the fingerprints in block @fps_block are lost. */
static bool try_fps_block(struct blame *blame, u64 fps_block)
{
	unsigned int i;

	for (i = 0; i < blame->nr; i++)
		choose(blame, i, fps_block_of(blame, blame->differ[i]) == fps_block);
	return is_proven(blame);
}

static bool try_fps_blocks(struct blame *blame)
{
	u64 last = U64_MAX;
	unsigned int i;

	for (i = 0; i < blame->nr; i++) {
		u64 fps_block = fps_block_of(blame, blame->differ[i]);

		if (fps_block != last && try_fps_block(blame, fps_block))
			return true;
		last = fps_block;
	}
	return false;
}

static bool try_found(struct blame *blame)
{
	unsigned int i;

	for (i = 0; i < blame->nr; i++)
		choose(blame, i, true);
	return is_proven(blame);
}

static void find_differing(struct blame *blame)
{
	unsigned int i;

	memcpy(blame->truth, blame->stored, RD_FPS_SIZE);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (!rd_fp_equal(&blame->stored[i], &blame->found[i]))
			blame->differ[blame->nr++] = i;
}

static void blame_proven(const struct blame *blame, u8 *bad)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		bad[i] = (rd_fp_equal(&blame->truth[i], &blame->found[i]) ? 0 : RD_BAD_CONTENT) |
			(rd_fp_equal(&blame->truth[i], &blame->stored[i]) ? 0 : RD_BAD_FP);
}

void rd_blame_all(const struct rd_map *map, struct rd_blame *ret)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		ret->bad[i] = rd_place_kind(map->at[i]) == RD_OWN ? UNPROVEN : 0;
}

static void blame_unproven(const struct blame *blame, struct rd_blame *ret)
{
	unsigned int i;

	ret->is_map_wrong = true;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		bool is_own = rd_place_kind(blame->map->at[i]) == RD_OWN;

		ret->bad[i] = is_own && !rd_fp_agrees(&blame->stored[i], &blame->found[i]) ?
			UNPROVEN : 0;
		ret->is_map_wrong &= !ret->bad[i];
	}
	if (ret->is_map_wrong)
		rd_blame_all(blame->map, ret);
}

bool rd_blame(struct rd_hasher *hasher, const struct rd_map *map,
	      const struct rd_seg_fp *want, const struct rd_fp stored[RD_SEG_BLOCKS],
	      const struct rd_fp found[RD_SEG_BLOCKS], struct rd_blame *ret)
{
	struct blame blame = {
		.hasher = hasher,
		.want = want,
		.map = map,
		.stored = stored,
		.found = found,
		.truth = ret->truth,
	};

	ret->is_map_wrong = false;
	find_differing(&blame);
	if (is_proven(&blame) || try_found(&blame) || try_fps_blocks(&blame) ||
	    try_all(&blame)) {
		blame_proven(&blame, ret->bad);
		return true;
	}
	blame_unproven(&blame, ret);
	return false;
}
