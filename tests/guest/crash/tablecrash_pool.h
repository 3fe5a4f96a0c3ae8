/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pool device of a test, and the entries that point into it.
 *
 * Behind the blocks that are named by themselves are packs. Each of their slots counts as a block
 * of the pool that has a number of its own, behind those of all blocks; only messages tell the
 * difference.
 *
 * Each block holds a content of its own, by number (see oracle.h), or after an alias a copy
 * of what a block of the volume held; only that block may name the copy. For each block of
 * the volume the program knows the one place that it may have besides home. (ZERO instead of
 * POOL and BASE instead of both, as writes and discards have it.) A pool block that no place
 * names is free. The caller has a lock.
 *
 * Blocks of the volume are numbered as in the oracle, that is, without its gap.
 */
#ifndef RDT_CRASHPOOL_H
#define RDT_CRASHPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crashlib.h"

#define SEG_BLOCKS	(SEG_SECTORS / BLOCK_SECTORS)

enum place_kind { IN_BASE, IN_ZERO, IN_POOL, NOWHERE };

struct place {
	enum place_kind kind;
	uint64_t block;			/* of the pool, or from pool.nr on a slot */
};

struct pool_block {
	uint32_t words[BLOCK_SECTORS];
	uint64_t only;			/* block of the volume + 1; 0: any may name it */
	unsigned int refs;		/* places that name it */
	bool pinned;			/* a message failed: somebody may name it */
};

struct pool {
	int fd;				/* through the judge: it has discards */
	uint64_t nr;			/* blocks */
	uint64_t nr_packs;
	uint64_t nr_all;		/* and slots */
	struct pool_block *blocks;
	unsigned int *packs;		/* which of those that were made is there */
	uint64_t nr_places;
	struct place *places;		/* of the volume's blocks */
	uint32_t last_content;
};

#define PACK_ROOM	32U		/* blocks of the device */

void pool_init(struct pool *pool, uint64_t nr, uint64_t nr_packs, uint64_t nr_places);
uint64_t pool_sectors(const struct pool *pool);
/* New content: nobody may name these blocks. */
void pool_renew(struct pool *pool, uint64_t first, uint64_t nr);
void pool_copy(struct pool *pool, uint64_t from, uint64_t to, uint64_t nr);
/* What was read from @block of the volume, or zeros. */
void pool_store(struct pool *pool, uint64_t to, uint64_t block, const void *buf);
void pool_store_zeros(struct pool *pool, uint64_t to, uint64_t nr);

/* Write packs to all of the places for them. */
void pool_fill_packs(struct pool *pool);
/* The first slot of the pack that has slot @block, or of pack @nr. */
uint64_t pool_pack_of(const struct pool *pool, uint64_t block);
uint64_t pool_pack(const struct pool *pool, uint64_t nr);
/* Nobody may name a slot of the pack at @first: have another one there, or that from @from. */
void pool_renew_pack(struct pool *pool, uint64_t first, uint64_t *random);
void pool_copy_pack(struct pool *pool, uint64_t from, uint64_t first);
/* Where a pack has what is in @block and those behind it, at most @*nr: pool->nr_all if none. */
uint64_t pool_find_packed(const struct pool *pool, uint64_t block, uint64_t *nr);

bool pool_holds_zeros(const struct pool *pool, uint64_t block);

/* @nr free blocks in a row, in [@first, @end), or pool->nr. */
uint64_t pool_find_free(struct pool *pool, uint64_t *random, uint64_t first, uint64_t end,
			uint64_t nr);
bool pool_is_free(const struct pool *pool, uint64_t first, uint64_t nr);
void pool_pin(struct pool *pool, uint64_t first, uint64_t nr);

struct place place_plus(struct place place, uint64_t by);
/* Is @next the place @by blocks behind @first? What is behind the last slot is in no run. */
bool place_follows(struct place first, uint64_t by, struct place next);
void pool_set_place(struct pool *pool, uint64_t block, struct place place);
/* Forget all places and pins; then they are set anew. */
void pool_forget_places(struct pool *pool);
/* The word of @sector of the volume at @place, which is not the base. */
uint32_t pool_word(const struct pool *pool, struct place place, uint64_t sector);

/*
 * A message's ranges, of blocks of the volume and their places.
 */
struct ranges {
	char text[16000];
	size_t len;
};

/* False: the text is full. */
bool ranges_add(struct ranges *ranges, uint64_t block, uint64_t nr, const struct place *old,
		const struct place *new);

/*
 * What the target says of blocks [@first, @first + @nr): they do not cross the
 * oracle's half. 0 or -errno; a block that is damaged is a miss.
 */
int ask_places(uint64_t first, uint64_t nr, struct place *places);
/* As in messages; the text is good for a while. */
const char *place_text(struct place place);

#endif
