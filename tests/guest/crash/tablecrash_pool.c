// SPDX-License-Identifier: GPL-2.0
/*
 * The pool device of a test, and who points into it. See tablecrash_pool.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/dm.h"
#include "lib/pack.h"
#include "tablecrash.h"

#define CHUNK	256U			/* blocks that are written at a time */
#define NR_MADE	6U			/* packs */

/* A pack that was made, which may be at several places. */
static struct made {
	void *bytes;
	uint64_t nr;			/* blocks of the pool that it takes */
	uint32_t word;			/* of slot 0; the others follow */
} made[NR_MADE];

static void make_pack(struct pool *pool, struct made *m)
{
	static u8 bytes[DMR_PACK_GROUP_SIZE];
	static struct pack pack;
	unsigned int group, i;

	m->word = WORD_POOL | (pool->last_content + 1);
	pack_begin(&pack);
	for (group = 0; group < DMR_PACK_GROUPS; group++) {
		for (i = 0; i < DMR_PACK_GROUP_BLOCKS; i++)
			pool_fill(WORD_POOL | ++pool->last_content, bytes + i * BLOCK);
		/* One of them as it is: it has blocks for itself. */
		pack_add(&pack, 0xffff, bytes, group == 5 ? DMR_CODEC_RAW : DMR_CODEC_ZSTD);
	}
	m->nr = pack_end(&pack);
	if (m->nr > PACK_ROOM)
		die("a pack of %" PRIu64 " blocks", m->nr);
	m->bytes = xalloc(m->nr * BLOCK);
	memcpy(m->bytes, pack.bytes, m->nr * BLOCK);
}

void pool_init(struct pool *pool, uint64_t nr, uint64_t nr_packs, uint64_t nr_places)
{
	unsigned int i;

	pool->nr = nr;
	pool->nr_packs = nr_packs;
	pool->nr_all = nr + nr_packs * SEG_BLOCKS;
	pool->nr_places = nr_places;
	pool->blocks = calloc(pool->nr_all, sizeof(*pool->blocks));
	pool->packs = calloc(nr_packs, sizeof(*pool->packs));
	pool->places = calloc(nr_places, sizeof(*pool->places));
	if (!pool->blocks || !pool->packs || !pool->places)
		die("no memory");
	for (i = 0; i < NR_MADE; i++)
		make_pack(pool, &made[i]);
}

uint64_t pool_sectors(const struct pool *pool)
{
	return (pool->nr + pool->nr_packs * PACK_ROOM) * BLOCK_SECTORS;
}

/*
 * ---- content ----
 */

static void *chunk(void)
{
	static void *buf;

	if (!buf)
		buf = xalloc(CHUNK * BLOCK);
	return buf;
}

static void write_blocks(struct pool *pool, uint64_t first, uint64_t nr, const void *buf)
{
	if (pwrite(pool->fd, buf, nr * BLOCK, first * BLOCK) != (ssize_t)(nr * BLOCK))
		die("cannot write to the pool: %s", strerror(errno));
}

/* In the journal, a line for each block, or for a run of blocks with one word. */
static void note_block(struct pool *pool, uint64_t block)
{
	const uint32_t *w = pool->blocks[block].words;

	oracle_note(&c.oracle, "Q %" PRIu64 " %u %u %u %u %u %u %u %u\n", block, w[0], w[1],
		    w[2], w[3], w[4], w[5], w[6], w[7]);
}

static void set_words(struct pool *pool, uint64_t block, uint32_t word)
{
	unsigned int i;

	for (i = 0; i < BLOCK_SECTORS; i++)
		pool->blocks[block].words[i] = word;
	pool->blocks[block].only = 0;
	note_block(pool, block);
}

