// SPDX-License-Identifier: GPL-2.0
/*
 * Give back what is in the queue:
 *
 *	1. a frame in which something lives is emptied into packed frames where
 *	   that costs less than the holes would (then all of it is in the queue)
 *	2. the journal is made to know all that was committed
 *	3. devices that read the data area leave the places (see lease.h)
 *	4. the places are given back to the file system
 *	5. one transaction takes them off the queue, and whole frames are free
 *
 * A crash leaves the queue as it is, and giving back twice does no harm: until
 * step 5 nobody can get these places. Where a device cannot be reached nothing
 * happens at all, and the queue waits for a later command.
 */
#include <errno.h>

#include "base/broken.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "compact.h"
#include "engine.h"
#include "journal.h"
#include "lease.h"

/* Frames at a time. Of the first few it is learned what a hole costs. */
#define FIRST_BATCH	4
#define BATCH		8192
/* How often one that gives back looks for what others have queued meanwhile. */
#define MAX_TURNS	8

/*
 * What they cost, to begin with. A hole splits an extent: 5 us in memory, 70 on
 * ext4, some ms where each is discarded on a disk at once. A slot is read and
 * written among many.
 */
#define HOLE_US		70
#define MOVE_US		6

struct entry {
	u64 frame;
	unsigned int live;	/* slots that are recipes' */
	bool waits;		/* for room to move what lives */
	struct rd_slots slots;
};

struct freeing {
	struct rd_pool *pool;
	unsigned int nr;
	struct entry *entries;
	u64 hole_us;		/* of late, */
	u64 move_us;		/* and a slot */
	/* The range that is about to be given back. */
	u64 offset, len;
	bool forgot_lease;
};

/* --- the queue */

static int read_queue(struct freeing *f, unsigned int max)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	f->nr = 0;
	r = rd_sql_ask(f->pool->sql, &row, "SELECT frame, slots,"
		       " (SELECT coalesce(sum(n), 0) FROM slot_owner WHERE slot_owner.frame = queue.frame)"
		       " FROM queue ORDER BY frame LIMIT ?", "i", (i64)max);
	while (!r && (r = rd_row_next(row)) > 0) {
		struct entry *entry = &f->entries[f->nr++];
		const void *slots;
		size_t len;

		entry->frame = rd_row_i64(row, 0);
		entry->live = rd_row_i64(row, 2);
		entry->waits = false;
		slots = rd_row_blob(row, 1, &len);
		if (len != sizeof(entry->slots))
			return rd_err(-EUCLEAN, "the queue of what to free is damaged");
		memcpy(&entry->slots, slots, len);
		r = 0;
	}
	return r;
}

static unsigned int nr_holes(const struct rd_slots *slots)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += rd_slots_test(slots, i) && (!i || !rd_slots_test(slots, i - 1));
	return nr;
}

static bool should_compact(const struct freeing *f, const struct entry *entry)
{
	if (!entry->live)
		return false;
	/* A device has no holes: what is free there is free by frames. */
	if (f->pool->area.is_device)
		return entry->live <= RD_SEG_BLOCKS * 3 / 4;
	return f->hole_us + entry->live * f->move_us < nr_holes(&entry->slots) * f->hole_us;
}

static bool is_packing(struct rd_pool *pool, u64 frame)
{
	i64 one;

	return !rd_sql_number(pool->sql, &one, "SELECT 1 FROM packing WHERE frame = ?", "i",
			      (i64)frame);
}

/*
 * There is no room to move what lives. Holes will do instead, and where there are
 * none the frames stay in the queue: what is freed now is room the next time.
 */
static void do_without(struct freeing *f)
{
	unsigned int i;

	for (i = 0; i < f->nr && f->pool->area.is_device; i++)
		f->entries[i].waits = should_compact(f, &f->entries[i]);
}

