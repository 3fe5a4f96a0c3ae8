// SPDX-License-Identifier: GPL-2.0
/* Blocks one by one: see blocks.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/packs.h"
#include "pool/data/ring.h"
#include "blocks.h"

#define NR_HEADS	16
#define NR_GROUPS	16

struct known_pack {
	struct rd_pack pack;		/* frame 0: none */
	int r;				/* of its head */
	struct dmr_pack_head head;
};

struct known_group {
	u64 frame;			/* 0: none */
	unsigned int group;
	int r;
	u8 blocks[RD_PACK_GROUP_SIZE];
};

struct rd_blocks {
	struct rd_pool *pool;
	struct rd_packer *packer;
	struct rd_ring *ring;			/* NULL: not needed yet */
	rd_find_pack_fn *find;
	void *ctx;
	unsigned int next_pack, next_group;	/* to be replaced */
	struct known_pack packs[NR_HEADS];
	struct known_group groups[NR_GROUPS];
	u8 bytes[RD_PACK_GROUP_SIZE + 2 * RD_BLOCK_SIZE];
};

static int find_in_catalog(void *ctx, u64 frame, struct rd_pack *ret)
{
	struct rd_pool *pool = ctx;

	return rd_pack_find(pool->sql, frame, ret);
}

struct rd_blocks *rd_blocks_new(struct rd_pool *pool)
{
	struct rd_blocks *blocks = calloc(1, sizeof(*blocks));

	if (!blocks)
		return NULL;
	blocks->pool = pool;
	blocks->packer = rd_packer_new();
	rd_blocks_ask(blocks, find_in_catalog, pool);
	if (blocks->packer)
		return blocks;
	rd_blocks_free(blocks);
	return NULL;
}

void rd_blocks_free(struct rd_blocks *blocks)
{
	if (!blocks)
		return;
	rd_ring_free(blocks->ring);
	rd_packer_free(blocks->packer);
	free(blocks);
}

void rd_blocks_ask(struct rd_blocks *blocks, rd_find_pack_fn *find, void *ctx)
{
	blocks->find = find;
	blocks->ctx = ctx;
}

void rd_blocks_forget(struct rd_blocks *blocks)
{
	unsigned int i;

	for (i = 0; i < NR_HEADS; i++)
		blocks->packs[i].pack.frame = 0;
	for (i = 0; i < NR_GROUPS; i++)
		blocks->groups[i].frame = 0;
}

/* --- packs */

static int read_head(struct rd_blocks *blocks, struct known_pack *known)
{
	const struct rd_area *area = &blocks->pool->area;
	const struct rd_pack *pack = &known->pack;
	int r;

	r = rd_area_read(area, blocks->bytes, RD_BLOCK_SIZE, rd_pack_offset(pack));
	return r ? r : rd_pack_read_head(&known->head, blocks->bytes,
					 (size_t)pack->blocks * RD_BLOCK_SIZE, area->super.uuid,
					 pack->frame);
}

static int get_pack(struct rd_blocks *blocks, u64 frame, struct known_pack **ret)
{
	struct known_pack *known;
	unsigned int i;
	int r;

	for (i = 0; i < NR_HEADS; i++) {
		*ret = &blocks->packs[i];
		if ((*ret)->pack.frame == frame)
			return (*ret)->r;
	}
	known = &blocks->packs[blocks->next_pack++ % NR_HEADS];
	known->pack.frame = 0;
	r = blocks->find(blocks->ctx, frame, &known->pack);
	if (r) {
		known->pack.frame = 0;
		return r == -ENOENT || r == -EUCLEAN ? -EBADMSG : r;
	}
	known->r = read_head(blocks, known);
	*ret = known;
	return known->r;
}

static int decode(struct rd_blocks *blocks, const struct known_pack *known,
		  struct known_group *group)
{
	u32 offset = dmr_pack_offset(&known->head, group->group);
	u32 len = known->head.groups[group->group].len, skip = offset % RD_BLOCK_SIZE;
	int r;

	r = rd_area_read(&blocks->pool->area, blocks->bytes,
			 rd_round_up(skip + len, RD_BLOCK_SIZE),
			 rd_pack_offset(&known->pack) + offset - skip);
	return r ? r : rd_pack_decode(blocks->packer, &known->head, group->group,
				      blocks->bytes + skip, group->blocks);
}

static int get_group(struct rd_blocks *blocks, const struct known_pack *known,
		     unsigned int nr, const u8 **ret)
{
	struct known_group *group;
	unsigned int i;

	for (i = 0; i < NR_GROUPS; i++) {
		group = &blocks->groups[i];
		*ret = group->blocks;
		if (group->frame == known->pack.frame && group->group == nr)
			return group->r;
	}
	group = &blocks->groups[blocks->next_group++ % NR_GROUPS];
	group->frame = known->pack.frame;
	group->group = nr;
	group->r = decode(blocks, known, group);
	*ret = group->blocks;
	return group->r;
}

