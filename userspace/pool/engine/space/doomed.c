// SPDX-License-Identifier: GPL-2.0
/* Is a place about to be freed? See doomed.h. */
#include <string.h>

#include "base/sort.h"
#include "doomed.h"

/* Find the doomed frame in which @block is doomed, or NULL. */
static struct rd_doomed_frame *find_doomed(const struct rd_doomed *doomed, u64 block)
{
	struct rd_doomed_frame *found;
	unsigned int slot;
	u64 frame;

	if (!doomed->nr || block < doomed->first || block > doomed->last ||
	    !rd_area_slot_at(block * RD_BLOCK_SIZE, &frame, &slot))
		return NULL;
	found = rd_find(doomed->frames, doomed->nr, frame, frame);
	return found && rd_slots_test(&found->slots, slot) ? found : NULL;
}

bool rd_doomed_has(const struct rd_doomed *doomed, u64 block)
{
	return find_doomed(doomed, block);
}

void rd_doomed_keep(struct rd_doomed *doomed, u64 block)
{
	struct rd_doomed_frame *frame = find_doomed(doomed, block);

	if (frame)
		frame->is_kept = true;
}

/* Does any of @nr blocks lie in a doomed place? */
static bool has_any(const struct rd_doomed *doomed, u64 block, u64 nr)
{
	u64 end = rd_min(block + nr, doomed->last + 1);

	for (block = rd_max(block, doomed->first); block < end; block++)
		if (find_doomed(doomed, block))
			return true;
	return false;
}

/* Read how many blocks a pack has. One that cannot be read is as long as any. */
static u64 read_pack(const struct rd_doomed *doomed, u64 block)
{
	const struct rd_area *area = doomed->area;
	u8 bytes[RD_BLOCK_SIZE];
	struct dmr_pack_disk disk;
	struct dmr_pack_head head;

	if (rd_area_read(area, bytes, sizeof(bytes), block * RD_BLOCK_SIZE))
		return RD_DOOMED_BEFORE + 1;
	memcpy(&disk, bytes, sizeof(disk));
	if (dmr_pack_head_unpack(&disk, RD_PACK_MAX, &head) ||
	    memcmp(head.uuid, area->super.uuid, sizeof(head.uuid)))
		return RD_DOOMED_BEFORE + 1;
	return rd_round_up(dmr_pack_offset(&head, RD_PACK_GROUPS), RD_BLOCK_SIZE) /
		RD_BLOCK_SIZE;
}

static u64 count_pack(struct rd_doomed *doomed, u64 block)
{
	unsigned int i = block % RD_DOOMED_PACKS;

	if (!doomed->packs[i].nr || doomed->packs[i].block != block) {
		doomed->packs[i].block = block;
		doomed->packs[i].nr = read_pack(doomed, block);
	}
	return doomed->packs[i].nr;
}

/* Most packs are nowhere near: only of the others the head is read. */
bool rd_doomed_has_pack(struct rd_doomed *doomed, u64 block)
{
	return has_any(doomed, block, RD_DOOMED_BEFORE + 1) &&
		has_any(doomed, block, count_pack(doomed, block));
}

void rd_doomed_keep_pack(struct rd_doomed *doomed, u64 block)
{
	u64 end;

	if (!rd_doomed_has_pack(doomed, block))
		return;
	for (end = block + count_pack(doomed, block); block < end; block++)
		rd_doomed_keep(doomed, block);
}
