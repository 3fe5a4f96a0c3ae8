/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The journal: a copy of the catalog inside the data area, from which the
 * catalog can be made anew. It is a list of frames; each has parts, which begin
 * at a block:
 *
 *	 0  4  magic
 *	 4  4  CRC-32C of header and payload with this field zero
 *	 8  8  number of the journal, random: what an earlier one left is not ours
 *	16  8  sequence number of the part, from 0
 *	24  8  generation of the catalog after it
 *	32  4  bytes of payload
 *	36  4  kind: CHANGES, MORE (changes that go on in the next part), DUMP, LINK
 *	40  8  LINK: the frame where it goes on, in block 0
 *	48 16  zeros
 *	64     payload: changes, see changes.h
 *
 * It begins with the rows of all tables (DUMP, until the first part of another
 * kind), then has the changes of each transaction. The first block that is not
 * the next part is its end: a part that a crash tore is not there. A link takes
 * one block, and the last block of a frame is kept for it. Each frame is zeros,
 * stable, before something leads there: whatever else comes after the end is a part
 * that is damaged, and never what a disk had from an earlier life.
 *
 * The order of things: a transaction commits, with its changes in the outbox;
 * these are appended and flushed; then they leave the outbox. So the journal is
 * never ahead of the catalog, and a catalog that is behind the journal is an
 * older one that somebody put back. As they leave the outbox, the catalog notes
 * the last part, which is stable: a data area that has not that part is the
 * older one. Nothing is freed before the journal knows
 * that it is not used any more.
 *
 * When the changes are longer than the dump, a new journal is begun in other
 * frames, and the superblock is pointed at it once it is whole.
 */
#ifndef RD_JOURNAL_H
#define RD_JOURNAL_H

#include "pool/pool.h"

/*
 * Everything that is committed is in the journal, stable, when this returns;
 * and so is everything that was written to the data area before.
 */
int rd_journal_flush(struct rd_pool *pool);

/* Is all of it there that the catalog says is? */
int rd_journal_verify(struct rd_pool *pool, bool *ret_good);

/* Begin a new one with all that the catalog has; the old one goes. */
int rd_journal_renew(struct rd_pool *pool);

/* Superblocks that a crash has left behind are made whole, where that is allowed. */
int rd_journal_life(struct rd_pool *pool, enum rd_life *ret);

/*
 * There is no superblock that says which journal holds: set both of its fields in
 * pool->area.super. -EUCLEAN: what is there is not the journal of this catalog, or
 * is newer, and that was said.
 */
int rd_journal_find(struct rd_pool *pool);

/* Where the end of the journal is, and the part before it, unless @seq is 0. */
struct rd_journal_end {
	u64 frame;
	unsigned int block;
	u64 seq;
	u64 generation;
	u64 dump_blocks;
	u64 last_frame;
	unsigned int last_block;
	u32 last_crc;
};

/* The catalog @sql is in step with the journal that @super names, up to @end. */
int rd_journal_put_end(struct rd_sql *sql, const struct rd_pool_super *super,
		       const struct rd_journal_end *end);

struct rd_change;

/* What to call for each change, and for each frame it goes on in; or NULL. */
struct rd_journal_reader {
	int (*change)(void *ctx, const struct rd_change *change);
	int (*frame)(void *ctx, u64 frame);
	void *ctx;
};

/* Read the journal from @end on, and move @end to its end. */
int rd_journal_read(const struct rd_area *area, struct rd_journal_end *end,
		    const struct rd_journal_reader *reader);

/* Does something of the journal come after @end, which cannot be read? */
int rd_journal_is_cut(const struct rd_area *area, const struct rd_journal_end *end,
		      bool *ret);

#endif
