/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prove the blocks that stay where others are given up for them.
 *
 * A block is given up only against one that was proven in the same command: the command has
 * written it, and the flush behind that has ended, or the command reads it from the disk, and it
 * has the fingerprint that is wanted. One that has rotted takes no sound block with it, and both
 * stay. What a fingerprint beside a block says proves nothing of the block.
 *
 * What was written and flushed is not read again. A read would be answered from a cache of the
 * disk, mostly, and proves no more than the flush does: a disk that lies about both is found out
 * by a scrub.
 */
#ifndef RD_KEEPERS_H
#define RD_KEEPERS_H

#include "base/buffer.h"
#include "base/pace.h"
#include "pool/data/fp.h"
#include "pool/data/map.h"
#include "pool/pool.h"

/* How many are read together, 4 MiB. */
#define RD_KEEPERS	1024

struct rd_keeper {
	rd_place at;		/* OWN */
	struct rd_fp fp;
	bool is_sound;		/* it was read, and has @fp */
};

struct rd_keepers;

/* NULL: out of memory. */
struct rd_keepers *rd_keepers_new(struct rd_pool *pool);
void rd_keepers_free(struct rd_keepers *keepers);

/*
 * Read @nr keepers, at most RD_KEEPERS, and sort @list in the order of places. Several may be at
 * one place. What cannot be read is not sound; -ENOMEM.
 */
int rd_keepers_read(struct rd_keepers *keepers, struct rd_keeper **list, unsigned int nr,
		    struct rd_pace *pace);

/* --- what a command has written */

/* Frames that a command has filled from the beginning, raw and packed ones. */
struct rd_written {
	struct rd_buffer runs;	/* struct rd_written_run each */
	bool is_sorted;
};

/* Add a frame. Those that follow each other take no memory. */
void rd_written_add(struct rd_written *written, u64 frame);
/* Has the command written @frame? What does not fit into memory was not. */
bool rd_written_has(struct rd_written *written, u64 frame);
void rd_written_free(struct rd_written *written);

#endif
