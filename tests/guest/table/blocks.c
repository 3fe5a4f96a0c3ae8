// SPDX-License-Identifier: GPL-2.0
/*
 * A volume with a remap table as it must be. See blocks.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc.h"
#include "blocks.h"

#define WORDS_A_SECTOR	(SECTOR / sizeof(uint64_t))
#define WORD_CONTENT	(1ULL << 63)	/* of the pool, else of a write */

/*
 * ---- words ----
 */

uint64_t word_of_write(uint32_t stamp, uint64_t sector)
{
	return (uint64_t)(stamp & 0x7fffffff) << 32 | (uint32_t)sector;
}

uint64_t word_of_content(uint64_t content, uint64_t sector)
{
	if (!content)
		return WORD_ZERO;
	return WORD_CONTENT | content << 3 | sector % BLOCK_SECTORS;
}

bool word_to_content(uint64_t word, uint64_t *ret_content)
{
	if (word != WORD_ZERO && (!(word & WORD_CONTENT) || word % BLOCK_SECTORS))
		return false;
	*ret_content = (word & ~WORD_CONTENT) >> 3;
	return true;
}

/*
 * Not in vectors: an emulator, and most of our guests run on one, takes twice as
 * long for them.
 */
#define FOR_EMULATORS __attribute__((optimize("no-tree-vectorize", "unroll-loops")))

FOR_EMULATORS void fill_sectors(void *buf, const uint64_t *words, size_t nr)
{
	uint64_t *p = buf;
	size_t i;

	for (; nr--; words++)
		for (i = 0; i < WORDS_A_SECTOR; i++)
			*p++ = *words;
}

FOR_EMULATORS void parse_sectors(const void *buf, uint64_t *words, size_t nr)
{
	const uint64_t *p = buf;
	size_t i;

	for (; nr--; words++, p += WORDS_A_SECTOR) {
		uint64_t differs = 0;

		for (i = 1; i < WORDS_A_SECTOR; i++)
			differs |= p[i] ^ p[0];
		*words = differs ? WORD_GARBAGE : p[0];
	}
}

/*
 * ---- the volume ----
 */

void blocks_init(struct blocks *b, uint64_t max_sectors, uint64_t pool_nr, uint64_t nr_packs)
{
	uint64_t max_nr = max_sectors / BLOCK_SECTORS + 1;

	memset(b, 0, sizeof(*b));
	b->max_sectors = max_sectors;
	b->word = zalloc(max_nr * BLOCK_SECTORS, sizeof(*b->word));
	b->may = zalloc(max_nr, sizeof(*b->may));
	b->pool_nr = pool_nr;
	b->pool = zalloc(pool_nr, sizeof(*b->pool));
	b->refs = zalloc(pool_nr, sizeof(*b->refs));
	b->nr_packs = nr_packs;
	b->packs = zalloc(nr_packs, sizeof(*b->packs));
	b->pack_refs = zalloc(nr_packs, sizeof(*b->pack_refs));
	blocks_set_size(b, max_sectors);
}

void blocks_set_size(struct blocks *b, uint64_t sectors)
{
	b->sectors = sectors;
	b->nr = (sectors + BLOCK_SECTORS - 1) / BLOCK_SECTORS;
	b->segs = (sectors + SEG_SECTORS - 1) / SEG_SECTORS;
}

void blocks_set_going_home(struct blocks *b, bool on)
{
	uint64_t i;

	atomic_store(&b->going_home, on);
	if (!on)
		return;
	for (i = 0; i < b->nr; i++)
		atomic_fetch_or(&b->may[i], MAY_BASE);
}

/*
 * ---- where a block may lie ----
 */

static uint64_t place_bits(struct place place)
{
	switch (place.kind) {
	case 'b':
		return MAY_BASE;
	case 'z':
		return MAY_ZERO;
	case 'k':
		return MAY_PACK | place.block << 8;
	default:
		return MAY_POOL | place.block << 8;
	}
}

static uint64_t place_mask(struct place place)
{
	uint64_t bits = place_bits(place);

	return bits & MAY_IN_POOL ? MAY_IN_POOL | ~0ULL << 8 : bits;
}

