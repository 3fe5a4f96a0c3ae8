/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which blocks of a segment are rotten, and which fingerprints beside them.
 *
 * A block that is not what its fingerprint says may be wrong, or the fingerprint
 * is: the segment's own, which the catalog has, tells which. Pure.
 */
#ifndef RD_BLAME_H
#define RD_BLAME_H

#include "fp.h"
#include "map.h"

enum rd_bad {
	RD_BAD_CONTENT = 1,
	RD_BAD_FP = 2,
	RD_BAD_UNPROVEN = 4,	/* with RD_BAD_CONTENT: what it should be is not known */
};

struct rd_blame {
	struct rd_fp truth[RD_SEG_BLOCKS];	/* where all is proven */
	u8 bad[RD_SEG_BLOCKS];			/* of enum rd_bad */
	bool is_map_wrong;			/* it names other blocks, and these are good */
};

/*
 * @map: resolved. @stored: the fingerprints beside its blocks. @found: those of the
 * blocks as they were read. Returns whether @want proves what is in @ret.
 *
 * Where it does not, more than can be told apart is rotten. Then blocks that are
 * what their own fingerprints say count as good, because two places have not
 * rotted in step; but if all of them are, it is the map that is wrong, and none is
 * what the segment should have there.
 */
bool rd_blame(struct rd_hasher *hasher, const struct rd_map *map,
	      const struct rd_seg_fp *want, const struct rd_fp stored[RD_SEG_BLOCKS],
	      const struct rd_fp found[RD_SEG_BLOCKS], struct rd_blame *ret);

#endif
