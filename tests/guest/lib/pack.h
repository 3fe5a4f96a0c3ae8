/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make packs (kernel/pack_format.h) for the pool of a test. Errors end the program.
 */
#ifndef RDT_PACK_H
#define RDT_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/pack_format.h"

struct pack {
	struct dmr_pack_head head;
	size_t len;			/* so far */
	unsigned int nr_groups;
	u8 bytes[2 * DMR_SEG_BLOCKS * DMR_BLOCK_SIZE];
};

/* The pack of no frame in particular, and of the pool without a UUID. */
void pack_begin(struct pack *pack);
/* What zstd makes of @from: how long that is. @to has room for a group, whatever @from is. */
size_t pack_compress(const void *from, size_t len, void *to, bool checksum);
/* Add the next group as it is to be stored: where it begins in bytes. */
size_t pack_store(struct pack *pack, u16 slots, const void *from, size_t len,
		  enum dmr_codec codec);
/* Add the next group, which has @slots: @blocks are theirs, one behind the other. */
void pack_add(struct pack *pack, u16 slots, const void *blocks, enum dmr_codec codec);
/* All groups are there: how many blocks of a pool the pack takes. */
unsigned int pack_end(struct pack *pack);

#endif
