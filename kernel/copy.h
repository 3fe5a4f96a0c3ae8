/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of blocks to the base: by hydrate.c in the background, and before a write that
 * covers a part of a block that is not home.
 */
#ifndef DMR_COPY_H
#define DMR_COPY_H

#include "dmr_table.h"

/* A first or last block of which a write covers a part. */
struct dmr_piece {
	sector_t sector;
	sector_t count;
	struct dmr_entry place;		/* of the block */
};

struct dmr_pieces {
	unsigned int nr;
	struct dmr_piece piece[2];
};

void dmr_copy_init(struct dmr_table *t);

/* Does @bio begin, or end, with a whole block? Anywhere. */
static inline bool dmr_copy_covers_start(struct bio *bio)
{
	return !(bio->bi_iter.bi_sector % DMR_BLOCK_SECTORS);
}

static inline bool dmr_copy_covers_end(struct dmr_table *t, struct bio *bio)
{
	sector_t end = bio_end_sector(bio);

	return !(end % DMR_BLOCK_SECTORS) || end == t->volume_sectors;
}

/* Is a block at @place in the pool, which may be smaller now, and can it be read there? */
static inline bool dmr_copy_is_possible(struct dmr_table *t, struct dmr_entry place)
{
	if (place.kind == DMR_PACK)
#ifndef DMR_NO_PACKS
		return t->packs && dmr_entry_pool_block(place) < t->pool_blocks;
#else
		return false;
#endif
	return place.kind == DMR_POOL && place.block < t->pool_blocks;
}

/* Find what must be copied home before @bio may go; false: it cannot be. Under t->lock. */
bool dmr_copy_find_pieces(struct dmr_table *t, struct dmr_page *page,
			  struct bio *bio, struct dmr_pieces *pieces);
/*
 * Copy @pieces home, flush the base, and issue @bio, whose blocks are busy. It fails if
 * they cannot be copied. Sleeps.
 */
void dmr_copy_up(struct dmr_table *t, struct bio *bio, struct dmr_pieces *pieces);
/* The same again, for a bio of dmr_table.recopies. Sleeps. */
void dmr_copy_up_again(struct dmr_table *t, struct bio *bio);
/*
 * Copy @count sectors from @sector on, within blocks at @place and behind it, to the
 * base; of a pack within one group. @fn is called with @context when that has ended. Sleeps.
 */
void dmr_copy_home(struct dmr_table *t, struct dmr_entry place, sector_t sector,
		   sector_t count, dm_kcopyd_notify_fn fn, void *context);

#endif
