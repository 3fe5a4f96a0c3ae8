/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A snapshot that is being taken: what its files share, and nothing else uses.
 *
 *	snapshot	from the lock of the volume to the version that exists
 *	snapshot_group	versions of several volumes, which begin to exist together
 *	snapshot_read	buffers: read, fingerprint, decide
 *	snapshot_feed	buffers that are filled from elsewhere
 *	snapshot_store	which content is new, and committing it in batches
 *	snapshot_pieces	changed segments that are stored in part
 *	snapshot_hits	what the pool has of them anywhere
 *	snapshot_write	write it, raw or as packs
 *	snapshot_plan	which segments are read
 *	source		the image
 */
#ifndef RD_SNAPSHOT_RUN_H
#define RD_SNAPSHOT_RUN_H

#include "pool/catalog/frames.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "pool/engine/read/keepers.h"
#include "pool/engine/read/source.h"
#include "pool/engine/space/pack_writer.h"
#include "feed.h"
#include "snapshot.h"
#include "snapshot_plan.h"

#define RD_SNAPSHOT_BUFFERS	20
#define RD_SNAPSHOT_SPARE	3
#define RD_SNAPSHOT_BATCH	2048
/* Items with a map: each takes memory, and many reads of the transaction that commits. */
#define RD_SNAPSHOT_MAPS	256
#define RD_SNAPSHOT_HASH	(2 * RD_SNAPSHOT_BATCH)
#define RD_NO_FRAME		U64_MAX

/* A frame that is written: a segment as it is, or blocks of many, one behind the other. */
struct rd_snapshot_frame {
	u64 nr;			/* RD_NO_FRAME: none */
	struct rd_pack pack;	/* of a packed frame */
	struct rd_slots slots;	/* that it has */
	bool is_dense;		/* of many segments */
};

/* A segment that is decided upon, and not committed yet. */
struct rd_snapshot_item {
	u64 segment;
	i64 old;		/* the recipe that the version before has here */
	bool is_same;		/* unchanged: only its quick sum is stored */
	bool is_zero;
	u64 quick;		/* 0: not known */
	struct rd_snapshot_frame to;	/* none: see @map, or the pool has it */
	struct rd_map *map;	/* of a segment that is written in part: see snapshot_pieces.c */
	struct rd_fp *fps;	/* of its blocks, if some were found elsewhere in the pool */
	struct rd_seg_fp fp;
};

/* What the version before has in a segment: is_good: that is certain. */
struct rd_snapshot_before {
	bool is_good;
	struct rd_map map;	/* resolved */
	struct rd_seg_fp fp;
	struct rd_fp fps[RD_SEG_BLOCKS];
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
	struct rd_feed_segment fed;	/* by a feed */
	bool has_fp;		/* old_fp: of what was here before */
	bool has_sum;		/* the same of old_sum */
	bool is_same;		/* by the sum, and the fingerprints are not known */
	u64 old_sum, quick;
	u8 *data;		/* a segment */
	struct rd_fp *fps;	/* of its blocks */
	struct rd_seg_fp fp, old_fp;
	unsigned int first, end;	/* blocks that the list of changes has */
	bool is_partial;	/* no others are read: they are what they were */
	size_t skip, len;	/* else the rest, before and behind, is a hole, and not read */
	struct rd_op read;
	struct rd_job job;
	struct rd_snapshot_frame *to;	/* that it is written to */
	u8 *pack;		/* RD_PACK_MAX */
	struct dmr_pack_head head;
	size_t pack_len;	/* 0: it is of no use */
	unsigned int writes;
	struct rd_op ops[RD_SEG_BLOCKS / 2 + 1];
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
	u8 *packs;			/* the same; NULL: nothing is, or comes, compressed */
	struct rd_compression compression;
	struct rd_pack_writer writer;
	struct rd_fp *fps;
	/* The last ones are not for the pipeline: for what is read again, and for dense frames. */
	struct rd_snapshot_buffer *buffers[RD_SNAPSHOT_BUFFERS + RD_SNAPSHOT_SPARE];
	/* Those that are not decided upon, in the order of the image. */
	struct rd_snapshot_buffer *order[RD_SNAPSHOT_BUFFERS];
	unsigned int first, nr;

