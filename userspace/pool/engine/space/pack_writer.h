/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places and numbers for packs that a session writes: one behind the other, in frames that it
 * has reserved, and with fingerprints in order. The first pack goes on where an earlier session
 * has ended, if there is room.
 *
 *	rd_pack_writer_take()	for each pack, which the caller then writes
 *	rd_pack_writer_commit()	in the transaction that inserts packs, once these are stable
 *	rd_pack_writer_end()	in the last transaction, if all went well
 *
 * If not all went well, rd_filling_leave_all() gives back what was taken.
 */
#ifndef RD_PACK_WRITER_H
#define RD_PACK_WRITER_H

#include "base/buffer.h"
#include "pool/data/pack.h"
#include "pool/pool.h"

struct rd_pack_writer {
	struct rd_pool *pool;
	bool may_fill_up;	/* the last frames of the pool as well: for what frees others */
	u64 at, end;		/* places, of frames in a row */
	bool has_fps;
	u64 fps;		/* frame of the fingerprints, */
	struct rd_slots free;	/* its slots that may be written to, */
	unsigned int page;	/* and where to look for the next ones */
	struct rd_buffer left;	/* u64 frames that are full, and still reserved */
};

void rd_pack_writer_begin(struct rd_pack_writer *writer, struct rd_pool *pool,
			  bool may_fill_up);

/*
 * Find a place and a number for a pack of @pack->blocks blocks. Not in a transaction.
 * -ENOSPC: the pool is full.
 */
int rd_pack_writer_take(struct rd_pack_writer *writer, struct rd_pack *pack);

/* The same for a pack that has a number. */
int rd_pack_writer_place(struct rd_pack_writer *writer, unsigned int blocks, u64 *ret_place);

int rd_pack_writer_commit(struct rd_pack_writer *writer);
int rd_pack_writer_end(struct rd_pack_writer *writer);
void rd_pack_writer_free(struct rd_pack_writer *writer);

#endif
