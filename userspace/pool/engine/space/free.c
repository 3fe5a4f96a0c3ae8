// SPDX-License-Identifier: GPL-2.0
/*
 * Give back what is in the queue:
 *
 *	0. packs that lost blocks are taken off it (free_packs.c)
 *	1. a frame with slots in use is emptied into others where that costs
 *	   less than the holes would (then all of it is in the queue)
 *	2. the journal gets to know all that was committed
 *	3. devices that read the data area leave the places (see lease.h)
 *	4. the places are given back to the file system
 *	5. one transaction takes them off the queue, and whole frames are free
 *
 * A crash leaves the queue as it is, and giving back twice does no harm: until
 * step 5 no command can get these places. Where a device cannot be reached nothing
 * happens at all, and the queue waits for a later command. Where it is down, but known to
 * name no other places, only the frames of these wait.
 *
 * Devices are asked once for all that a batch gives back: none can get a place of the queue
 * again, as only recipes give places to devices. They are asked before 0, as a device out of
 * reach lets nothing be freed, and a second time only if 0 or 1 has added to the queue.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/engine/journal/fence.h"
#include "pool/engine/journal/journal.h"
#include "free.h"
#include "hold.h"
#include "lease.h"
#include "rewrite.h"

/* Frames at a time. Of the first few it is learned what a hole costs. */
#define FIRST_BATCH	4
#define BATCH		8192
/* The most slots that are moved at a time. */
#define COMPACT_SLOTS	2048
/* Places that are given back at a time, which may be at once. */
#define RANGES		256
/* How often a command that gives back looks for what others have queued meanwhile. */
#define MAX_TURNS	8

/*
 * What a hole and a moved slot cost, to begin with. A hole splits an extent: 5 us in memory, 70 on
 * ext4, some ms where each is discarded on a disk at once. A slot is read and
 * written among many.
 */
#define HOLE_US		70
#define MOVE_US		6

struct freeing {
	struct rd_pool *pool;
	unsigned int nr;
	struct rd_queued *queued;
	bool has_no_room;	/* to move slots that are in use */
	u64 hole_us;		/* of late, */
	u64 move_us;		/* and a slot */
	/* Those that are about to be given back. */
	struct rd_range ranges[RANGES];
	unsigned int nr_ranges;
	/* Frames that stay in the queue for a device that is down: of this batch, and before. */
	unsigned int nr_kept;
	u64 all_kept;
	u64 from, read_end;		/* the queue is read from there, and was read to there */
	bool forgot_lease;
};

/* --- the queue */

static int read_queue(struct freeing *f, unsigned int max)
{
	int r;

	f->has_no_room = false;
	f->nr_kept = 0;
	r = rd_frames_read_queue(f->pool->sql, f->from, f->queued, max, &f->nr);
	f->read_end = r || !f->nr ? f->from : f->queued[f->nr - 1].frame + 1;
	return r;
}

static unsigned int nr_holes(const struct rd_slots *slots)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		nr += rd_slots_test(slots, i) && (!i || !rd_slots_test(slots, i - 1));
	return nr;
}

static bool can_punch(const struct freeing *f)
{
	return rd_area_can(&f->pool->area, RD_STORE_PUNCH);
}

static bool should_compact(const struct freeing *f, const struct rd_queued *entry)
{
	if (!entry->live || entry->has_fps)
		return false;
	/* A device has no holes: only whole frames are given back. */
	if (!can_punch(f))
		return entry->live <= RD_SEG_BLOCKS * 3 / 4;
	return f->hole_us + entry->live * f->move_us < nr_holes(&entry->slots) * f->hole_us;
}

/*
 * Without room to move the slots in use, holes will do instead. On a device there are
 * none: such frames stay in the queue, and what is freed now is room the next time.
 */
static bool waits(const struct freeing *f, const struct rd_queued *entry)
{
	return f->has_no_room && !can_punch(f) && should_compact(f, entry);
}

