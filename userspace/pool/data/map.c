// SPDX-License-Identifier: GPL-2.0
/* Pack and unpack the maps of recipes; see map.h. Pure: no I/O, no memory, no messages. */
#include <errno.h>

#include "base/varint.h"
#include "map.h"

enum run_kind {
	RUN_ZERO,
	RUN_IN_PLACE,	/* OWN, in the slot of the same number */
	RUN_OWN,
	RUN_REF,
};

#define RUN_LONG	63

/* So that no sum overflows. */
#define VARINT_BITS	63

static enum run_kind run_kind_of(rd_place place, unsigned int block, u64 frame)
{
	switch (rd_place_kind(place)) {
	case RD_OWN:
		return rd_place_id(place) == frame && rd_place_slot(place) == block ?
			RUN_IN_PLACE : RUN_OWN;
	case RD_REF:
		return RUN_REF;
	default:
		return RUN_ZERO;
	}
}

/* Count the blocks from @first on that make one run. */
static unsigned int run_length(const struct rd_map *map, unsigned int first, u64 frame)
{
	enum run_kind kind = run_kind_of(map->at[first], first, frame);
	unsigned int i;

	for (i = first + 1; i < RD_SEG_BLOCKS; i++) {
		if (run_kind_of(map->at[i], i, frame) != kind)
			break;
		if (kind == RUN_ZERO)
			continue;
		/* The next slot must be in the same frame or recipe. */
		if (map->at[i] != map->at[i - 1] + 1 || !rd_place_slot(map->at[i]))
			break;
	}
	return i - first;
}

size_t rd_map_pack(const struct rd_map *map, u64 recipe, u64 frame, u8 *blob)
{
	u64 last_frame = frame, last_recipe = recipe;
	unsigned int i, len;
	u8 *to = blob;

	for (i = 0; i < RD_SEG_BLOCKS; i += len) {
		enum run_kind kind = run_kind_of(map->at[i], i, frame);
		u64 id = rd_place_id(map->at[i]);
		unsigned int slot = rd_place_slot(map->at[i]);

		len = run_length(map, i, frame);
		*to++ = kind << 6 | (len - 1 < RUN_LONG ? len - 1 : RUN_LONG);
		if (len - 1 >= RUN_LONG)
			to = rd_put_varint(to, len - 1 - RUN_LONG);
		if (kind == RUN_OWN) {
			to = rd_put_varint(to, rd_zigzag((i64)(id - last_frame)));
			to = rd_put_varint(to, slot);
			last_frame = id;
		} else if (kind == RUN_REF) {
			to = rd_put_varint(to, rd_zigzag((i64)(id - last_recipe)));
			to = rd_put_varint(to, rd_zigzag((i64)slot - (i64)i));
			last_recipe = id;
		}
	}
	return to - blob;
}

unsigned int rd_map_pieces(const struct rd_map *map)
{
	unsigned int i, last = RD_SEG_BLOCKS, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (rd_place_kind(map->at[i]) == RD_ZERO)
			continue;
		if (last == RD_SEG_BLOCKS ||
		    !rd_place_goes_on(map->at[last], last, map->at[i], i))
			nr++;
		last = i;
	}
	return nr;
}

/* A circle of any length is found if it is looked for from 1, 2, 4, ... hops on (Brent). */
void rd_map_note(const struct rd_map *map, struct rd_map *before, unsigned int hops)
{
	if (!(hops & (hops - 1)))
		*before = *map;
}

bool rd_map_circles(const struct rd_map *map, const struct rd_map *before)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(map->at[i]) == RD_REF && map->at[i] == before->at[i])
			return true;
	return false;
}

u64 rd_map_frame(const struct rd_map *map, u64 frame)
{
	unsigned int i, len = 0, longest = 0;
	u64 id = frame;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = map->at[i];

		if (rd_place_kind(place) != RD_OWN || rd_place_slot(place) != i)
			continue;
		len = rd_place_id(place) == id ? len + 1 : 1;
		id = rd_place_id(place);
		if (len > longest) {
			longest = len;
			frame = id;
		}
	}
	return frame;
}

static u64 get_id(struct rd_reader *reader, u64 *last)
{
	*last += (u64)rd_unzigzag(rd_get_varint(reader, VARINT_BITS));
	if (*last > RD_PLACE_ID_MAX)
		reader->bad = true;
	return *last;
}

int rd_map_unpack(struct rd_map *map, u64 recipe, u64 frame, const void *blob,
		  size_t size)
{
	struct rd_reader reader = { .at = blob, .end = (const u8 *)blob + size };
	u64 last_frame = frame, last_recipe = recipe;
	unsigned int block = 0;

	while (block < RD_SEG_BLOCKS) {
		rd_place place = rd_place_make(RD_ZERO, 0, 0);
		u64 len, slot = 0, step = 1;
		enum run_kind kind;

		if (reader.at == reader.end)
			return -EBADMSG;
		kind = *reader.at >> 6;
		len = (*reader.at++ & RUN_LONG) + 1;
		if (len == RUN_LONG + 1)
			len += rd_get_varint(&reader, VARINT_BITS);

		switch (kind) {
		case RUN_ZERO:
			step = 0;
			break;
		case RUN_IN_PLACE:
			slot = block;
			place = rd_place_make(RD_OWN, frame, block);
			break;
		case RUN_OWN:
			get_id(&reader, &last_frame);
			slot = rd_get_varint(&reader, VARINT_BITS);
			place = rd_place_make(RD_OWN, last_frame, slot % RD_SEG_BLOCKS);
			break;
		case RUN_REF:
			get_id(&reader, &last_recipe);
			slot = block + (u64)rd_unzigzag(rd_get_varint(&reader, VARINT_BITS));
			place = rd_place_make(RD_REF, last_recipe, slot % RD_SEG_BLOCKS);
			break;
		}
		if (reader.bad || len > RD_SEG_BLOCKS - block ||
		    (step && (slot >= RD_SEG_BLOCKS || len > RD_SEG_BLOCKS - slot)))
			return -EBADMSG;
		for (; len; len--, place += step)
			map->at[block++] = place;
	}
	return reader.at == reader.end ? 0 : -EBADMSG;
}

void rd_map_add_slots(const struct rd_map *map, u64 frame, struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_place_kind(map->at[i]) == RD_OWN && rd_place_id(map->at[i]) == frame)
			rd_slots_set(slots, rd_place_slot(map->at[i]));
}
