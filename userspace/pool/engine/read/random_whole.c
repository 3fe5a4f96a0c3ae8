// SPDX-License-Identifier: GPL-2.0
/*
 * Packs as they lie, for a reader that has a use for compressed blocks: those of one segment, each
 * in the slot of its number. Any other segment is read block by block (random.c).
 *
 * A pack is not decoded, so no fingerprint tells whose blocks they are, and number and place of a
 * pack are used again. But what the catalog has behind the read as before it was not freed in
 * between, and a pack never changes.
 */
#include <errno.h>
#include <string.h>

#include "base/inject.h"
#include "random_parts.h"

/* The packed frame that has these blocks. 0: none has. */
static u64 frame_of(const struct rd_map *map, const struct rd_slots *slots)
{
	unsigned int i;
	u64 frame = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		if (!rd_slots_test(slots, i))
			continue;
		if (!frame && rd_random_is_packed(map->at[i]))
			frame = rd_place_id(map->at[i]);
		if (!frame || map->at[i] != rd_place_make(RD_OWN, frame, i))
			return 0;
	}
	return frame;
}

static int find(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		const struct rd_slots *slots, struct rd_pack *ret)
{
	struct looked_up found;
	unsigned int i;
	u64 frame;

	if (rd_random_look_up(random, disk, segment, &found) || !found.recipe)
		return -ENOENT;
	frame = frame_of(&found.map, slots);
	for (i = 0; frame && i < found.nr_packs; i++) {
		if (found.packs[i].frame != frame)
			continue;
		*ret = found.packs[i];
		return 0;
	}
	return -ENOENT;
}

static bool is_sound(const struct dmr_pack_head *head, const u8 *pack)
{
	unsigned int i;

	for (i = 0; i < RD_PACK_GROUPS; i++)
		if (!rd_pack_is_sound(head, i, pack + dmr_pack_offset(head, i)))
			return false;
	return true;
}

int rd_random_read_pack(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			const struct rd_slots *slots, struct dmr_pack_head *head, u8 *pack)
{
	const struct rd_area *area = &random->pool->area;
	struct rd_pack before, after;
	size_t len;

	if (find(random, disk, segment, slots, &before) || rd_failpoint("random-pack"))
		return -ENOENT;
	len = (size_t)before.blocks * RD_BLOCK_SIZE;
	if (len > RD_PACK_MAX || rd_area_read_direct(area, pack, len, rd_pack_offset(&before)) ||
	    rd_pack_read_head(head, pack, len, area->super.uuid, before.frame) ||
	    memcmp(head->slots, slots, sizeof(*slots)) || !is_sound(head, pack))
		return -ENOENT;
	if (find(random, disk, segment, slots, &after) || memcmp(&before, &after, sizeof(before)))
		return -ENOENT;
	return 0;
}
