/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places that are about to be freed, which devices are asked to leave (lease.h): slots of ordinary
 * frames, and what lies in them, which may be a part of a pack.
 */
#ifndef RD_DOOMED_H
#define RD_DOOMED_H

#include "pool/data/area.h"

#define RD_DOOMED_PACKS	256

/* Places that are about to be freed: blocks of 4 KiB of the data area. */
struct rd_doomed {
	const struct rd_area *area;
	u64 first, last;		/* the lowest and the highest */
	unsigned int nr;
	struct rd_doomed_frame {	/* in order; at least a slot of each */
		u64 frame;
		struct rd_slots slots;
		bool is_kept;		/* not to be freed after all, for now */
	} *frames;
	/* Packs whose heads were read: a table names the same ones again and again. */
	struct {
		u64 block;
		u64 nr;			/* of blocks; 0: none */
	} packs[RD_DOOMED_PACKS];
};

bool rd_doomed_has(const struct rd_doomed *doomed, u64 block);

/* Keep the frame of @block, if that is doomed, in the queue: a device names it. */
void rd_doomed_keep(struct rd_doomed *doomed, u64 block);

/*
 * The same for the pack that begins with @block, which is all that a device knows of it. It may
 * end in another frame, and only that one be doomed: how long it is, its head says.
 */
bool rd_doomed_has_pack(struct rd_doomed *doomed, u64 block);
void rd_doomed_keep_pack(struct rd_doomed *doomed, u64 block);
/* No pack is longer: one with a block that is doomed may begin so far before it. */
#define RD_DOOMED_BEFORE	(RD_PACK_MAX / RD_BLOCK_SIZE - 1)

#endif
