/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of a receiver share: receive.c (which versions are taken), receive_feed.c (the
 * conversation about one of them, which feeds a snapshot) and receive_find.c (what the pool has).
 *
 * Segments that the sender has named are in a queue until the snapshot takes them, in order:
 *
 *	head       told       tail
 *	 |  TOLD    |  NAMED   |
 *
 * told: BLOCKS has come, of those that are lacking.
 */
#ifndef RD_RECEIVER_H
#define RD_RECEIVER_H

#include <openssl/evp.h>
#include <zstd.h>

#include "pool/data/map.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/read/resolve.h"
#include "pool/engine/snapshot/feed.h"
#include "pool/index/lookup.h"
#include "receive.h"
#include "sender.h"

/* A sender that names or tells more is not ours. */
#define RD_RECEIVE_QUEUE	RD_SEND_QUEUE
#define RD_RECEIVE_BLOCKS	(RD_SEND_BLOCKS + RD_SEG_BLOCKS)

enum rd_arriving_state {
	RD_ARRIVING_ZEROS,
	RD_ARRIVING_LACKING,	/* BLOCKS is to come */
	RD_ARRIVING_PROVE,	/* PROOF is to come: then it is SHARED */
	RD_ARRIVING_SHARED,
	RD_ARRIVING_TOLD,	/* need: DATA is to come */
	RD_ARRIVING_THERE,	/* all that it needs is in the pool */
};

struct rd_arriving {
	struct rd_named named;
	enum rd_arriving_state state;
	struct rd_need need;
	bool is_proven;			/* need.prove */
	bool is_packed;			/* DATA was a pack */
	struct rd_slots before;		/* blocks that are as in the version before */
	unsigned int nr_told;		/* blocks that BLOCKS had */
	rd_place *places;		/* of blocks of the pool; NULL: there is none */
};

struct rd_receiver {
	struct rd_feed feed;		/* first */
	struct rd_pool *pool;
	struct rd_wire *wire;
	const struct rd_receive_options *options;
	struct rd_receive_report *report;
	bool is_file;
	bool trust_nothing;		/* of what the pool has: the sender is asked for all */

	/* What the pool has. */
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	struct rd_blocks *blocks;
	struct rd_index *index;		/* NULL: there is none */
	struct rd_lookup *lookup;
	ZSTD_DCtx *decoder;
	EVP_MD_CTX *digest;
	u8 *data;			/* a segment: of the record, or of a proof */

	/* Of the version that arrives. */
	const char *volume;
	i64 volume_id;
	struct rd_version base;		/* id 0: none */
	struct rd_known offered;
	bool is_delta, has_begun, has_ended;
	unsigned int pieces;
	u8 nonce[RD_NONCE];
	u64 from;			/* all before it has arrived earlier */
	u64 next;			/* no segment before it is named any more */
	u64 zeros;			/* of a version that is no delta: zeros from here on */
	u64 head, told, tail;
	unsigned int nr_told;		/* blocks of BLOCKS from head on */
	struct rd_arriving queue[RD_RECEIVE_QUEUE];
};

static inline struct rd_arriving *rd_arriving_at(struct rd_receiver *receiver, u64 at)
{
	return &receiver->queue[at % RD_RECEIVE_QUEUE];
}

/* --- receive_feed.c */

/* Begin to receive the version that was offered: prepare receiver->feed. */
void rd_receive_feed(struct rd_receiver *receiver, const struct rd_offer *offer);
/* Forget the queue. */
void rd_receive_forget(struct rd_receiver *receiver);

/* --- receive_find.c */

int rd_receive_find_new(struct rd_receiver *receiver);
void rd_receive_find_free(struct rd_receiver *receiver);
/* Open the index. Make it, if there is none, where a volume is new. */
int rd_receive_open_index(struct rd_receiver *receiver);

/* Find a segment that the sender has named. *@ret: what is to be answered. */
int rd_receive_find_segment(struct rd_receiver *receiver, struct rd_arriving *arriving,
			    enum rd_have *ret);
/*
 * Find the blocks of BLOCKS that the pool has, and fill in arriving->need. -EBADMSG: they do not
 * have the fingerprint of the segment.
 */
int rd_receive_find_blocks(struct rd_receiver *receiver, struct rd_arriving *arriving,
			   const struct rd_blocks_of *blocks);
/* Is @proof of a segment whose PROVE, or whose need.prove, it is? 1, 0 or an error. */
int rd_receive_is_proven(struct rd_receiver *receiver, struct rd_arriving *arriving,
			 const u8 proof[32]);
/* Put into @data what the pool has of the segment: all but the blocks of need. */
int rd_receive_fill(struct rd_receiver *receiver, const struct rd_arriving *arriving, u8 *data);

#endif
