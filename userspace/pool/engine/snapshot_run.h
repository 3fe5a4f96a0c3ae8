/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A snapshot that is being taken: what its files share, and nothing else uses.
 *
 *	snapshot	from the lock of the volume to the version that exists
 *	snapshot_read	buffers: read, fingerprint, decide
 *	snapshot_store	which content is new, and committing it in batches
 *	snapshot_write	write it, raw or as packs
 *	snapshot_plan	which segments are read
 *	source		the image
 */
#ifndef RD_SNAPSHOT_RUN_H
#define RD_SNAPSHOT_RUN_H

#include "pool/catalog/frames.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "pack_writer.h"
#include "snapshot.h"
#include "snapshot_plan.h"
#include "source.h"

#define RD_SNAPSHOT_BUFFERS	20
#define RD_SNAPSHOT_BATCH	2048
#define RD_SNAPSHOT_HASH	(2 * RD_SNAPSHOT_BATCH)
#define RD_NO_FRAME		U64_MAX

/* A segment that is decided upon, and not committed yet. */
struct rd_snapshot_item {
	u64 segment;
	i64 old;		/* the recipe that the version before has here */
	bool is_same;		/* unchanged: only its quick sum is stored */
	bool is_zero;
	u64 quick;
	u64 frame;		/* where it was written, or RD_NO_FRAME: the pool has it */
	struct rd_pack pack;	/* of a packed frame */
	struct rd_seg_fp fp;
	struct rd_slots nonzero;
};

struct rd_snapshot_run;

enum rd_snapshot_buffer_state {
	RD_BUFFER_FREE,
	RD_BUFFER_BUSY,		/* is read or fingerprinted */
	RD_BUFFER_READY,		/* to be decided upon */
	RD_BUFFER_WRITING,
};

struct rd_snapshot_buffer {
	struct rd_snapshot_run *snapshot;
	enum rd_snapshot_buffer_state state;
	u64 segment;
	i64 old;
	bool is_audit;
	bool has_fp;		/* old_fp: of what was here before */
	bool has_sum;		/* the same of old_sum */
	bool is_same;		/* by the sum, and the fingerprints are not known */
	u64 old_sum, quick;
	u8 *data;		/* a segment */
	struct rd_fp *fps;	/* of its blocks */
	struct rd_seg_fp fp, old_fp;
	size_t skip, len;	/* the rest, before and behind, is a hole, and not read */
	struct rd_op read;
	struct iovec read_iov;
	struct rd_job job;
	struct rd_snapshot_item *item;	/* that it is written for */
	u8 *pack;		/* RD_PACK_MAX */
	struct rd_pack_head head;
	size_t pack_len;	/* 0: it is of no use */
	unsigned int writes;
	struct rd_op ops[RD_SEG_BLOCKS / 2 + 1];
	struct iovec iovs[RD_SEG_BLOCKS / 2 + 1];
};

/* One snapshot that is being taken. */
struct rd_snapshot_run {
	struct rd_pool *pool;
	const struct rd_snapshot_options *options;
	struct rd_snapshot_report *report;
	struct rd_version *version;
	struct rd_version base;		/* the version before; id 0: none */
	struct rd_hasher *hasher;
	struct rd_resolver *resolver;
	struct rd_source source;
	struct rd_snapshot_plan plan;
	int r;				/* the first error */

	struct rd_ring *ring;
	struct rd_workers *workers;
	u8 *data;			/* of all buffers */
	u8 *packs;			/* the same; NULL: nothing is compressed */
	struct rd_compression compression;
	struct rd_pack_writer writer;
	struct rd_fp *fps;
	/* The last one is not for the pipeline. */
	struct rd_snapshot_buffer *buffers[RD_SNAPSHOT_BUFFERS + 1];
	/* Those that are not decided upon, in the order of the image. */
	struct rd_snapshot_buffer *order[RD_SNAPSHOT_BUFFERS];
	unsigned int first, nr;

	/* Frames that may be written to. */
	u64 frame, frame_end;

	unsigned int nr_items;
	struct rd_snapshot_item items[RD_SNAPSHOT_BATCH];
	u32 by_fp[RD_SNAPSHOT_HASH];		/* number of the item + 1 */
	bool written;			/* since the last flush */
};

/* --- snapshot_read.c */

/* Read all that the plan has, decide upon it, and commit it. */
int rd_snapshot_read(struct rd_snapshot_run *s);

/* --- snapshot_store.c */

/* Add an item to the batch, which has room for one. */
struct rd_snapshot_item *rd_snapshot_add_item(struct rd_snapshot_run *s, u64 segment, i64 old);

/*
 * Add an item with the content of @buffer, which comes from an earlier item, from the
 * pool, or, always if @must_write, from a new frame that the buffer is written to.
 */
int rd_snapshot_store(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      bool must_write);

/* Commit the batch, once its writes are stable. */
int rd_snapshot_commit(struct rd_snapshot_run *s);

/* --- snapshot_write.c */

/*
 * Write @buffer for @item, which gets to know where. Where it is compressed first, that, and an
 * error of it, comes later.
 */
int rd_snapshot_write(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      struct rd_snapshot_item *item);

/* Wait until all writes have ended. */
int rd_snapshot_drain(struct rd_snapshot_run *s);

#endif