void pool_renew(struct pool *pool, uint64_t first, uint64_t nr)
{
	uint64_t i, n;

	for (; nr; first += n, nr -= n) {
		n = nr < CHUNK ? nr : CHUNK;
		for (i = 0; i < n; i++) {
			uint32_t word = WORD_POOL | ++pool->last_content;

			pool_fill(word, chunk() + i * BLOCK);
			set_words(pool, first + i, word);
		}
		write_blocks(pool, first, n, chunk());
	}
}

static void read_blocks(struct pool *pool, uint64_t first, uint64_t nr, void *buf)
{
	uint64_t i;

	/* A slot of a pack has one word only. */
	for (i = 0; first >= pool->nr && i < nr; i++)
		pool_fill(pool->blocks[first + i].words[0], buf + i * BLOCK);
	if (first < pool->nr &&
	    pread(pool->fd, buf, nr * BLOCK, first * BLOCK) != (ssize_t)(nr * BLOCK))
		die("cannot read the pool: %s", strerror(errno));
}

void pool_copy(struct pool *pool, uint64_t from, uint64_t to, uint64_t nr)
{
	uint64_t i, n;

	for (; nr; from += n, to += n, nr -= n) {
		n = nr < CHUNK ? nr : CHUNK;
		read_blocks(pool, from, n, chunk());
		write_blocks(pool, to, n, chunk());
		for (i = 0; i < n; i++) {
			memcpy(pool->blocks[to + i].words, pool->blocks[from + i].words,
			       sizeof(pool->blocks[to].words));
			pool->blocks[to + i].only = pool->blocks[from + i].only;
			note_block(pool, to + i);
		}
	}
}

void pool_store(struct pool *pool, uint64_t to, uint64_t block, const void *buf)
{
	struct pool_block *b = &pool->blocks[to];
	unsigned int i;

	write_blocks(pool, to, 1, buf);
	for (i = 0; i < BLOCK_SECTORS; i++)
		b->words[i] = parse_sector(buf + i * SECTOR, block * BLOCK_SECTORS + i);
	b->only = block + 1;
	note_block(pool, to);
}

void pool_store_zeros(struct pool *pool, uint64_t to, uint64_t nr)
{
	uint64_t n;

	memset(chunk(), 0, (nr < CHUNK ? nr : CHUNK) * BLOCK);
	for (; nr; to += n, nr -= n) {
		uint64_t i;

		n = nr < CHUNK ? nr : CHUNK;
		write_blocks(pool, to, n, chunk());
		for (i = 0; i < n; i++)
			set_words(pool, to + i, WORD_ZERO);
	}
}

/*
 * ---- packs ----
 */

uint64_t pool_pack(const struct pool *pool, uint64_t nr)
{
	return pool->nr + nr * SEG_BLOCKS;
}

uint64_t pool_pack_of(const struct pool *pool, uint64_t block)
{
	return block - (block - pool->nr) % SEG_BLOCKS;
}

static uint64_t head_of(const struct pool *pool, uint64_t slot)
{
	return pool->nr + (slot - pool->nr) / SEG_BLOCKS * PACK_ROOM;
}

static void put_pack(struct pool *pool, uint64_t first, unsigned int which)
{
	const struct made *m = &made[which];
	unsigned int i;

	write_blocks(pool, head_of(pool, first), m->nr, m->bytes);
	pool->packs[(first - pool->nr) / SEG_BLOCKS] = which;
	for (i = 0; i < SEG_BLOCKS; i++)
		set_words(pool, first + i, m->word + i);
}

void pool_fill_packs(struct pool *pool)
{
	unsigned int i;

	for (i = 0; i < pool->nr_packs; i++)
		put_pack(pool, pool_pack(pool, i), i % NR_MADE);
}

void pool_renew_pack(struct pool *pool, uint64_t first, uint64_t *random)
{
	unsigned int now = pool->packs[(first - pool->nr) / SEG_BLOCKS];

	put_pack(pool, first, (now + 1 + below(random, NR_MADE - 1)) % NR_MADE);
}