void may_begin(struct blocks *b, uint64_t block)
{
	atomic_fetch_or(&b->may[block], MAY_BUSY | MAY_BASE);
}

void may_wrote(struct blocks *b, uint64_t block)
{
	uint64_t may = may_get(b, block);

	while (!(may & MAY_CHANGED) &&
	       !atomic_compare_exchange_weak(&b->may[block], &may, MAY_BASE | MAY_BUSY))
		;
}

void may_end(struct blocks *b, uint64_t block)
{
	atomic_fetch_and(&b->may[block], ~(MAY_BUSY | MAY_CHANGED));
}

void may_discarded(struct blocks *b, uint64_t block)
{
	atomic_fetch_or(&b->may[block], MAY_ZERO);
}

void may_add(struct blocks *b, uint64_t block, struct place place)
{
	uint64_t may = may_get(b, block), next;

	do {
		next = may | place_bits(place);
		if (may & MAY_BUSY)
			next |= MAY_CHANGED;
	} while (!atomic_compare_exchange_weak(&b->may[block], &may, next));
}

void may_move(struct blocks *b, uint64_t block, struct place from, struct place to)
{
	uint64_t may = may_get(b, block), next;

	do {
		if ((may & place_mask(from)) != place_bits(from))
			return;
		next = (may & ~place_mask(from)) | place_bits(to);
		if (may & MAY_BUSY)
			next |= MAY_CHANGED;
		if (atomic_load(&b->going_home))
			next |= MAY_BASE;
	} while (!atomic_compare_exchange_weak(&b->may[block], &may, next));
}

void may_pin(struct blocks *b, uint64_t block, struct place place)
{
	uint64_t may = place_bits(place);

	if (atomic_load(&b->going_home))
		may |= MAY_BASE;
	atomic_store(&b->may[block], may);
}

bool may_be(struct blocks *b, uint64_t block, struct place place)
{
	return (may_get(b, block) & place_mask(place)) == place_bits(place);
}

struct place may_in_pool(uint64_t may)
{
	struct place place = { .block = MAY_BLOCK(may) };

	if (may & MAY_IN_POOL)
		place.kind = may & MAY_PACK ? 'k' : 'p';
	return place;
}

struct place pack_place(const struct blocks *b, uint64_t nr)
{
	return (struct place){ 'k', (b->pool_nr + nr * PACK_ROOM) * SEG_BLOCKS };
}

uint64_t pack_nr(const struct blocks *b, struct place place)
{
	uint64_t head = place.block / SEG_BLOCKS - b->pool_nr;

	return head % PACK_ROOM || head / PACK_ROOM >= b->nr_packs ? b->nr_packs :
	       head / PACK_ROOM;
}

uint64_t blocks_content(const struct blocks *b, struct place place)
{
	uint64_t nr;

	if (place.kind == 'z')
		return 0;
	if (place.kind == 'p')
		return place.block < b->pool_nr ? b->pool[place.block] : NO_BLOCK;
	nr = pack_nr(b, place);
	return nr < b->nr_packs && b->packs[nr] ?
	       b->packs[nr]->content[place.block % SEG_BLOCKS] : NO_BLOCK;
}

bool blocks_explains(struct blocks *b, uint64_t block, struct place place)
{
	uint64_t first = block * BLOCK_SECTORS;
	uint64_t content = blocks_content(b, place);
	unsigned int i;

	if (content == NO_BLOCK)
		return false;
	for (i = 0; i < block_sectors(b, block); i++)
		if (b->word[first + i] != word_of_content(content, i))
			return false;
	return true;
}

void blocks_count_refs(struct blocks *b)
{
	uint64_t i;

	memset(b->refs, 0, b->pool_nr * sizeof(*b->refs));
	memset(b->pack_refs, 0, b->nr_packs * sizeof(*b->pack_refs));
	for (i = 0; i < b->nr; i++) {
		struct place place = may_in_pool(may_get(b, i));

		if (place.kind == 'p')
			b->refs[place.block]++;
		else if (place.kind == 'k')
			b->pack_refs[pack_nr(b, place)]++;
	}
}