	/* Frames that may be written to. */
	u64 frame, frame_end;

	unsigned int nr_items, nr_maps;
	struct rd_snapshot_item items[RD_SNAPSHOT_BATCH];
	u32 by_fp[RD_SNAPSHOT_HASH];		/* number of the item + 1 */
	struct rd_rule rule;
	struct rd_snapshot_before before;	/* of the segment that is decided upon */
	/* Dense frames of the batch; the last one is being filled if @filling is not NULL. */
	unsigned int nr_dense, next_slot;
	struct rd_snapshot_frame dense[RD_SNAPSHOT_BATCH];
	struct rd_snapshot_buffer *filling;
	struct rd_snapshot_hits *hits;	/* NULL: there is no index */
	bool written;			/* since the last flush */
	struct rd_written *stable;	/* frames that are written, and stable once it exists */
	u64 fed;			/* bytes of the feed when a batch was committed last */
};

/* --- snapshot.c */

/* A version whose content is in the pool, and the lock of its volume. */
struct rd_snapshot_copy {
	struct rd_pool *pool;
	const struct rd_snapshot_options *options;
	struct rd_snapshot_report *report;
	struct rd_lock lock;
	struct rd_snapshot_hits *hits;
	struct rd_written written;
	u64 mark;			/* when the last step ended */
};

/* Copy all of it: the version exists now, or waits. What an error leaves, release() drops. */
int rd_snapshot_copy(struct rd_pool *pool, const struct rd_snapshot_options *options,
		     struct rd_snapshot_report *report, struct rd_snapshot_copy *ret);
void rd_snapshot_release(struct rd_snapshot_copy *copy);
/*
 * The version exists: store what the index learned; unless @r is an error, reverse. Releases it,
 * as all locks of volumes must be dropped before anything is freed: a lease that ends then has
 * rd_finish_volumes() lock volumes, and this command would get its own locks once more.
 */
int rd_snapshot_settle(struct rd_snapshot_copy *copy, int r);
/* Unless @r is an error, free. */
int rd_snapshot_free(struct rd_snapshot_copy *copy, int r);

/* Can nothing be read again? Then what the pool had and lost meanwhile ends it: -EAGAIN. */
static inline bool rd_snapshot_is_once(const struct rd_snapshot_run *s)
{
	return s->options->feed || (s->source.store && s->source.store->is_once);
}

/* --- snapshot_read.c */

/* Read all that the plan has, decide upon it, and commit it. */
int rd_snapshot_read(struct rd_snapshot_run *s);

/* Read all of @segment into @buffer, and fingerprint that, once more, and now. */
int rd_snapshot_read_again(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
			   u64 segment);

/* A buffer that nothing uses, or NULL. */
struct rd_snapshot_buffer *rd_snapshot_free_buffer(struct rd_snapshot_run *s);
/* Take @buffer for @segment, behind those that are not decided upon. */
void rd_snapshot_queue(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer, u64 segment,
		       bool is_audit);
/* Give it to a thread that fingerprints it. */
void rd_snapshot_fingerprint(struct rd_snapshot_buffer *buffer);
/* Note a segment of zeros, which needs no reading: an item if it was not zeros before. */
int rd_snapshot_take_zeros(struct rd_snapshot_run *s, u64 segment, bool is_audit);
/*
 * Count the blocks that differ from the version before, s->before. The number is only reported,
 * and so nothing fails where that version cannot be read.
 */
u64 rd_snapshot_count_changed(const struct rd_snapshot_run *s, const struct rd_fp *fps);
/* Decide upon the buffers that are ready, in order. */
int rd_snapshot_decide(struct rd_snapshot_run *s);

/* --- snapshot_feed.c */

/* Take all that the feed has, decide upon it, and commit it. */
int rd_snapshot_feed(struct rd_snapshot_run *s);

/* Decide upon @buffer, which is not content: the next one in order. */
int rd_snapshot_decide_fed(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer);
/* Is @buffer what the feed said? -EBADMSG. */
int rd_snapshot_check_fed(const struct rd_snapshot_run *s,
			  const struct rd_snapshot_buffer *buffer);

/* --- snapshot_store.c */