void pool_copy_pack(struct pool *pool, uint64_t from, uint64_t first)
{
	put_pack(pool, first, pool->packs[(from - pool->nr) / SEG_BLOCKS]);
}

uint64_t pool_find_packed(const struct pool *pool, uint64_t block, uint64_t *nr)
{
	const struct pool_block *b = &pool->blocks[block];
	uint64_t i, n, slot;

	for (i = 0; i < pool->nr_packs; i++) {
		slot = b->words[0] - made[pool->packs[i]].word;
		if (slot >= SEG_BLOCKS)
			continue;
		for (n = 0; n < *nr && slot + n < SEG_BLOCKS; n++)
			if (memcmp(b[n].words, pool->blocks[pool_pack(pool, i) + slot + n].words,
				   sizeof(b->words)))
				break;
		if (!n)
			continue;
		*nr = n;
		return pool_pack(pool, i) + slot;
	}
	return pool->nr_all;
}

bool pool_holds_zeros(const struct pool *pool, uint64_t block)
{
	unsigned int i;

	for (i = 0; i < BLOCK_SECTORS; i++)
		if (!(pool->blocks[block].words[i] & WORD_ZERO))
			return false;
	return true;
}

/*
 * ---- places ----
 */

bool pool_is_free(const struct pool *pool, uint64_t first, uint64_t nr)
{
	uint64_t i;

	for (i = first; i < first + nr; i++)
		if (pool->blocks[i].refs || pool->blocks[i].pinned)
			return false;
	return true;
}

static uint64_t find_free(struct pool *pool, uint64_t first, uint64_t end, uint64_t nr)
{
	uint64_t i, run = 0;

	for (i = first; i < end; i++) {
		run = pool_is_free(pool, i, 1) ? run + 1 : 0;
		if (run == nr)
			return i + 1 - nr;
	}
	return pool->nr;
}

uint64_t pool_find_free(struct pool *pool, uint64_t *random, uint64_t first, uint64_t end,
			uint64_t nr)
{
	uint64_t start = first + below(random, end - first);
	uint64_t found = find_free(pool, start, end, nr);

	return found < pool->nr ? found : find_free(pool, first, end, nr);
}

void pool_pin(struct pool *pool, uint64_t first, uint64_t nr)
{
	uint64_t i;

	for (i = first; i < first + nr; i++)
		pool->blocks[i].pinned = true;
}

struct place place_plus(struct place place, uint64_t by)
{
	if (place.kind == IN_POOL)
		place.block += by;
	return place;
}

static bool is_in_pack(struct place place)
{
	return place.kind == IN_POOL && place.block >= t.pool.nr;
}

bool place_follows(struct place first, uint64_t by, struct place next)
{
	return next.kind == first.kind && next.block == place_plus(first, by).block &&
	       (!is_in_pack(next) || pool_pack_of(&t.pool, next.block) <= first.block);
}

void pool_set_place(struct pool *pool, uint64_t block, struct place place)
{
	struct place *old = &pool->places[block];

	if (old->kind == IN_POOL)
		pool->blocks[old->block].refs--;
	if (place.kind == IN_POOL)
		pool->blocks[place.block].refs++;
	*old = place;
}

void pool_forget_places(struct pool *pool)
{
	uint64_t i;

	memset(pool->places, 0, pool->nr_places * sizeof(*pool->places));
	for (i = 0; i < pool->nr_all; i++) {
		pool->blocks[i].refs = 0;
		pool->blocks[i].pinned = false;
	}
}

uint32_t pool_word(const struct pool *pool, struct place place, uint64_t sector)
{
	if (place.kind == IN_ZERO)
		return WORD_ZERO;
	return pool->blocks[place.block].words[sector % BLOCK_SECTORS];
}

/*
 * ---- in messages ----
 */

/* The volume's own number of a block. */
static uint64_t real_block(uint64_t block)
{
	return oracle_place(&c.oracle, block * BLOCK_SECTORS) / BLOCK_SECTORS;
}