/* A few slots say little about what one costs: most of that is to flush once. */
static int compact_now(struct freeing *f, const u64 *frames, unsigned int nr,
		       unsigned int live)
{
	u64 began = rd_now_us();
	int r = rd_compact(f->pool, frames, nr);

	f->move_us = (f->move_us * (2 * RD_COMPACT_SLOTS - live) + rd_now_us() - began) /
		     (2 * RD_COMPACT_SLOTS);
	return r;
}

/* Returns with *@ret_moved whether the queue has changed by it. 1: no room. */
static int compact(struct freeing *f, bool *ret_moved)
{
	u64 frames[RD_COMPACT_SLOTS];
	unsigned int i, nr = 0, live = 0;
	int r = 0;

	*ret_moved = false;
	for (i = 0; i < f->nr && !r; i++) {
		struct entry *entry = &f->entries[i];

		if (!should_compact(f, entry) || is_packing(f->pool, entry->frame))
			continue;
		if (live + entry->live > RD_COMPACT_SLOTS) {
			r = compact_now(f, frames, nr, live);
			nr = 0;
			live = 0;
		}
		frames[nr++] = entry->frame;
		live += entry->live;
		*ret_moved = true;
	}
	if (!r && nr)
		r = compact_now(f, frames, nr, live);
	return r;
}

/* --- devices */

/* On a device what is free is free by frames. */
static bool will_free(const struct freeing *f, const struct entry *entry)
{
	return !entry->waits && !(entry->live && f->pool->area.is_device);
}

static int list_doomed(const struct freeing *f, struct rd_doomed *doomed)
{
	unsigned int i;

	doomed->nr = 0;
	doomed->frames = malloc((f->nr + !f->nr) * sizeof(*doomed->frames));
	if (!doomed->frames)
		return -ENOMEM;
	for (i = 0; i < f->nr; i++) {
		struct rd_doomed_frame *frame = &doomed->frames[doomed->nr];

		if (!will_free(f, &f->entries[i]))
			continue;
		frame->frame = f->entries[i].frame;
		frame->slots = f->entries[i].slots;
		if (!f->entries[i].live)
			memset(&frame->slots, 0xff, sizeof(frame->slots));
		doomed->nr += !rd_slots_are_none(&frame->slots);
	}
	return 0;
}

static void set_bounds(struct rd_doomed *doomed)
{
	const struct rd_doomed_frame *first = doomed->frames;
	const struct rd_doomed_frame *last = first + doomed->nr - 1;
	unsigned int slot = 0;

	while (!rd_slots_test(&first->slots, slot))
		slot++;
	doomed->first = rd_slot_offset(first->frame, slot) / RD_BLOCK_SIZE;
	slot = RD_SEG_BLOCKS - 1;
	while (!rd_slots_test(&last->slots, slot))
		slot--;
	doomed->last = rd_slot_offset(last->frame, slot) / RD_BLOCK_SIZE;
}

static int leave_one(struct freeing *f, const struct rd_lease *lease,
		     const struct rd_doomed *doomed)
{
	struct rd_pool *pool = f->pool;
	int r;

	r = pool->lease_ops ? pool->lease_ops->vacate(pool->lease_ops, pool, lease, doomed) : -ENODEV;
	if (r > 0) {
		f->forgot_lease = true;
		return rd_lease_forget(pool, lease->id);
	}
	/* The version that it reads is not known: that is not the device's fault. */
	if (r == -EUCLEAN)
		return r;
	if (r < 0 && !pool->told_unreachable) {
		rd_info("device '%s' reads the pool and cannot be reached: nothing is given back until a later command can",
			lease->device);
		rd_hint("if it will not come back at all: 'revdedupctl unmap --force %s'",
			lease->device);
		pool->told_unreachable = true;
	}
	return r < 0;
}

static int leave_each(struct freeing *f, const struct rd_buffer *leases)
{
	const struct rd_lease *list = (const struct rd_lease *)leases->data;
	size_t i, nr = leases->len / sizeof(*list);
	struct rd_doomed doomed;
	int r;

	r = list_doomed(f, &doomed);
	if (!r && doomed.nr) {
		set_bounds(&doomed);
		for (i = 0; i < nr && !r; i++)
			r = leave_one(f, &list[i], &doomed);
	}
	free(doomed.frames);
	return r;
}

