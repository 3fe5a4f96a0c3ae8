/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The use of each frame: the tables extent, reserved, packing, kept and queue of the
 * catalog. A frame is
 *
 *	free		in an extent
 *	reserved	a session may write to it, where nobody has a slot of it
 *	used		recipes or packs have some of its slots (owners.h)
 *	the journal's
 *	kept		for another state of the pool: see rd_frames_keep()
 *
 * Slots that lost their recipe are in the queue until they are given back. The frame that
 * compaction fills next is a used frame that is in the table packing as well.
 *
 * The caller is in a transaction.
 */
#ifndef RD_FRAMES_H
#define RD_FRAMES_H

#include "pool/data/slots.h"
#include "db.h"

/* Read a row that is one frame, or below, a run of frames. */
int rd_next_frame(struct rd_row *rows, u64 *ret);

struct rd_extent {
	u64 start, len;
};

int rd_next_extent(struct rd_row *rows, struct rd_extent *ret);

/*
 * Reserve up to @want free frames in a row for @session. Of the @nr_frames of the pool some stay
 * free so that frames can be freed at all: for the growth of the journal, for the new journal that
 * replaces it, and for compaction; 0: for the journal, none. -ENOSPC: no more are free. -EUCLEAN,
 * after a message: a frame that is listed as free is in use.
 */
int rd_frames_reserve(struct rd_sql *sql, i64 session, u64 want, u64 nr_frames, u64 *ret_start,
		      u64 *ret_len);

/*
 * As many as a pool of so many frames keeps, two, stay free of what compaction takes: before it has
 * freed anything the journal may have to grow, when its blocks are copied and when they have moved.
 */
#define RD_FRAMES_FEW	8

/* Which @nr_frames rd_frames_reserve() is to take for a pool of so many. */
static inline u64 rd_frames_limit(u64 nr_frames, bool may_fill_up)
{
	return may_fill_up ? rd_min(nr_frames, RD_FRAMES_FEW) : nr_frames;
}

/* Turn @frame from a reserved frame into one that recipes use. */
int rd_frames_use(struct rd_sql *sql, u64 frame);

/* May a session write to @frame? */
int rd_frames_is_reserved(struct rd_sql *sql, u64 frame, bool *ret);

/* Free frames that are reserved and were never written to. */
int rd_frames_return(struct rd_sql *sql, u64 start, u64 len);

/*
 * Reserve a frame that is in use for @session, which writes to slots that nobody has: see
 * filling.h. -EBUSY: another session has it, or it is kept.
 */
int rd_frames_reserve_used(struct rd_sql *sql, i64 session, u64 frame);

/* Forget what @session has reserved. */
int rd_frames_unreserve_all(struct rd_sql *sql, i64 session);

/* --- free frames */

/* Free frames that hold no data and have no slot in the queue. */
int rd_frames_free(struct rd_sql *sql, u64 start, u64 len);

/* Ask for the runs of free frames: rd_next_extent(). */
int rd_frames_extents(struct rd_sql *sql, struct rd_row **ret);

/* Begin a rebuilt catalog: no frame is free until rd_frames_free() frees it. */
int rd_frames_forget_free(struct rd_sql *sql);

int rd_frames_nr_free(struct rd_sql *sql, u64 *ret);

/* --- the queue */

/* Queue slots that no recipe uses any more; @slots may be empty. */
int rd_frames_queue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots);
int rd_frames_queue_whole(struct rd_sql *sql, u64 frame);

/*
 * Count the slots of ordinary frames in the queue; count its frames; find the queued slots of
 * @frame.
 */
int rd_frames_queued(struct rd_sql *sql, u64 *ret);
int rd_frames_nr_queued(struct rd_sql *sql, u64 *ret);
int rd_frames_queued_of(struct rd_sql *sql, u64 frame, struct rd_slots *ret);

/* --- frames that are kept */