/* Compact, and learn what a slot costs. A few say little: most of it is to flush once. */
static int compact_now(struct freeing *f, const u64 *frames, unsigned int nr,
		       unsigned int live)
{
	const struct rd_rewrite_options options = {
		.dense = true,
		.packing = true,
		.may_fill_up = true,
	};
	u64 began = rd_now_us();
	int r = rd_rewrite(f->pool, frames, nr, &options);

	if (!r)
		r = rd_move_packs(f->pool, frames, nr);
	f->move_us = (f->move_us * (2 * COMPACT_SLOTS - live) + rd_now_us() - began) /
		     (2 * COMPACT_SLOTS);
	return r;
}

/* Compact what should be. *@ret_moved: the queue has changed by it. 1: no room. */
static int compact(struct freeing *f, bool *ret_moved)
{
	u64 frames[COMPACT_SLOTS];
	unsigned int i, nr = 0, live = 0;
	struct rd_queued now;
	int r = 0;

	*ret_moved = false;
	for (i = 0; i < f->nr && !r; i++) {
		struct rd_queued *entry = &f->queued[i];

		if (!should_compact(f, entry) || rd_frames_is_packing(f->pool->sql, entry->frame))
			continue;
		/* What was emptied just now may have filled this one. */
		now = *entry;
		r = rd_frames_count_live(f->pool->sql, entry->frame, &now.live);
		if (r || !should_compact(f, &now))
			continue;
		if (live + now.live > COMPACT_SLOTS) {
			r = compact_now(f, frames, nr, live);
			nr = 0;
			live = 0;
		}
		frames[nr++] = entry->frame;
		live += now.live;
		*ret_moved = true;
	}
	if (!r && nr)
		r = compact_now(f, frames, nr, live);
	return r;
}

/* --- devices */

/* A device has no holes: only whole frames are given back. */
static bool will_free(const struct freeing *f, const struct rd_queued *entry)
{
	return !waits(f, entry) && !(entry->live && !can_punch(f));
}

