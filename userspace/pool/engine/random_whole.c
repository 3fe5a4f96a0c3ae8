// SPDX-License-Identifier: GPL-2.0
/*
 * Packs as they lie, for a reader that has a use for compressed blocks: those of one segment, each
 * in the slot of its number. Any other segment is read block by block (random.c).
 */
#include <errno.h>
#include <string.h>

#include "base/direct.h"
#include "random_parts.h"

/* The packed frame that has these blocks. 0: none has. */
static u64 frame_of(struct rd_random *random, const struct rd_disk *disk, u64 segment,
		    const struct rd_slots *slots)
{
	struct known known;
	unsigned int i;
	u64 frame = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		unsigned int in_piece = i % PIECE_BLOCKS;

		if (!in_piece && !rd_random_get_known(random, disk->version.id, segment, i,
						      PIECE_BLOCKS, &known))
			return 0;
		if (!rd_slots_test(slots, i))
			continue;
		if (!frame && rd_random_is_packed(known.at[in_piece]))
			frame = rd_place_id(known.at[in_piece]);
		if (!frame || known.at[in_piece] != rd_place_make(RD_OWN, frame, i))
			return 0;
	}
	return frame;
}

static bool is_sound(const struct rd_pack_head *head, const u8 *pack)
{
	unsigned int i;

	for (i = 0; i < RD_PACK_GROUPS; i++)
		if (!rd_pack_is_sound(head, i, pack + rd_pack_group_offset(head, i)))
			return false;
	return true;
}

int rd_random_read_pack(struct rd_random *random, const struct rd_disk *disk, u64 segment,
			const struct rd_slots *slots, struct rd_pack_head *head, u8 *pack)
{
	const struct rd_area *area = &random->pool->area;
	u64 frame = frame_of(random, disk, segment, slots);
	struct rd_pack known;
	size_t len;

	if (!frame || !rd_random_get_pack(random, frame, &known))
		return -ENOENT;
	len = (size_t)known.blocks * RD_BLOCK_SIZE;
	if (len > RD_PACK_MAX || rd_read_direct(area->fd, pack, len, rd_pack_offset(&known)) ||
	    rd_pack_read_head(head, pack, len, area->super.uuid, frame) ||
	    memcmp(&head->slots, slots, sizeof(*slots)) || !is_sound(head, pack))
		return -ENOENT;
	return 0;
}