/*
 * Keep the content of @frame for another state of the pool (see adopt.h): the frame is
 * not reserved or filled, and slots that this state does not use are not freed. It may still be
 * the journal's, or what a session that died has reserved: when these leave it, it stays kept.
 */
int rd_frames_keep(struct rd_sql *sql, u64 frame);
/* The same for all that are left of @rows: see rd_next_frame(). */
int rd_frames_keep_all(struct rd_sql *sql, struct rd_row *rows);

/* Ask for those that are kept, of a pool of so many. */
int rd_frames_kept(struct rd_sql *sql, struct rd_row **ret, u64 nr_frames);
int rd_frames_is_kept(struct rd_sql *sql, u64 frame, bool *ret);
int rd_frames_nr_kept(struct rd_sql *sql, u64 *ret);

/* Stop keeping those that the journal still has, then the first of the others. -ENOENT: none. */
int rd_frames_unkeep_journal(struct rd_sql *sql);
int rd_frames_unkeep(struct rd_sql *sql, u64 *ret_frame);

/* --- the frame that compaction fills */

/* Find the packing frame and its next slot. -ENOENT: no frame, or not @frame, is packing. */
int rd_packing_find(struct rd_sql *sql, u64 *ret_frame, unsigned int *ret_next);
int rd_packing_next(struct rd_sql *sql, u64 frame, i64 *ret_next);

/* Stop filling the packing frame; then begin to fill @frame from slot @next on. */
int rd_packing_end(struct rd_sql *sql);
int rd_packing_begin(struct rd_sql *sql, u64 frame, unsigned int next);

/* --- the use of frames */

/* Ask for the frames of recipes and of the journal, in order: rd_next_named(). */
int rd_frames_named(struct rd_sql *sql, struct rd_row **ret);
int rd_next_named(struct rd_row *rows, u64 *ret_frame, bool *ret_by_recipes);

/* Ask for the same frames and those in the queue: rd_next_frame(). */
int rd_frames_not_free(struct rd_sql *sql, struct rd_row **ret);

/* Count the frames that the catalog knows: each frame of the pool is in one of its tables. */
int rd_frames_nr_known(struct rd_sql *sql, i64 *ret);

/* Free those of the @nr_frames of the superblock that the catalog does not know yet. */
int rd_frames_free_new(struct rd_sql *sql, u64 nr_frames);

/* A frame in the queue: @slots are to be freed, and recipes and packs use @live others. */
struct rd_queued {
	u64 frame;
	struct rd_slots slots;
	unsigned int live;
	bool has_fps;		/* of packs, which cannot move */
};

/*
 * Read the first frames of the queue from @first on, up to @max, in order: ordinary ones below
 * RD_PACKED_FRAMES, or packed ones. What a session fills counts as live.
 */
int rd_frames_read_queue(struct rd_sql *sql, u64 first, struct rd_queued *queued,
			 unsigned int max, unsigned int *ret_nr);
/* Take slots that have been freed from the queue; others may have been queued since. */
int rd_frames_unqueue(struct rd_sql *sql, u64 frame, const struct rd_slots *slots);
/* Take a frame whose slots are all freed from the queue, and free the frame. */
int rd_frames_unqueue_whole(struct rd_sql *sql, u64 frame);
/* Does compaction fill @frame? */
bool rd_frames_is_packing(struct rd_sql *sql, u64 frame);

/* Find the first run of frames from @from on that @session has reserved. -ENOENT. */
int rd_frames_reserved(struct rd_sql *sql, i64 session, u64 from, u64 *ret_start,
		       u64 *ret_len);
/* Count the slots of @frame, which may be packed, that recipes and packs have. */
int rd_frames_count_live(struct rd_sql *sql, u64 frame, unsigned int *ret);
/* Does a recipe own a slot of @frame? */
int rd_frames_is_owned(struct rd_sql *sql, u64 frame, bool *ret);

#endif