/*
 * What is in the batch is named by nobody after it: neither by a catalog that can be
 * made of the journal nor by a device. 1: one cannot be reached.
 */
static int settle(struct freeing *f)
{
	struct rd_buffer leases = { 0 };
	int r = 0;

	if (!rd_is_broken(RD_BREAK_PUNCH))
		r = rd_journal_flush(f->pool);
	if (!r)
		r = rd_failpoint("free-vacate");
	if (!r)
		r = rd_lease_list(f->pool->sql, NULL, &leases);
	if (!r && leases.len && !rd_is_broken(RD_BREAK_VACATE))
		r = leave_each(f, &leases);
	rd_buffer_free(&leases);
	return r;
}

/* --- giving back */

static int punch_now(struct freeing *f)
{
	u64 began;
	int r;

	if (!f->len)
		return 0;
	began = rd_now_us();
	r = rd_area_punch(&f->pool->area, f->offset, f->len);
	f->len = 0;
	f->hole_us = (7 * f->hole_us + rd_now_us() - began) / 8;
	return r ? rd_err(r, "cannot give space back") : 0;
}

/* Ranges come in order; those that touch are one. */
static int punch(struct freeing *f, u64 offset, u64 len)
{
	int r;

	if (f->len && f->offset + f->len == offset) {
		f->len += len;
		return 0;
	}
	r = punch_now(f);
	f->offset = offset;
	f->len = len;
	return r;
}

static int punch_slots(struct freeing *f, const struct entry *entry)
{
	unsigned int i, first;
	int r = 0;

	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		if (!rd_slots_test(&entry->slots, i))
			continue;
		first = i;
		while (i < RD_SEG_BLOCKS && rd_slots_test(&entry->slots, i))
			i++;
		r = punch(f, rd_slot_offset(entry->frame, first),
			  (u64)(i - first) * RD_BLOCK_SIZE);
	}
	return r;
}

static int punch_all(struct freeing *f)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < f->nr && !r; i++) {
		const struct entry *entry = &f->entries[i];

		if (entry->waits)
			continue;
		if (!entry->live)
			r = punch(f, rd_frame_offset(entry->frame), RD_SEG_SIZE);
		else if (!f->pool->area.is_device)
			r = punch_slots(f, entry);
	}
	for (i = 0; i < f->nr && !r; i++)
		if (!f->entries[i].live)
			r = punch(f, rd_frame_fps_offset(f->entries[i].frame), RD_FPS_SIZE);
	if (!r)
		r = punch_now(f);
	/* After step 4 nobody remembers that it was to be given back. */
	return r || f->pool->area.is_device ? r : rd_area_sync(&f->pool->area);
}

/* --- taking off the queue */

/* Nobody had it, and nobody can have got it since. */
static int free_frame(struct rd_sql *sql, const struct entry *entry)
{
	i64 frame = entry->frame;
	int r;

	r = rd_sql_run(sql, "DELETE FROM queue WHERE frame = ?", "i", frame);
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM packing WHERE frame = ?", "i", frame);
	return r ? r : rd_frames_free(sql, frame, 1);
}

/* More of it may have been queued since. */
static int take_off(struct rd_sql *sql, const struct entry *entry)
{
	struct rd_slots left;
	RD_ROW struct rd_row *row = NULL;
	const void *slots;
	bool any = false;
	unsigned int i;
	size_t len;
	int r;

	r = rd_sql_ask(sql, &row, "DELETE FROM queue WHERE frame = ? RETURNING slots", "i",
		       (i64)entry->frame);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r;
	slots = rd_row_blob(row, 0, &len);
	if (len != sizeof(left))
		return -EUCLEAN;
	memcpy(&left, slots, sizeof(left));
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++) {
		left.bits[i] &= ~entry->slots.bits[i];
		any |= left.bits[i];
	}
	rd_row_done(row);
	row = NULL;
	return any ? rd_frames_queue(sql, entry->frame, &left) : 0;
}