/* Has the batch no room for one more item? */
static inline bool rd_snapshot_is_full(const struct rd_snapshot_run *s)
{
	return s->nr_items == RD_SNAPSHOT_BATCH || s->nr_maps == RD_SNAPSHOT_MAPS;
}

/* Add an item to the batch, which has room for one. */
struct rd_snapshot_item *rd_snapshot_add_item(struct rd_snapshot_run *s, u64 segment, i64 old);

/*
 * Add an item with the content of @buffer, which comes from an earlier item, from the
 * pool, or, always if @must_write, from a new frame that the buffer is written to.
 * -EAGAIN: nothing was added, for it has to be written, and was read in part.
 */
int rd_snapshot_store(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      bool must_write);

/* Commit the batch, once its writes are stable. */
int rd_snapshot_commit(struct rd_snapshot_run *s);

/* --- snapshot_pieces.c */

/* Read into s->before what recipe @old has, 0: zeros. */
void rd_snapshot_read_before(struct rd_snapshot_run *s, i64 old);

/*
 * Store of @buffer only what differs from s->before, if that makes few pieces: @item gets a map.
 * Else it has none, and nothing was stored. -EAGAIN: the same, and some of it was not read.
 */
int rd_snapshot_store_part(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
			   struct rd_snapshot_item *item);

/* Forget the map of an item. */
void rd_snapshot_drop_part(struct rd_snapshot_item *item);

/* Start writing the last dense frame, however full. */
int rd_snapshot_flush_dense(struct rd_snapshot_run *s);

/*
 * In the transaction that commits the batch: compute the map of an item in part. -EAGAIN: what
 * it refers to is not there any more.
 */
int rd_snapshot_map_part(struct rd_snapshot_run *s, const struct rd_snapshot_item *item,
			 struct rd_map *ret);

/* The same: use the dense frames, once the items are committed. */
int rd_snapshot_use_dense(struct rd_snapshot_run *s);

/* --- snapshot_hits.c: inline deduplication */

/* Open the index, if there is one or the rule wants one, and make it where it is missing. */
int rd_snapshot_hits_begin(struct rd_snapshot_run *s);
/* Once the version exists: store what was added to the index. */
void rd_snapshot_hits_end(struct rd_snapshot_hits *hits);
void rd_snapshot_hits_free(struct rd_snapshot_hits *hits);

/* Add what is being written to @frame to the index. */
void rd_snapshot_index(struct rd_snapshot_run *s, const struct rd_slots *slots,
		       const struct rd_fp fps[RD_SEG_BLOCKS], u64 frame);

/* Does the rule say that the pool is asked for blocks? */
bool rd_snapshot_looks_up(const struct rd_snapshot_run *s);

/*
 * Find where the pool has the @wanted blocks of @buffer: OWN places, or 0. All of these are
 * hints.
 */
int rd_snapshot_find_hits(struct rd_snapshot_run *s, const struct rd_snapshot_buffer *buffer,
			  const struct rd_slots *wanted, rd_place places[RD_SEG_BLOCKS]);

/*
 * In the transaction that commits, when it begins, and after maps have changed: owners may be
 * others.
 */
void rd_snapshot_forget_owners(struct rd_snapshot_run *s);
/* The same, after a recipe with @map was inserted: it is an owner as well. */
void rd_snapshot_add_owner(struct rd_snapshot_run *s, i64 recipe, const struct rd_map *map);

/*
 * In the transaction that commits: find the entry of a recipe that is at @place, and certainly
 * has the fingerprint @fp, as REF. -EAGAIN: there is none any more.
 */
int rd_snapshot_check_hit(struct rd_snapshot_run *s, rd_place place, const struct rd_fp *fp,
			  rd_place *ret);

/* --- snapshot_write.c */

/*
 * Write the slots of @to, which are in @buffer. Where they are compressed first, @to gets to
 * know where they are, and an error of it comes, later.
 */
int rd_snapshot_write(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer,
		      struct rd_snapshot_frame *to);

/* Wait until @buffer is not being written any more. */
int rd_snapshot_wait(struct rd_snapshot_run *s, struct rd_snapshot_buffer *buffer);

/* Wait until all writes have ended. */
int rd_snapshot_drain(struct rd_snapshot_run *s);

#endif