static int read_packed(struct rd_blocks *blocks, u64 frame, unsigned int slot, void *to)
{
	struct known_pack *known;
	const u8 *group;
	int r;

	r = get_pack(blocks, frame, &known);
	if (!r && !rd_pack_has(&known->head, slot))
		r = -EBADMSG;
	if (!r)
		r = get_group(blocks, known, slot / RD_PACK_GROUP, &group);
	if (!r)
		memcpy(to, group + (size_t)rd_pack_block_at(&known->head, slot) * RD_BLOCK_SIZE,
		       RD_BLOCK_SIZE);
	return r;
}

int rd_blocks_read(struct rd_blocks *blocks, rd_place place, void *to)
{
	const struct rd_area *area = &blocks->pool->area;
	u64 frame = rd_place_id(place);

	if (!rd_area_has_frame(area, frame))
		return -EBADMSG;
	if (rd_frame_is_packed(frame))
		return read_packed(blocks, frame, rd_place_slot(place), to);
	return rd_area_read(area, to, RD_BLOCK_SIZE, rd_place_offset(place));
}

/* --- many at a time */

/* Blocks that lie in a row in an ordinary frame, or one of a pack. */
struct run {
	struct rd_op op;
	unsigned int first, nr;
	int r;
};

static void was_read(struct rd_op *op, int r)
{
	struct run *run = op->ctx;

	run->r = r;
}

/* How many places from @i on are in a row, in one ordinary frame? */
static unsigned int run_length(const rd_place *places, unsigned int i, unsigned int nr)
{
	unsigned int end = i + 1;

	while (!rd_frame_is_packed(rd_place_id(places[i])) && end < nr &&
	       places[end] == places[i] + (end - i) &&
	       rd_place_id(places[end]) == rd_place_id(places[i]))
		end++;
	return end - i;
}

static void submit(struct rd_blocks *blocks, struct run *run, rd_place place, u8 *to)
{
	run->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = blocks->pool->area.store,
		.offset = rd_place_offset(place),
		.own = { to, (size_t)run->nr * RD_BLOCK_SIZE },
		.done = was_read,
		.ctx = run,
	};
	rd_ring_submit(blocks->ring, &run->op);
}

/* Read what is in ordinary frames, all of it at once. Returns the number of @runs. */
static unsigned int submit_all(struct rd_blocks *blocks, const rd_place *places, unsigned int nr,
			       u8 *data, struct run *runs)
{
	unsigned int i, len, nr_runs = 0;

	for (i = 0; i < nr; i += len) {
		struct run *run = &runs[nr_runs];

		len = 1;
		if (rd_place_kind(places[i]) != RD_OWN)
			continue;
		len = run_length(places, i, nr);
		nr_runs++;
		run->first = i;
		run->nr = len;
		run->r = -EBADMSG;
		if (!rd_frame_is_packed(rd_place_id(places[i])) &&
		    rd_area_has_frame(&blocks->pool->area, rd_place_id(places[i])))
			submit(blocks, run, places[i], data + (size_t)i * RD_BLOCK_SIZE);
	}
	return nr_runs;
}

static int wait_for_all(struct rd_blocks *blocks)
{
	int r = 0;

	while (!r && rd_ring_busy(blocks->ring))
		r = rd_ring_wait(blocks->ring);
	if (r) {
		/* That waits for what is in flight, into buffers of the caller. */
		rd_ring_free(blocks->ring);
		blocks->ring = NULL;
	}
	return r;
}

/* Block by block, so that one that cannot be read spoils no other. */
static int read_alone(struct rd_blocks *blocks, const struct run *run, const rd_place *places,
		      u8 *data, bool *ret_all)
{
	unsigned int i;
	int r;

	for (i = run->first; i < run->first + run->nr; i++) {
		u8 *to = data + (size_t)i * RD_BLOCK_SIZE;

		r = rd_blocks_read(blocks, places[i], to);
		if (r == -ENOMEM)
			return r;
		if (r)
			memset(to, 0, RD_BLOCK_SIZE);
		*ret_all &= !r;
	}
	return 0;
}

int rd_blocks_read_all(struct rd_blocks *blocks, const rd_place *places, unsigned int nr, u8 *data)
{
	RD_FREE struct run *runs = malloc(nr * sizeof(*runs));
	unsigned int i, nr_runs;
	bool all = true;
	int r = runs || !nr ? 0 : -ENOMEM;

	if (!r && !blocks->ring)
		r = rd_ring_new(&blocks->ring, 64);
	if (r)
		return r;
	nr_runs = submit_all(blocks, places, nr, data, runs);
	r = wait_for_all(blocks);
	for (i = 0; i < nr_runs && !r; i++)
		if (runs[i].r)
			r = read_alone(blocks, &runs[i], places, data, &all);
	return r ? r : !all;
}
