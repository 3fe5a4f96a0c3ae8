/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read blocks out of packs (kernel/pack_format.h) of a pool, without its catalog, as the target
 * does: what a head and a group say is compared with what they are.
 */
#ifndef RD_PACK_READ_H
#define RD_PACK_READ_H

#include <linux/types.h>

#include "kernel/format.h"

/* A block to be read. */
struct rd_pack_want {
	u64 head;		/* block of the pool where the head of its pack is */
	unsigned int slot;
	void *to;
};

/* For one thread. */
struct rd_pack_reader;

/* @uuid: of the pool; zeros: not known. NULL: out of memory. */
struct rd_pack_reader *rd_pack_reader_new(int pool_fd, u64 pool_blocks,
					  const u8 uuid[DMR_UUID_SIZE]);
void rd_pack_reader_free(struct rd_pack_reader *reader);

/*
 * Read @nr blocks of one pack, in the order of their slots. Returns 0, or -errno of a read, or
 * -EBADMSG: what is there is damaged, or no pack of this pool, or -EOPNOTSUPP: a later program
 * stored it.
 */
int rd_pack_read(struct rd_pack_reader *reader, const struct rd_pack_want *wants, unsigned int nr);

/* Return what went wrong in the last call, a sentence. */
const char *rd_pack_read_what(const struct rd_pack_reader *reader);

#endif
