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
 *	48  8  the session that wrote it, see sessions.h; 0: not known
 *	56  4  the CRC of the part before, also of the last one of the journal before; 0: not known
 *	60  4  zeros
 *	64     payload: changes, see changes.h
 *
 * It begins with the rows of all tables (DUMP, until the first part of another
 * kind), then has the changes of each transaction. Its end is the first block that is
 * not the next part: a part that a crash tore does not count. A link takes
 * one block, and the last block of a frame is kept for it. Each frame is zeros,
 * stable, before a link leads there: anything else after the end is a part
 * that is damaged, and never what a disk had from an earlier life.
 *
 * The order of writes: a transaction commits, with its changes in the outbox;
 * these are appended and flushed; then they leave the outbox. So the journal is
 * never ahead of the catalog, and a catalog that is behind the journal is an
 * older one, put back by a user. As the changes leave the outbox, the catalog notes
 * the last part, which is stable: a data area without that part is the
 * older one. Nothing is freed before the journal knows that it is not in use.
 *
 * The catalog has the changes of content that the data area must have. So content is
 * flushed together with a mark, a part of CHANGES without payload, and the catalog notes
 * that part before it refers to the content: a data area without the mark may lack the
 * content as well. A mark tells twins apart, which are copies of a pool that went on
 * separately: its session is random, and each part has the CRC of the one before. Before a
 * command undoes the work of sessions that have died, it writes a mark, and so no other
 * catalog that knew of this work counts as that of the data area from then on.
 *
 * When the changes are longer than the dump, a new journal is begun in other
 * frames, and the superblock points at it once all of it is stable.
 *
 * journal_part	a part: format, checksum
 * journal_read	read it, with or without a catalog
 * journal		append to it, begin a new one
 * journal_life	compare it with the catalog
 */
#ifndef RD_JOURNAL_H
#define RD_JOURNAL_H

#include "pool/pool.h"

/*
 * Append everything that is committed to the journal, and flush the data area: all that was
 * written to it before is stable, too. Where a killed command has left parts of a transaction
 * behind the end, begin a new journal if there is room then.
 */
int rd_journal_flush(struct rd_pool *pool);

/*
 * The same, and a mark: the catalog may refer to what was written to the data area before.
 */
int rd_journal_mark(struct rd_pool *pool);

/*
 * Begin a new journal with all rows of the catalog, and free the old one. @nr_frames: with that
 * journal the pool has so many frames: one superblock names both, and the catalog learns both in
 * one transaction; the caller has the pool alone. 0: as many as now. -ENOSPC, after a message: no
 * frames are free for it, and the old one stays in use.
 */
int rd_journal_renew(struct rd_pool *pool, u64 nr_frames);

/*
 * Make the catalog follow the journal that the superblock names. -ESTALE: that journal
 * belongs to another catalog.
 */
int rd_journal_follow(struct rd_pool *pool);

#endif
