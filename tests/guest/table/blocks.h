/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of a volume with a remap table, for programs that work on one from several
 * threads: what each sector holds, and where each block may lie.
 *
 * The content of a sector is one word that fills it. The word tells the write that it comes
 * from, or the content of the pool and the sector of it. So the model of a volume is a word
 * a sector, and content in a wrong place shows.
 *
 * Each block has a set of places where it may lie, because several threads change the place
 * at once and the model cannot know their order: one remaps or aliases, and another writes.
 * The set can have BASE, ZERO and one place in the pool, which may be in a pack. It may have
 * too many places, never too few, so that a place in no set is free in the pool.
 */
#ifndef RDT_BLOCKS_H
#define RDT_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTOR		512U
#define BLOCK_SECTORS	8U
#define BLOCK		4096U
#define SEG_BLOCKS	512U
#define SEG_SECTORS	4096U

/*
 * Words. Neither a write nor the pool makes WORD_GARBAGE, which is what a sector
 * holds that is not one word all over.
 */
#define WORD_ZERO	0ULL
#define WORD_GARBAGE	(~0ULL)

uint64_t word_of_write(uint32_t stamp, uint64_t sector);
/* Sector @sector of a block with content @content; content 0 is zeros. */
uint64_t word_of_content(uint64_t content, uint64_t sector);
/* The content that a block with first word @word may have; false: none. */
bool word_to_content(uint64_t word, uint64_t *ret_content);

void fill_sectors(void *buf, const uint64_t *words, size_t nr);
void parse_sectors(const void *buf, uint64_t *words, size_t nr);

/*
 * A place, as messages have it: 'b', 'z', 'p' and the block of the pool, or 'k' and a slot of
 * a pack, which has SEG_BLOCKS of them: block = head * SEG_BLOCKS + slot.
 */
struct place {
	char kind;
	uint64_t block;
};

/* Behind the blocks that are named by themselves the pool has room for packs. */
#define PACK_ROOM	80U		/* blocks */
#define NO_BLOCK	(~0ULL)		/* the content of a slot that has none */

/* What makes up a pack. */
struct frame {
	void *bytes;
	uint64_t nr;			/* blocks of the pool that it takes */
	uint64_t first;			/* what slot 0 would have, if it has a block */
	uint64_t content[SEG_BLOCKS];
};

struct blocks {
	uint64_t max_sectors;		/* of the base */
	uint64_t sectors;		/* of the volume */
	uint64_t nr;			/* blocks */
	uint64_t segs;
	uint64_t *word;			/* a sector: what it holds */
	atomic_uint_least64_t *may;	/* a block: MAY_* */
	uint64_t pool_nr;
	uint64_t *pool;			/* a block of the pool: its content */
	uint32_t *refs;			/* of blocks_count_refs() */
	uint64_t nr_packs;		/* there is room for, behind these */
	const struct frame **packs;	/* what is there; NULL: nothing */
	uint32_t *pack_refs;
	/* Now all that is not on the base may at any time turn out to be there. */
	atomic_bool going_home;
};

void blocks_init(struct blocks *b, uint64_t max_sectors, uint64_t pool_nr, uint64_t nr_packs);
void blocks_set_size(struct blocks *b, uint64_t sectors);
/* Hydration begins or goes on, or it ends or pauses. */
void blocks_set_going_home(struct blocks *b, bool on);

#define MAY_BASE	(1ULL << 0)
#define MAY_ZERO	(1ULL << 1)
#define MAY_POOL	(1ULL << 2)
#define MAY_PACK	(1ULL << 3)
#define MAY_BUSY	(1ULL << 4)	/* a write is under way */
#define MAY_CHANGED	(1ULL << 5)	/* somebody else added a place meanwhile */
#define MAY_BLOCK(may)	((may) >> 8)	/* with MAY_IN_POOL */
#define MAY_IN_POOL	(MAY_POOL | MAY_PACK)
#define MAY_AWAY	(MAY_ZERO | MAY_IN_POOL)

/*
 * The set of a block. A writer calls these in this order, and the last one after
 * all of its writes to the block: may_wrote() leaves only BASE, unless somebody
 * else added a place since may_begin().
 */
void may_begin(struct blocks *b, uint64_t block);
void may_wrote(struct blocks *b, uint64_t block);
void may_end(struct blocks *b, uint64_t block);
/* Before may_end(): it was discarded. */
void may_discarded(struct blocks *b, uint64_t block);
/* By one thread only: */
/* @place, too. The set must have no other place in the pool. */
void may_add(struct blocks *b, uint64_t block, struct place place);
/* Where it was @from it is @to now. */
void may_move(struct blocks *b, uint64_t block, struct place from, struct place to);
/* Only @place; nobody writes. */
void may_pin(struct blocks *b, uint64_t block, struct place place);
bool may_be(struct blocks *b, uint64_t block, struct place place);
static inline uint64_t may_get(struct blocks *b, uint64_t block)
{
	return atomic_load(&b->may[block]);
}

/* Return the place in the pool that the set @may has; one without a kind if there is none. */
struct place may_in_pool(uint64_t may);

/* Where the pack begins that is at @nr, and the reverse: nr_packs if none can be there. */
struct place pack_place(const struct blocks *b, uint64_t nr);
uint64_t pack_nr(const struct blocks *b, struct place place);
/* The content of @place, which is not the base; NO_BLOCK: nothing is there. */
uint64_t blocks_content(const struct blocks *b, struct place place);

/* The sectors of the volume that are in @block: eight, or less in the last. */
static inline unsigned int block_sectors(const struct blocks *b, uint64_t block)
{
	uint64_t left = b->sectors - block * BLOCK_SECTORS;

	return left < BLOCK_SECTORS ? left : BLOCK_SECTORS;
}

/* Would the volume hold what it must if @block were at @place? (Not for BASE.) */
bool blocks_explains(struct blocks *b, uint64_t block, struct place place);
/* How many sets have each block of the pool, and each pack: b->refs, b->pack_refs. */
void blocks_count_refs(struct blocks *b);

#endif
