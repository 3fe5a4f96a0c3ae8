/* SPDX-License-Identifier: GPL-2.0 */
/* Write what heals damaged blocks, in batches. For heal.c. */
#ifndef RD_HEAL_WRITE_H
#define RD_HEAL_WRITE_H

#include "damage.h"

struct rd_blocks;
struct rd_hasher;
struct rd_heal_writer;

/* @is_dry: what would be written is counted as healed. NULL: no memory. */
struct rd_heal_writer *rd_heal_writer_new(struct rd_pool *pool, struct rd_blocks *blocks,
					  struct rd_hasher *hasher, bool is_dry);
void rd_heal_writer_free(struct rd_heal_writer *writer);

/*
 * Write @block, of which @data is the content, and its fingerprint; NULL: the content is there.
 * @block->is_healed tells after rd_heal_flush() whether it could be read back.
 */
int rd_heal_write(struct rd_heal_writer *writer, struct rd_bad_block *block, const void *data);
int rd_heal_flush(struct rd_heal_writer *writer);

#endif
