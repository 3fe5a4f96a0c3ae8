/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The map of a recipe: the place of each of the 512 blocks of a segment.
 *
 *	ZERO	the block is zeros, and stored nowhere
 *	OWN	in slot @slot of frame @id of the data area
 *	REF	in the place of block @slot of recipe @id
 *
 * As a blob in the catalog a map is a list of runs, so the simpler it is, the shorter. A
 * run begins with a byte: its kind in the upper two bits, its length - 1 in the
 * lower six; 63 there means that the length - 64 follows as a varint. Then, by kind:
 *
 *	0  ZERO
 *	1  OWN  in the recipe's own frame, in the slot of the same number
 *	2  OWN  in another frame or slot: zigzag varint of frame - last frame,
 *		 varint of the first slot; blocks in a run have slots in a row
 *	3  REF  zigzag varint of recipe - last recipe, zigzag varint of the
 *		 first slot - the first block's number; slots in a row
 *
 * "last" is the one of the last run of the same kind, and at first the recipe's
 * own frame (2) or own number (3). A varint has 7 bits a byte, low ones first;
 * the upper bit says that more follow. The runs have 512 blocks together, and
 * nothing follows them.
 */
#ifndef RD_MAP_H
#define RD_MAP_H

#include "base/units.h"
#include "slots.h"

enum rd_kind {
	RD_ZERO,
	RD_OWN,
	RD_REF,
};

/* kind << 62 | id << 9 | slot */
typedef u64 rd_place;

#define RD_PLACE_ID_BITS	53
#define RD_PLACE_ID_MAX		((1ULL << RD_PLACE_ID_BITS) - 1)

static inline rd_place rd_place_make(enum rd_kind kind, u64 id, unsigned int slot)
{
	return (u64)kind << 62 | id << 9 | slot;
}

static inline enum rd_kind rd_place_kind(rd_place place)
{
	return place >> 62;
}

static inline u64 rd_place_id(rd_place place)
{
	return place >> 9 & RD_PLACE_ID_MAX;
}

static inline unsigned int rd_place_slot(rd_place place)
{
	return place & (RD_SEG_BLOCKS - 1);
}

struct rd_map {
	rd_place at[RD_SEG_BLOCKS];
};

/*
 * Count the pieces of @map: runs of blocks that are one read. The next block of a piece is in
 * the next slot, or as far on as the segment is: zeros between two blocks do not part them.
 */
unsigned int rd_map_pieces(const struct rd_map *map);
/* Add the slots of @frame that are OWN in the map. */
void rd_map_add_slots(const struct rd_map *map, u64 frame, struct rd_slots *slots);

/*
 * Find the frame in which the longest run of OWN blocks is in slots of the same numbers, or
 * @frame: with it as the recipe's own one, the map is short as a blob.
 */
u64 rd_map_frame(const struct rd_map *map, u64 frame);

/* Is @place, at block @j, in the same piece as @before, at block @i, the last one before it? */
static inline bool rd_place_goes_on(rd_place before, unsigned int i, rd_place place,
				    unsigned int j)
{
	return place >> 9 == before >> 9 && (place == before + 1 || place == before + (j - i));
}

/*
 * For a loop that follows references: note @map before hop @hops, counted from 0, and tell after
 * the hop whether one of them goes in a circle.
 */
void rd_map_note(const struct rd_map *map, struct rd_map *before, unsigned int hops);
bool rd_map_circles(const struct rd_map *map, const struct rd_map *before);

/* No map needs more bytes. */
#define RD_MAP_MAX	(RD_SEG_BLOCKS * 12)

/* Pack @map into @blob, which has RD_MAP_MAX bytes; return the length used. */
size_t rd_map_pack(const struct rd_map *map, u64 recipe, u64 frame, u8 *blob);

/* Unpack @blob: 0, or -EBADMSG: it is not a map. */
int rd_map_unpack(struct rd_map *map, u64 recipe, u64 frame, const void *blob,
		  size_t len);

#endif
