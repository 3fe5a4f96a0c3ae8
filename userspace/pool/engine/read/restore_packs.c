// SPDX-License-Identifier: GPL-2.0
/*
 * Read what segments need of packs. All that is wanted of a pack at the time is one read and
 * one job for a thread, which decodes the groups that are needed, each once, to where the
 * blocks are wanted. Of a pack of which little is wanted, the head is read first, to see where
 * the groups are.
 *
 * A group that is damaged, or is not there any more, fails the segments that want it: these are
 * read again, block by block.
 */
#include <errno.h>

#include "base/direct.h"
#include "base/sort.h"
#include "pool/catalog/packs.h"
#include "restore_pieces.h"

#define NR_BUFFERS	8
#define NR_HEADS	256
#define BUFFER		(RD_PACK_MAX + RD_BLOCK_SIZE)

struct unpack {
	struct unpack *next;
	struct restore *restore;
	struct rd_pack pack;
	bool has_head, is_job;
	struct dmr_pack_head head;
	u32 skip;			/* offset of what is in the buffer */
	struct buffer *buffer;
	struct rd_op op;
	struct rd_job job;
	unsigned int nr;
	struct unpack_want {
		struct piece *piece;
		u16 block, slot;
		bool has_failed;
	} wants[];
};

struct buffer {
	struct buffer *next;
	u8 *bytes;
	u8 group[RD_PACK_GROUP_SIZE];
};

struct restore_packs {
	struct buffer *free;
	struct unpack *first, **end;	/* that wait for a buffer */
	u8 *bytes;
	struct buffer buffers[NR_BUFFERS];
	/* Heads that were read; one is that of the pack as long as the catalog says the same. */
	struct known_head {
		struct rd_pack pack;
		struct dmr_pack_head head;
	} heads[NR_HEADS];
};

/* --- decoding, in a thread */

static u8 *want_to(const struct unpack_want *want)
{
	return want->piece->data + (size_t)want->block * RD_BLOCK_SIZE;
}

/* Are the @nr wants all of the group, and next to each other? */
static bool is_plain(const struct unpack *unpack, const struct unpack_want *wants,
		     unsigned int nr)
{
	unsigned int i;

	if (nr != rd_pack_group_blocks(&unpack->head, wants->slot / RD_PACK_GROUP))
		return false;
	for (i = 1; i < nr; i++)
		if (wants[i].slot == wants[i - 1].slot ||
		    want_to(&wants[i]) != want_to(wants) + (size_t)i * RD_BLOCK_SIZE)
			return false;
	return true;
}

static int decode_group(struct unpack *unpack, struct rd_packer *packer,
			struct unpack_want *wants, unsigned int nr)
{
	unsigned int group = wants->slot / RD_PACK_GROUP, i;
	const u8 *bytes = unpack->buffer->bytes - unpack->skip;
	u8 *blocks = unpack->buffer->group;
	int r;

	for (i = 0; i < nr; i++)
		if (!rd_pack_has(&unpack->head, wants[i].slot))
			return -EBADMSG;
	bytes += dmr_pack_offset(&unpack->head, group);
	if (is_plain(unpack, wants, nr))
		return rd_pack_decode(packer, &unpack->head, group, bytes, want_to(wants));
	r = rd_pack_decode(packer, &unpack->head, group, bytes, blocks);
	for (i = 0; i < nr && !r; i++)
		memcpy(want_to(&wants[i]), blocks + RD_BLOCK_SIZE *
		       (size_t)rd_pack_block_at(&unpack->head, wants[i].slot), RD_BLOCK_SIZE);
	return r;
}

static int read_head(struct unpack *unpack)
{
	return rd_pack_read_head(&unpack->head, unpack->buffer->bytes,
				 (size_t)unpack->pack.blocks * RD_BLOCK_SIZE,
				 unpack->restore->pool->area.super.uuid, unpack->pack.frame);
}

static void decode(struct rd_job *job, struct rd_thread *thread)
{
	struct unpack *unpack = job->ctx;
	unsigned int first, end, i;
	bool failed = false;

	if (!unpack->has_head)
		failed = read_head(unpack);
	unpack->has_head = !failed;
	for (first = 0; first < unpack->nr; first = end) {
		struct unpack_want *wants = &unpack->wants[first];

		for (end = first; end < unpack->nr; end++)
			if (unpack->wants[end].slot / RD_PACK_GROUP != wants->slot / RD_PACK_GROUP)
				break;
		if (failed || decode_group(unpack, thread->packer, wants, end - first))
			for (i = first; i < end; i++)
				unpack->wants[i].has_failed = true;
	}
}

/* --- reading */

static void start(struct unpack *unpack);

static void give_buffer(struct unpack *unpack)
{
	struct restore_packs *packs = unpack->restore->packs;

	unpack->buffer->next = packs->free;
	packs->free = unpack->buffer;
}

static void start_next(struct restore *restore)
{
	struct restore_packs *packs = restore->packs;

	while (packs->free && packs->first) {
		struct unpack *unpack = packs->first;

		packs->first = unpack->next;
		if (!packs->first)
			packs->end = &packs->first;
		unpack->buffer = packs->free;
		packs->free = unpack->buffer->next;
		start(unpack);
	}
}

static struct known_head *known_head(const struct unpack *unpack)
{
	return &unpack->restore->packs->heads[unpack->pack.frame % NR_HEADS];
}

static void end_unpack(struct unpack *unpack, int r)
{
	struct restore *restore = unpack->restore;
	unsigned int i;

	if (unpack->has_head)
		*known_head(unpack) = (struct known_head){ unpack->pack, unpack->head };
	for (i = 0; i < unpack->nr; i++)
		rd_restore_read_ended(unpack->wants[i].piece, 1,
				      r ? r : unpack->wants[i].has_failed ? -EBADMSG : 0);
	give_buffer(unpack);
	free(unpack);
	start_next(restore);
}