static int list_doomed(const struct freeing *f, struct rd_doomed *doomed)
{
	unsigned int i;

	memset(doomed, 0, sizeof(*doomed));
	doomed->area = &f->pool->area;
	doomed->frames = malloc((f->nr + !f->nr) * sizeof(*doomed->frames));
	if (!doomed->frames)
		return -ENOMEM;
	for (i = 0; i < f->nr; i++) {
		struct rd_doomed_frame *frame = &doomed->frames[doomed->nr];

		if (!will_free(f, &f->queued[i]))
			continue;
		*frame = (struct rd_doomed_frame){
			.frame = f->queued[i].frame, .slots = f->queued[i].slots,
		};
		if (!f->queued[i].live)
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

static int vacate_one(struct freeing *f, const struct rd_lease *lease,
		      struct rd_doomed *doomed)
{
	struct rd_pool *pool = f->pool;
	int r;

	if (rd_lease_is_hold(lease)) {
		r = rd_hold_is_alive(pool, lease);
		r = r < 0 ? r : !r;
	} else {
		r = !pool->lease_ops ? -ENODEV :
			pool->lease_ops->vacate(pool->lease_ops, pool, lease, doomed);
	}
	if (r > 0) {
		f->forgot_lease = true;
		return rd_lease_forget(pool, lease->id);
	}
	/* The version that it reads cannot be resolved: that is not the device's fault. */
	if (r == -EUCLEAN)
		return r;
	if (r < 0 && !pool->told_unreachable) {
		rd_warn("device '%s' reads the pool and cannot be reached: no space is freed until a later command reaches it",
			lease->device);
		rd_remedy(RD_REMEDY_FORGET_DEVICE, lease->device, NULL);
		pool->told_unreachable = true;
	}
	return r < 0;
}

/* Leave the frames out of the batch that a device keeps in the queue. */
static void leave_kept(struct freeing *f, const struct rd_doomed *doomed)
{
	const struct rd_doomed_frame *frame = doomed->frames, *end = frame + doomed->nr;
	unsigned int i, nr = 0;

	for (i = 0; i < f->nr; i++) {
		while (frame < end && frame->frame < f->queued[i].frame)
			frame++;
		if (frame == end || frame->frame != f->queued[i].frame || !frame->is_kept)
			f->queued[nr++] = f->queued[i];
	}
	f->nr_kept = f->nr - nr;
	f->nr = nr;
}

static int vacate_each(struct freeing *f, const struct rd_buffer *leases)
{
	const struct rd_lease *list = (const struct rd_lease *)leases->data;
	size_t i, nr = leases->len / sizeof(*list);
	struct rd_doomed doomed;
	int r;

	r = list_doomed(f, &doomed);
	if (!r && doomed.nr) {
		set_bounds(&doomed);
		for (i = 0; i < nr && !r; i++)
			r = vacate_one(f, &list[i], &doomed);
		leave_kept(f, &doomed);
	}
	free(doomed.frames);
	return r;
}

/*
 * Have nothing refer to the places of the batch any more: neither a catalog that can be
 * made of the journal, nor a device. 1: a device cannot be reached.
 */
static int settle(struct freeing *f)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	int r;

	r = rd_journal_flush(f->pool);
	if (!r)
		r = rd_failpoint("free-vacate");
	if (!r)
		r = rd_lease_list(f->pool->sql, NULL, &leases);
	if (!r && leases.len)
		r = vacate_each(f, &leases);
	return r;
}

/* --- giving back */

static int punch_now(struct freeing *f)
{
	u64 began;
	int r;

	if (!f->nr_ranges)
		return 0;
	began = rd_now_us();
	r = rd_area_punch_ranges(&f->pool->area, f->ranges, f->nr_ranges);
	f->hole_us = (7 * f->hole_us + (rd_now_us() - began) / f->nr_ranges) / 8;
	f->nr_ranges = 0;
	return r ? rd_err(r, "cannot free space in the data area") : 0;
}

/* Give back a range. They come in order, and those that touch are one. */
static int punch(struct freeing *f, u64 offset, u64 len)
{
	struct rd_range *last = f->ranges + f->nr_ranges - 1;
	int r;

	if (f->nr_ranges && last->offset + last->len == offset) {
		last->len += len;
		return 0;
	}
	r = f->nr_ranges == RANGES ? punch_now(f) : 0;
	f->ranges[f->nr_ranges++] = (struct rd_range){ offset, len };
	return r;
}

static int punch_slots(struct freeing *f, const struct rd_queued *entry)
{
	unsigned int first, end = 0;
	int r = 0;

	while (!r && rd_slots_run(&entry->slots, &first, &end))
		r = punch(f, rd_slot_offset(entry->frame, first),
			  (u64)(end - first) * RD_BLOCK_SIZE);
	return r;
}

static int punch_all(struct freeing *f)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < f->nr && !r; i++) {
		const struct rd_queued *entry = &f->queued[i];

		if (waits(f, entry))
			continue;
		if (!entry->live)
			r = punch(f, rd_frame_offset(entry->frame), RD_SEG_SIZE);
		else if (can_punch(f))
			r = punch_slots(f, entry);
	}
	for (i = 0; i < f->nr && !r; i++)
		if (!f->queued[i].live)
			r = punch(f, rd_frame_fps_offset(f->queued[i].frame), RD_FPS_SIZE);
	if (!r)
		r = punch_now(f);
	/* After step 5 no table says that it was to be given back. */
	return r || !can_punch(f) ? r : rd_area_sync(&f->pool->area);
}

/* --- taking off the queue */

/*
 * Take all that was given back off the queue. A frame of which the last slot was queued
 * since stays there by that slot; it is freed as a whole the next time.
 */
static int take_all_off(struct freeing *f)
{
	struct rd_sql *sql = f->pool->sql;
	unsigned int i;
	int r;

	r = rd_catalog_begin(sql);
	if (r)
		return r;
	for (i = 0; i < f->nr && !r; i++) {
		const struct rd_queued *entry = &f->queued[i];

		if (waits(f, entry))
			continue;
		/* No recipe had the frame, and none can have got it since. */
		r = entry->live ? rd_frames_unqueue(sql, entry->frame, &entry->slots) :
			rd_frames_unqueue_whole(sql, entry->frame);
	}
	return rd_catalog_end(sql, r);
}

/*
 * See first whether devices let the queue be emptied: moving adds to it, and with a
 * device out of reach each command would move some more.
 */
static int settle_devices(struct freeing *f, bool *ret_settled)
{
	u64 leases;
	int r;

	r = rd_lease_count(f->pool->sql, NULL, &leases);
	*ret_settled = leases;
	return r || !leases ? r : settle(f);
}

