// SPDX-License-Identifier: GPL-2.0
/* Places for the target: see target_place.h. */
#include <errno.h>
#include <linux/kernel.h>

#include "pool/catalog/packs.h"
#include "target_place.h"

static int find_pack(struct rd_target_places *places, u64 frame, const struct rd_pack **ret)
{
	struct rd_pack *pack;
	unsigned int i;
	int r;

	for (i = 0; i < ARRAY_SIZE(places->packs); i++) {
		*ret = &places->packs[i];
		if ((*ret)->frame == frame)
			return 0;
	}
	pack = &places->packs[places->next++ % ARRAY_SIZE(places->packs)];
	r = rd_pack_find(places->sql, frame, pack);
	if (r)
		pack->frame = 0;
	*ret = pack;
	return r == -ENOENT ? -EUCLEAN : r;
}

static int place_in_pack(struct rd_target_places *places, rd_place place, struct dmr_entry *ret,
			 u64 *ret_end)
{
	const struct rd_pack *pack;
	u64 head;
	int r = find_pack(places, rd_place_id(place), &pack);

	if (r)
		return r;
	head = rd_pack_offset(pack) / RD_BLOCK_SIZE;
	*ret = dmr_pack_entry(head, rd_place_slot(place));
	*ret_end = head + pack->blocks;
	/* The largest pool that there can be has a few blocks that no entry can name. */
	return head > DMR_HEAD_MAX ? -EFBIG : 0;
}

int rd_target_place(struct rd_target_places *places, rd_place place, struct dmr_entry *ret,
		    u64 *ret_end)
{
	u64 end = 0;
	int r = 0;

	*ret = (struct dmr_entry){ .kind = DMR_ZERO };
	if (rd_place_kind(place) == RD_OWN && rd_frame_is_packed(rd_place_id(place))) {
		r = place_in_pack(places, place, ret, &end);
	} else if (rd_place_kind(place) == RD_OWN) {
		ret->kind = DMR_POOL;
		ret->block = rd_place_offset(place) / RD_BLOCK_SIZE;
		end = ret->block + 1;
	}
	if (ret_end)
		*ret_end = end;
	return r;
}

bool rd_place_is_doomed(struct rd_doomed *doomed, struct dmr_entry place)
{
	if (place.kind == DMR_PACK)
		return rd_doomed_has_pack(doomed, dmr_entry_pool_block(place));
	return place.kind == DMR_POOL && rd_doomed_has(doomed, place.block);
}

void rd_place_keep(struct rd_doomed *doomed, struct dmr_entry place, u64 nr)
{
	u64 block = place.block, end = block + nr;

	if (place.kind == DMR_PACK)
		rd_doomed_keep_pack(doomed, dmr_entry_pool_block(place));
	if (place.kind != DMR_POOL || block > doomed->last || end <= doomed->first)
		return;
	for (; block < end; block++)
		rd_doomed_keep(doomed, block);
}