static void decoded(struct rd_job *job)
{
	end_unpack(job->ctx, 0);
}

static void read_part(struct unpack *unpack, u32 first, u32 end);

/* Read from the first group that is wanted to the last. */
static void read_groups(struct unpack *unpack)
{
	unsigned int first = unpack->wants[0].slot / RD_PACK_GROUP;
	unsigned int last = unpack->wants[unpack->nr - 1].slot / RD_PACK_GROUP;

	unpack->is_job = true;
	read_part(unpack, dmr_pack_offset(&unpack->head, first),
		  dmr_pack_offset(&unpack->head, last) + unpack->head.groups[last].len);
}

static void read_done(struct rd_op *op, int r)
{
	struct unpack *unpack = op->ctx;

	if (!r && !unpack->is_job) {
		r = read_head(unpack);
		if (!r) {
			unpack->has_head = true;
			read_groups(unpack);
			return;
		}
	}
	if (r) {
		end_unpack(unpack, r);
		return;
	}
	unpack->job = (struct rd_job){ .run = decode, .done = decoded, .ctx = unpack };
	rd_workers_give(unpack->restore->workers, &unpack->job);
}

static void read_part(struct unpack *unpack, u32 first, u32 end)
{
	struct restore *restore = unpack->restore;

	unpack->skip = first - first % RD_BLOCK_SIZE;
	/* Of a pack that has not what it should have, read something all the same. */
	end = rd_round_up(rd_max(end, first + 1), RD_BLOCK_SIZE);
	restore->report->bytes_read += end - unpack->skip;
	unpack->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = restore->pool->area.store,
		.offset = rd_pack_offset(&unpack->pack) + unpack->skip,
		.own = { unpack->buffer->bytes, end - unpack->skip },
		.done = read_done,
		.ctx = unpack,
	};
	rd_ring_submit(restore->ring, &unpack->op);
}

static void start(struct unpack *unpack)
{
	const struct known_head *known = known_head(unpack);

	if (!memcmp(&known->pack, &unpack->pack, sizeof(known->pack))) {
		unpack->head = known->head;
		unpack->has_head = true;
		read_groups(unpack);
	} else if (unpack->nr > unpack->pack.slots / 4) {
		unpack->is_job = true;
		read_part(unpack, 0, unpack->pack.blocks * RD_BLOCK_SIZE);
	} else {
		read_part(unpack, 0, RD_PACK_HEAD);
	}
}

/* --- */

/* Queue the @nr wants, which are of one pack, in the order of slots. */
static int want_pack(struct restore *restore, const struct want *wants, unsigned int nr)
{
	struct restore_packs *packs = restore->packs;
	struct unpack *unpack = calloc(1, sizeof(*unpack) + nr * sizeof(*unpack->wants));
	unsigned int i;
	int r;

	if (!unpack)
		return -ENOMEM;
	unpack->restore = restore;
	unpack->nr = nr;
	for (i = 0; i < nr; i++)
		unpack->wants[i] = (struct unpack_want){
			.piece = wants[i].piece,
			.block = wants[i].block,
			.slot = rd_place_slot(wants[i].place),
		};
	r = rd_pack_find(restore->pool->sql, rd_place_id(wants->place), &unpack->pack);
	if (r && r != -ENOENT && r != -EUCLEAN) {
		free(unpack);
		return r;
	}
	if (r) {
		/* It moved, or is damaged: that is seen when it is looked for again. */
		for (i = 0; i < nr; i++)
			rd_restore_read_ended(wants[i].piece, 1, -EBADMSG);
		free(unpack);
		return 0;
	}
	*packs->end = unpack;
	packs->end = &unpack->next;
	return 0;
}

/* Most pools have no packs, and need no buffers for them. */
static int make_packs(struct restore *restore)
{
	struct restore_packs *packs = calloc(1, sizeof(*packs));
	unsigned int i;

	restore->packs = packs;
	if (!packs)
		return -ENOMEM;
	packs->end = &packs->first;
	packs->bytes = rd_alloc_direct((size_t)NR_BUFFERS * BUFFER);
	if (!packs->bytes)
		return -ENOMEM;
	for (i = 0; i < NR_BUFFERS; i++) {
		packs->buffers[i].bytes = packs->bytes + (size_t)i * BUFFER;
		packs->buffers[i].next = packs->free;
		packs->free = &packs->buffers[i];
	}
	return 0;
}

int rd_restore_read_packs(struct restore *restore)
{
	struct want *wants = restore->packed_wants;
	unsigned int first, end, nr = restore->nr_packed_wants;
	int r = 0;

	if (!nr)
		return 0;
	if (!restore->packs)
		r = make_packs(restore);
	if (r)
		return r;
	restore->nr_packed_wants = 0;
	rd_sort(wants, nr, place);
	for (first = 0; first < nr && !r; first = end) {
		u64 frame = rd_place_id(wants[first].place);

		for (end = first; end < nr && rd_place_id(wants[end].place) == frame; end++)
			;
		r = want_pack(restore, wants + first, end - first);
	}
	if (!r)
		start_next(restore);
	return r;
}

void rd_restore_packs_free(struct restore *restore)
{
	struct restore_packs *packs = restore->packs;
	struct unpack *unpack;

	if (!packs)
		return;
	while (packs->first) {
		unpack = packs->first;
		packs->first = unpack->next;
		free(unpack);
	}
	free(packs->bytes);
	free(packs);
}