const char *place_text(struct place place)
{
	static __thread char texts[4][24];
	static __thread unsigned int next;
	char *text = texts[next++ % 4];

	if (is_in_pack(place))
		snprintf(text, sizeof(texts[0]), "k%" PRIx64 ".%" PRIx64,
			 head_of(&t.pool, place.block),
			 place.block - pool_pack_of(&t.pool, place.block));
	else if (place.kind == IN_POOL)
		snprintf(text, sizeof(texts[0]), "p%" PRIx64, place.block);
	else
		snprintf(text, sizeof(texts[0]), "%c", "bz-?"[place.kind]);
	return text;
}

bool ranges_add(struct ranges *ranges, uint64_t block, uint64_t nr, const struct place *old,
		const struct place *new)
{
	size_t room = sizeof(ranges->text) - ranges->len;
	int len = snprintf(ranges->text + ranges->len, room, "%s%" PRIx64 ",%" PRIx64 "%s%s%s%s",
			   ranges->len ? ";" : "", real_block(block), nr, old ? "," : "",
			   old ? place_text(*old) : "", new ? "," : "",
			   new ? place_text(*new) : "");

	if ((size_t)len >= room) {
		ranges->text[ranges->len] = '\0';
		return false;
	}
	ranges->len += len;
	return true;
}

static bool parse_place(const char *text, struct place *place)
{
	const struct pool *pool = &t.pool;
	uint64_t slot;
	int end = 0;

	place->block = 0;
	place->kind = *text == 'b' ? IN_BASE : *text == 'z' ? IN_ZERO : IN_POOL;
	if (place->kind != IN_POOL)
		return !text[1];
	if (sscanf(text, "k%" SCNx64 ".%" SCNx64 "%n", &place->block, &slot, &end) == 2 &&
	    !text[end]) {
		uint64_t head = place->block - pool->nr;

		place->block = pool->nr + head / PACK_ROOM * SEG_BLOCKS + slot;
		return place->block < pool->nr_all && !(head % PACK_ROOM);
	}
	return sscanf(text, "p%" SCNx64 "%n", &place->block, &end) == 1 && !text[end];
}

/* Blocks [@first, @next) are to be in @text; @first is real, as places[0] is. */
static void take_ranges(char *text, uint64_t first, uint64_t next, struct place *places)
{
	uint64_t at = first, start, len, i;
	char *range, *rest;

	for (range = strtok_r(text, ";", &rest); range; range = strtok_r(NULL, ";", &rest)) {
		struct place place;
		int end = 0;

		if (sscanf(range, "%" SCNx64 ",%" SCNx64 ",%n", &start, &len, &end) != 2 ||
		    !end || !parse_place(range + end, &place) || start != at ||
		    len > next - at)
			miss("'table' from block %#" PRIx64 " to %#" PRIx64 " gave '%s'",
			     first, next, range);
		for (i = 0; i < len; i++)
			places[at++ - first] = place_plus(place, i);
	}
	if (at != next)
		miss("'table' does not know where block %#" PRIx64 " is", at);
}

int ask_places(uint64_t first, uint64_t nr, struct place *places)
{
	uint64_t at = real_block(first), end = at + nr, next;
	char reply[16384];

	while (at < end) {
		int r = dm_ask(VOL, reply, sizeof(reply), "table %" PRIu64 " %" PRIu64, at,
			       end - at);
		char *p;

		if (r)
			return r;
		p = strchr(reply, ' ');
		if (!p || sscanf(p, " %" SCNu64, &next) != 1 || next <= at || next > end)
			miss("'table %" PRIu64 " %" PRIu64 "' gave '%s'", at, end - at, reply);
		*p = '\0';
		take_ranges(reply, at, next, places);
		places += next - at;
		at = next;
	}
	return 0;
}
