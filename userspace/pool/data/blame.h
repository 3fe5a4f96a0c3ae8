/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find which blocks of a segment are rotten, and which fingerprints beside them.
 *
 * If a block and its fingerprint do not match, either may be wrong. The fingerprint of
 * the whole segment, which the catalog has, tells which. Pure.
 */
#ifndef RD_BLAME_H
#define RD_BLAME_H

#include "fp.h"
#include "map.h"

enum rd_bad {
	RD_BAD_CONTENT = 1,
	RD_BAD_FP = 2,
	RD_BAD_UNPROVEN = 4,	/* with RD_BAD_CONTENT: the right fingerprint is unknown */
};

struct rd_blame {
	struct rd_fp truth[RD_SEG_BLOCKS];	/* if proven */
	u8 bad[RD_SEG_BLOCKS];			/* of enum rd_bad */
	bool is_map_wrong;			/* the map names other blocks, which are good */
};

/*
 * Fill @ret. @map: resolved. @stored: the fingerprints beside its blocks. @found: those of
 * the blocks as they were read. Returns true if @want proves the result.
 *
 * False: too much is rotten to be told apart. Then a block that matches its own
 * fingerprint counts as good, because two places do not rot in step. But if all blocks
 * match theirs, the map is wrong, and none of them is what the segment should have there.
 */
bool rd_blame(struct rd_hasher *hasher, const struct rd_map *map,
	      const struct rd_seg_fp *want, const struct rd_fp stored[RD_SEG_BLOCKS],
	      const struct rd_fp found[RD_SEG_BLOCKS], struct rd_blame *ret);

/*
 * After false, where another host may have put other blocks into the places of @map, with
 * fingerprints that match: none of them counts as good.
 */
void rd_blame_all(const struct rd_map *map, struct rd_blame *ret);

#endif
