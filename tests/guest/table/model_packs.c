// SPDX-License-Identifier: GPL-2.0
/*
 * Packs at the end of the pool. There are more places than packs; a pack goes from one to
 * another as it is, and where it was there is garbage, or another pack, that somebody names
 * later. See model_steps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/pack.h"
#include "model_steps.h"

#define NR_FRAMES	10U
#define TRIES		16U

static struct frame frames[NR_FRAMES];
static void *no_pack;			/* PACK_ROOM blocks of garbage */

/* What was at each place, also if nothing is now; and: nobody has named what is there yet. */
static const struct frame **last;
static bool *is_new;

/* ---- what packs are made of ---- */

/* All slots; single ones missing; groups, and single ones, missing; the end missing. */
static bool has_block(unsigned int frame, unsigned int slot)
{
	switch (frame % 4) {
	case 0:
		return true;
	case 1:
		return slot % 3 != 1;
	case 2:
		return slot / DMR_PACK_GROUP_BLOCKS % 4 != 2 && slot % 7;
	default:
		return slot < 300;
	}
}

/* A few groups of some packs are stored as they are: all of them would take much room. */
static enum dmr_codec codec_of(unsigned int frame, unsigned int group)
{
	return frame % 3 == 1 && group % 8 == 3 ? DMR_CODEC_RAW : DMR_CODEC_ZSTD;
}

static void add_group(struct pack *pack, unsigned int nr, unsigned int group)
{
	static u8 bytes[DMR_PACK_GROUP_SIZE];
	struct frame *frame = &frames[nr];
	uint64_t words[BLOCK_SECTORS];
	unsigned int i, s, slot;
	u16 slots = 0;

	for (i = 0; i < DMR_PACK_GROUP_BLOCKS; i++) {
		slot = group * DMR_PACK_GROUP_BLOCKS + i;
		frame->content[slot] = NO_BLOCK;
		if (!has_block(nr, slot))
			continue;
		frame->content[slot] = first_content(frame->first + slot);
		for (s = 0; s < BLOCK_SECTORS; s++)
			words[s] = word_of_content(frame->content[slot], s);
		fill_sectors(bytes + hweight16(slots) * BLOCK, words, BLOCK_SECTORS);
		slots |= 1U << i;
	}
	pack_add(pack, slots, bytes, codec_of(nr, group));
}

static void make_frame(unsigned int nr)
{
	struct frame *frame = &frames[nr];
	static struct pack pack;
	unsigned int group;

	frame->first = below(&rng, c.nr_contents);
	pack_begin(&pack);
	for (group = 0; group < DMR_PACK_GROUPS; group++)
		add_group(&pack, nr, group);
	frame->nr = pack_end(&pack);
	if (frame->nr > PACK_ROOM)
		die("a pack of %u blocks", (unsigned int)frame->nr);
	frame->bytes = xalloc(frame->nr * BLOCK);
	memcpy(frame->bytes, pack.bytes, frame->nr * BLOCK);
}

/* ---- where they are ---- */

/* Nobody names what is at place @nr. */
static void put_pack(uint64_t nr, const struct frame *frame)
{
	size_t bytes = (frame ? frame->nr : PACK_ROOM) * BLOCK;
	off_t at = pack_place(&c.b, nr).block / SEG_BLOCKS * BLOCK;

	if (pwrite(c.pool_fd, frame ? frame->bytes : no_pack, bytes, at) != (ssize_t)bytes)
		die("cannot write a pack: %s", strerror(errno));
	c.b.packs[nr] = frame;
	is_new[nr] = frame && last[nr] && frame != last[nr];
	if (frame)
		last[nr] = frame;
}

void fill_packs(void)
{
	unsigned int i;

	no_pack = xalloc(PACK_ROOM * BLOCK);
	memset(no_pack, 0xa5, PACK_ROOM * BLOCK);
	last = xalloc(c.b.nr_packs * sizeof(*last));
	is_new = xalloc(c.b.nr_packs * sizeof(*is_new));
	memset(last, 0, c.b.nr_packs * sizeof(*last));
	for (i = 0; i < NR_FRAMES; i++)
		make_frame(i);
	for (i = 0; i < c.b.nr_packs; i++)
		put_pack(i, i < c.b.nr_packs * 2 / 3 ? &frames[i % NR_FRAMES] : NULL);
}

void name_pack(struct place place)
{
	uint64_t nr = pack_nr(&c.b, place);

	if (!is_new[nr])
		return;
	is_new[nr] = false;
	came_up(H_PACK_REUSED);
}

uint64_t packed_content(struct place place)
{
	const struct frame *frame = c.b.packs[pack_nr(&c.b, place)];

	return (frame->first + place.block % SEG_BLOCKS) % c.nr_contents;
}

bool find_packed(uint64_t nr, struct place *place)
{
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		uint64_t pack = below(&rng, c.b.nr_packs), slot;
		const struct frame *frame = c.b.packs[pack];

		if (!frame)
			continue;
		slot = (nr + c.nr_contents - frame->first) % c.nr_contents;
		if (slot >= SEG_BLOCKS || frame->content[slot] == NO_BLOCK)
			continue;
		*place = nth(pack_place(&c.b, pack), slot);
		return true;
	}
	return false;
}

bool choose_packed(uint64_t *len, struct place *place)
{
	uint64_t nr = below(&rng, c.b.nr_packs), n = 0;
	struct place at = pack_place(&c.b, nr);

	if (*len < SEG_BLOCKS)
		at = nth(at, below(&rng, SEG_BLOCKS - *len));
	while (n < *len && blocks_content(&c.b, nth(at, n)) != NO_BLOCK)
		n++;
	if (!n)
		return false;
	*len = n;
	*place = at;
	return true;
}

/* ---- where they go ---- */

/* A place that somebody may name, or one that nobody does. */
static bool choose_place(bool named, uint64_t *nr)
{
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		*nr = below(&rng, c.b.nr_packs);
		if (!c.b.pack_refs[*nr] == !named)
			return true;
	}
	return false;
}

/* Another pack, or none where others would find too little room to move. */
static const struct frame *other_pack(const struct frame *frame)
{
	const struct frame *other = &frames[below(&rng, NR_FRAMES)];
	unsigned int nr_free = 0, i;

	for (i = 0; i < c.b.nr_packs; i++)
		nr_free += !c.b.packs[i];
	return nr_free < c.b.nr_packs / 4 || other == frame ? NULL : other;
}

/* As compaction does it. */
void do_move_pack(void)
{
	uint64_t from, to;

	blocks_count_refs(&c.b);
	if (!choose_place(true, &from) || !choose_place(false, &to))
		return;
	/* Those who have read there are done then. */
	settle();
	put_pack(to, c.b.packs[from]);
	if (move_all(pack_place(&c.b, from), SEG_BLOCKS, pack_place(&c.b, to)))
		came_up(H_PACK_MOVED);
	if (one_in(&rng, 2))
		settle();
	put_pack(from, other_pack(c.b.packs[to]));
}
