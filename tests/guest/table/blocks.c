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

void blocks_init(struct blocks *b, uint64_t max_sectors, uint64_t pool_nr)
{
	uint64_t max_nr = max_sectors / BLOCK_SECTORS + 1;

	memset(b, 0, sizeof(*b));
	b->max_sectors = max_sectors;
	b->word = zalloc(max_nr * BLOCK_SECTORS, sizeof(*b->word));
	b->may = zalloc(max_nr, sizeof(*b->may));
	b->pool_nr = pool_nr;
	b->pool = zalloc(pool_nr, sizeof(*b->pool));
	b->refs = zalloc(pool_nr, sizeof(*b->refs));
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
	default:
		return MAY_POOL | place.block << 8;
	}
}

static uint64_t place_mask(struct place place)
{
	return place.kind == 'p' ? MAY_POOL | ~0ULL << 8 : place_bits(place);
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

bool blocks_explains(struct blocks *b, uint64_t block, struct place place)
{
	uint64_t first = block * BLOCK_SECTORS;
	uint64_t content = place.kind == 'p' ? b->pool[place.block] : 0;
	unsigned int i;

	for (i = 0; i < block_sectors(b, block); i++)
		if (b->word[first + i] != word_of_content(content, i))
			return false;
	return true;
}

void blocks_count_refs(struct blocks *b)
{
	uint64_t i;

	memset(b->refs, 0, b->pool_nr * sizeof(*b->refs));
	for (i = 0; i < b->nr; i++) {
		uint64_t may = may_get(b, i);

		if (may & MAY_POOL)
			b->refs[MAY_BLOCK(may)]++;
	}
}