/*
 * A frame of which the last slot has died since stays in the queue by that slot;
 * it is freed as a whole the next time.
 */
static int take_all_off(struct freeing *f)
{
	struct rd_sql *sql = f->pool->sql;
	unsigned int i;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	for (i = 0; i < f->nr && !r; i++)
		if (!f->entries[i].waits)
			r = f->entries[i].live ? take_off(sql, &f->entries[i]) :
				free_frame(sql, &f->entries[i]);
	return rd_catalog_end(sql, r);
}

/*
 * What is moved adds to the queue, and so it is seen first whether that can be
 * emptied: with a device out of reach each command would move some more.
 */
static int settle_devices(struct freeing *f, bool *ret_settled)
{
	i64 leases;
	int r;

	r = rd_sql_number(f->pool->sql, &leases, "SELECT count(*) FROM lease", "");
	*ret_settled = leases;
	return r || !leases ? r : settle(f);
}

/* 1: a device cannot be reached. */
static int free_batch(struct freeing *f, unsigned int max)
{
	bool moved, is_full, settled;
	int r;

	r = read_queue(f, max);
	if (!r)
		r = settle_devices(f, &settled);
	if (r)
		return r;
	r = compact(f, &moved);
	is_full = r > 0;
	if (is_full || (!r && moved)) {
		r = read_queue(f, max);
		settled = false;
	}
	if (r || !f->nr)
		return r;
	if (is_full)
		do_without(f);
	if (!settled)
		r = settle(f);
	if (!r)
		r = rd_failpoint("free-punch");
	if (!r)
		r = punch_all(f);
	if (!r)
		r = rd_failpoint("free-commit");
	return r ? r : take_all_off(f);
}

static int queue_length(struct rd_pool *pool, i64 *ret)
{
	return rd_sql_number(pool->sql, ret, "SELECT count(*) FROM queue", "");
}

/* 1: no more can be done now. */
static int free_all(struct rd_pool *pool, bool *forgot_lease)
{
	struct freeing f = { .pool = pool, .hole_us = HOLE_US, .move_us = MOVE_US };
	unsigned int max = FIRST_BATCH;
	i64 left, before = -1;
	int r;

	f.entries = malloc(BATCH * sizeof(*f.entries));
	if (!f.entries)
		return -ENOMEM;
	for (;;) {
		r = queue_length(pool, &left);
		if (r || !left || left == before)
			break;
		before = left;
		r = free_batch(&f, max);
		if (r)
			break;
		max = BATCH;
	}
	free(f.entries);
	*forgot_lease |= f.forgot_lease;
	return r;
}

/*
 * Nobody has to wait for the one that is at it. What was queued before somebody
 * found the lock taken is seen by who had it, after dropping it; if that one
 * dies before, by the next command.
 */
static int free_in_turn(struct rd_pool *pool, bool *forgot_lease)
{
	struct rd_lock lock = RD_LOCK_NONE;
	unsigned int turns;
	i64 left;
	int r = 0;

	for (turns = 0; turns < MAX_TURNS && !r; turns++) {
		r = queue_length(pool, &left);
		if (r || !left)
			return r;
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_FREE, 0, true, pool->wait_ms);
		if (r == -EAGAIN) {
			rd_info("another command is giving space back, and ours with it");
			return 0;
		}
		if (!r)
			r = free_all(pool, forgot_lease);
		rd_lock_drop(&lock);
	}
	return r < 0 ? r : 0;
}

int rd_free_queue(struct rd_pool *pool)
{
	bool forgot_lease;
	int r;

	do {
		forgot_lease = false;
		r = free_in_turn(pool, &forgot_lease);
		/* What it alone had held goes as well. */
		if (!r && forgot_lease)
			r = rd_finish_volumes(pool);
	} while (!r && forgot_lease);
	/* What a command has done is in the journal when it returns. */
	return r ? r : rd_journal_flush(pool);
}
