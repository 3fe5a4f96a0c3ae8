// SPDX-License-Identifier: GPL-2.0
/* Pack and unpack recipes' maps. Pure: no I/O, no memory, no messages. */
#include <errno.h>

#include "map.h"

enum run_kind {
	RUN_ZERO,
	RUN_OWN,
	RUN_HERE,
	RUN_AT,
};

#define RUN_LONG	63

static u8 *put_varint(u8 *to, u64 value)
{
	for (; value >= 0x80; value >>= 7)
		*to++ = value | 0x80;
	*to++ = value;
	return to;
}

static u64 zigzag(i64 value)
{
	return (u64)value << 1 ^ (u64)(value >> 63);
}

static i64 unzigzag(u64 value)
{
	return (i64)(value >> 1) ^ -(i64)(value & 1);
}

static enum run_kind run_kind_of(rd_place place, unsigned int block, u64 frame)
{
	switch (rd_place_kind(place)) {
	case RD_HERE:
		return rd_place_id(place) == frame && rd_place_slot(place) == block ?
			RUN_OWN : RUN_HERE;
	case RD_AT:
		return RUN_AT;
	default:
		return RUN_ZERO;
	}
}

/* How many blocks from @first on make one run. */
static unsigned int run_length(const struct rd_map *map, unsigned int first, u64 frame)
{
	enum run_kind kind = run_kind_of(map->at[first], first, frame);
	unsigned int i;

	for (i = first + 1; i < RD_SEG_BLOCKS; i++) {
		if (run_kind_of(map->at[i], i, frame) != kind)
			break;
		if (kind == RUN_ZERO)
			continue;
		/* The next slot, and not one of the next frame or recipe. */
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
			to = put_varint(to, len - 1 - RUN_LONG);
		if (kind == RUN_HERE) {
			to = put_varint(to, zigzag((i64)(id - last_frame)));
			to = put_varint(to, slot);
			last_frame = id;
		} else if (kind == RUN_AT) {
			to = put_varint(to, zigzag((i64)(id - last_recipe)));
			to = put_varint(to, zigzag((i64)slot - (i64)i));
			last_recipe = id;
		}
	}
	return to - blob;
}

struct reader {
	const u8 *at;
	const u8 *end;
	bool bad;
};

static u64 get_varint(struct reader *reader)
{
	unsigned int shift;
	u64 value = 0;

	for (shift = 0; shift < 63 && reader->at < reader->end; shift += 7) {
		u8 byte = *reader->at++;

		value |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	reader->bad = true;
	return 0;
}

static u64 get_id(struct reader *reader, u64 *last)
{
	*last += (u64)unzigzag(get_varint(reader));
	if (*last > RD_PLACE_ID_MAX)
		reader->bad = true;
	return *last;
}

int rd_map_unpack(struct rd_map *map, u64 recipe, u64 frame, const void *blob,
		  size_t size)
{
	struct reader reader = { .at = blob, .end = (const u8 *)blob + size };
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
			len += get_varint(&reader);

		switch (kind) {
		case RUN_ZERO:
			step = 0;
			break;
		case RUN_OWN:
			slot = block;
			place = rd_place_make(RD_HERE, frame, block);
			break;
		case RUN_HERE:
			get_id(&reader, &last_frame);
			slot = get_varint(&reader);
			place = rd_place_make(RD_HERE, last_frame, slot % RD_SEG_BLOCKS);
			break;
		case RUN_AT:
			get_id(&reader, &last_recipe);
			slot = block + (u64)unzigzag(get_varint(&reader));
			place = rd_place_make(RD_AT, last_recipe, slot % RD_SEG_BLOCKS);
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