/* Compact, unless a device could not follow: the place that it names would be kept, too. */
static int compact_if_all_follow(struct freeing *f, bool *ret_moved)
{
	struct rd_lease_ops *ops = f->pool->lease_ops;
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	bool is_fixed = false;
	size_t nr;
	int r;

	*ret_moved = false;
	r = rd_lease_list(f->pool->sql, NULL, &leases);
	lease = (const struct rd_lease *)leases.data;
	nr = r || !ops || !ops->is_fixed ? 0 : leases.len / sizeof(*lease);
	for (; nr-- && !is_fixed; lease++)
		is_fixed = ops->is_fixed(ops, lease);
	return r || is_fixed ? r : compact(f, ret_moved);
}

/* 1: a device cannot be reached. */
static int free_batch(struct freeing *f, unsigned int max)
{
	bool moved, repacked, is_full, settled;
	int r;

	r = read_queue(f, max);
	if (!r)
		r = settle_devices(f, &settled);
	if (r)
		return r;
	r = rd_free_packs(f->pool, &repacked);
	/* Slots that packs have lost are in the queue by now: frames may be nearly empty. */
	if (!r && repacked)
		r = read_queue(f, max);
	if (!r)
		r = compact_if_all_follow(f, &moved);
	is_full = r > 0;
	if (is_full || (!r && (moved || repacked))) {
		r = read_queue(f, max);
		settled = false;
	}
	if (r || !f->nr)
		return r;
	f->has_no_room = is_full;
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

/*
 * Do not read again what must stay. Where all of a batch waits for room, what is behind it may
 * be whole frames, which make some.
 */
static void pass_kept(struct freeing *f)
{
	unsigned int i = 0;

	while (i < f->nr && waits(f, &f->queued[i]))
		i++;
	if (i == f->nr)
		f->nr_kept += i;
	if (f->nr_kept)
		f->from = f->read_end;
	f->all_kept += f->nr_kept;
}

static int free_batches(struct freeing *f)
{
	u64 left, leases, before = U64_MAX;
	unsigned int max;
	int r;

	r = rd_lease_count(f->pool->sql, NULL, &leases);
	/* To ask devices once more costs more than is saved by what the first few teach. */
	max = leases ? BATCH : FIRST_BATCH;
	while (!r) {
		r = rd_frames_nr_queued(f->pool->sql, &left);
		if (r || left <= f->all_kept || (left == before && !f->nr_kept))
			break;
		before = left;
		r = free_batch(f, max);
		if (!r)
			pass_kept(f);
		max = BATCH;
	}
	return r;
}

/* 1: no more can be done now. */
static int free_all(struct rd_pool *pool, bool *ret_forgot, u64 *ret_kept)
{
	struct freeing f = { .pool = pool, .hole_us = HOLE_US, .move_us = MOVE_US };
	int r;

	f.queued = malloc(BATCH * sizeof(*f.queued));
	if (!f.queued)
		return -ENOMEM;
	r = free_batches(&f);
	free(f.queued);
	*ret_forgot |= f.forgot_lease;
	*ret_kept = f.all_kept;
	return r;
}

/*
 * Free unless another command does: no command waits for it. The one with the lock looks
 * at the queue once more after dropping it, and so sees what others had queued before they
 * found the lock taken; if it dies before, the next command does.
 */
int rd_free_places(struct rd_pool *pool, bool *ret_forgot)
{
	struct rd_lock lock = RD_LOCK_NONE;
	u64 left, kept = 0;	/* in the queue */
	unsigned int turns;
	int r = 0;

	for (turns = 0; turns < MAX_TURNS && !r; turns++) {
		r = rd_frames_nr_queued(pool->sql, &left);
		if (r || left <= kept)
			return r;
		r = rd_lock_take(&lock, pool->lock_fd, RD_LOCK_FREE, 0, true, pool->wait_ms);
		if (r == -EAGAIN) {
			rd_info("another command is freeing space, and frees that of this command too");
			return 0;
		}
		if (!r)
			r = rd_fence_renew(pool);
		if (!r)
			r = free_all(pool, ret_forgot, &kept);
		rd_lock_drop(&lock);
	}
	return r < 0 ? r : 0;
}
