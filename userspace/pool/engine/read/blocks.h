/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read blocks, wherever they are, in one thread. Restores, scrubs and readers at random read in
 * bulk at first, and do so themselves.
 *
 * Groups of packs that were decoded are kept for the blocks beside, so blocks are best read in
 * the order of their slots.
 */
#ifndef RD_BLOCKS_H
#define RD_BLOCKS_H

#include "pool/data/pack.h"
#include "pool/pool.h"

struct rd_blocks;

/* NULL: out of memory. */
struct rd_blocks *rd_blocks_new(struct rd_pool *pool);
void rd_blocks_free(struct rd_blocks *blocks);

/* Ask @find where packs are, instead of the catalog of the pool: for threads. -ENOENT. */
typedef int rd_find_pack_fn(void *ctx, u64 frame, struct rd_pack *ret);
void rd_blocks_ask(struct rd_blocks *blocks, rd_find_pack_fn *find, void *ctx);

/* Forget what is kept: packs may have moved. */
void rd_blocks_forget(struct rd_blocks *blocks);

/*
 * Read the block at @place, which is OWN. -EBADMSG: it is not there, or its pack is damaged;
 * or -errno of a read. Without a message: the caller knows whether others are damaged, too.
 */
int rd_blocks_read(struct rd_blocks *blocks, rd_place place, void *to);

/*
 * Read the blocks at those of @nr places that are OWN, each to where it is among them in @data,
 * which is aligned. Places in a row are one read, and several are read at once. What cannot be read
 * is zeros, as no block of the pool is. 1: there is such a block. -ENOMEM, or -errno of the ring.
 */
int rd_blocks_read_all(struct rd_blocks *blocks, const rd_place *places, unsigned int nr, u8 *data);

#endif
