// SPDX-License-Identifier: GPL-2.0
/*
 * Copy the blocks of a volume home that were given to the pool:
 *
 *	1. zeros: their chunks take up no space
 *	2. is there room for the rest, and a tenth more?
 *	3. the mode is ZEROS, so that no timer gives them away again
 *	4. the target copies, in the background, also after a crash
 *	5. all is home: the table drops the pool, the lease goes, the tag goes
 *
 * The lease of a command that ends before 5 is forgotten when the pool next frees something
 * and finds that the device names none of its blocks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/thin.h"
#include "host/volume/attach/dedup_home.h"
#include "host/volume/attach/tenants.h"
#include "host/volume/device/marks.h"
#include "host/volume/freeze/freeze.h"
#include "pool/engine/version/session.h"
#include "live_dedup.h"

#define POLL_NS		200000000L
/* The target pauses for 10 s after an error. */
#define STUCK_US	45000000ULL

/* So many chunks are counted with one list of places. */
#define CHUNKS		1024

struct undo {
	const struct rd_caller *caller;
	struct rd_attachment *at;
	const struct rd_live_dedup_undo *options;
	struct rd_live_dedup_undo_report *report;
};

/* --- room */

/* Count the chunks from @first on that have a block which is not home; @unit blocks each. */
static int count_some(const struct undo *undo, u64 first, u64 nr, u64 unit, u64 *ret)
{
	RD_BUFFER struct rd_buffer places = { 0 };
	const struct dmr_range *range;
	u64 counted = 0, chunk, end;
	int r = rd_marks_places(undo->at->device, first, nr, &places);

	rd_each(range, &places) {
		if (range->place[0].kind == DMR_BASE)
			continue;
		end = (range->first + range->len - 1) / unit + 1;
		chunk = rd_max(range->first / unit, counted);
		*ret += end > chunk ? end - chunk : 0;
		counted = rd_max(counted, end);
	}
	return r;
}

static int count_chunks(const struct undo *undo, u64 unit, u64 *ret)
{
	struct rd_target_devices devices;
	u64 at, nr, blocks;
	int r = rd_target_devices(undo->at->device, &devices);

	*ret = 0;
	blocks = rd_round_up(devices.sectors, 8) / 8;
	for (at = 0; at < blocks && !r; at += nr) {
		nr = rd_min(unit * CHUNKS, blocks - at);
		r = count_some(undo, at, nr, unit, ret);
	}
	return r;
}

static int check_thin_room(const struct undo *undo)
{
	struct rd_thin thin;
	u64 chunks, need, left;
	int r = rd_thin_find(undo->at->base, &thin);

	/* Another base has all of its space. */
	if (r)
		return r == -ENODEV ? 0 : r;
	r = count_chunks(undo, rd_max(thin.chunk / RD_BLOCK_SIZE, 1), &chunks);
	need = chunks * thin.chunk;
	need += need / 10;
	left = thin.pool_bytes - thin.pool_used;
	if (r || need <= left)
		return r;
	rd_err(0, "the thin pool of '%s' has %llu MiB left, and %llu MiB are needed",
	       undo->at->volume, left >> 20, need >> 20);
	rd_hint("nothing was copied; 'lvextend' makes the thin pool larger");
	return -ENOSPC;
}

/* --- copying */

static int start(const struct undo *undo)
{
	u64 mib = undo->options->rate >> 20;
	char text[64] = "hydrate start";

	if (mib)
		snprintf(text, sizeof(text), "hydrate start %llu", mib);
	return rd_dm_message(undo->at->device, text, NULL);
}

static int tell(const struct undo *undo, u64 left)
{
	const struct rd_progress *progress = undo->options->progress;
	u64 all = undo->report->bytes;

	if (!progress)
		return 0;
	if (progress->tell)
		progress->tell(progress, "copying back", all - rd_min(left, all), all);
	return progress->stop && *progress->stop ? -EINTR : 0;
}

/* The target tries again and again; who waits is to know that nothing comes of it. */
static int complain_stuck(const struct undo *undo, const struct rd_target_status *status)
{
	rd_err(0, "'%s' is not being copied back any more: %llu MiB are left", undo->at->volume,
	       (status->nr_pool + status->nr_zero) * RD_BLOCK_SIZE >> 20);
	rd_remedy(RD_REMEDY_RECALL, undo->at->volume,
		  "nothing was lost; look at the thin pool with 'lvs', and at dmesg, then");
	return -EIO;
}

/* The target records that all is home a moment after it is. */
static int wait_for_it(const struct undo *undo)
{
	struct timespec gap = { .tv_nsec = POLL_NS };
	u64 left, least = U64_MAX, since = rd_now_us();
	struct rd_target_status status;
	bool is_home = false;
	int r;

	while (!(r = rd_stack_is_linear(undo->at, &is_home)) && !is_home) {
		r = rd_target_status(undo->at->device, &status);
		left = (status.nr_pool + status.nr_zero) * RD_BLOCK_SIZE;
		if (!r)
			r = tell(undo, left);
		if (r)
			break;
		if (left < least)
			since = rd_now_us();
		least = rd_min(least, left);
		if (rd_now_us() - since > STUCK_US)
			return complain_stuck(undo, &status);
		nanosleep(&gap, NULL);
	}
	return r;
}

static int choose_zeros(struct rd_attachment *at)
{
	at->dedup_pool = false;
	at->pool_cursor = 0;
	at->dedup_in_pool = 0;
	at->dedup_cold = 0;
	return rd_attachment_save(at);
}

static int check_free_to_copy(const struct undo *undo, const struct rd_target_status *status)
{
	if (!status->has_checkpoint && !rd_freeze_is_there(undo->at))
		return 0;
	rd_err(0, "a snapshot of '%s' was interrupted", undo->at->volume);
	rd_remedy(RD_REMEDY_FINISH_SNAPSHOT, undo->at->volume, "nothing was copied");
	return -EBUSY;
}

static int copy(struct undo *undo)
{
	struct rd_target_status status;
	int r = rd_target_status(undo->at->device, &status);

	if (!r)
		r = check_free_to_copy(undo, &status);
	if (r)
		return r;
	undo->report->bytes = status.nr_pool * RD_BLOCK_SIZE;
	if (!strcmp(status.hydration, "off")) {
		r = rd_dedup_shed_zeros(undo->at);
		if (!r)
			r = check_thin_room(undo);
		if (!r)
			r = choose_zeros(undo->at);
		if (!r)
			r = start(undo);
	}
	if (!r)
		r = rd_failpoint("undo-started");
	if (r)
		return r;
	r = wait_for_it(undo);
	undo->report->in_background = r == -EINTR;
	return r;
}

/* --- the end */

static int give_up_lease(const struct undo *undo)
{
	struct rd_pool *pool;
	int r;

	r = rd_session_open(&pool, undo->at->pool, RD_POOL_WRITE, undo->caller->verb,
			    undo->caller->wait_ms, NULL);
	if (r) {
		rd_warn("the pool '%s' keeps what '%s' has read until it frees something",
			undo->at->pool, undo->at->volume);
		return 0;
	}
	pool->lease_ops = &rd_host_lease_ops;
	return rd_session_close(pool, rd_tell_gone(pool, undo->at));
}

static int end(const struct undo *undo)
{
	enum rd_stack_state state;
	int r = rd_stack_up(undo->at, &state);

	if (!r)
		r = rd_failpoint("undo-home");
	if (!r && undo->at->pool[0])
		r = give_up_lease(undo);
	return r ? r : rd_dedup_untag_home(undo->at);
}

int rd_live_dedup_undo(const struct rd_caller *caller, struct rd_attachment *at,
		       const struct rd_live_dedup_undo *options,
		       struct rd_live_dedup_undo_report *report)
{
	struct undo undo = { caller, at, options, report };
	bool is_home;
	int r;

	memset(report, 0, sizeof(*report));
	r = rd_volume_track(caller, at);
	if (!r)
		r = rd_stack_is_linear(at, &is_home);
	if (!r && !is_home)
		r = copy(&undo);
	/* Also where it came home by itself. */
	if (!r)
		r = choose_zeros(at);
	return r ? r : end(&undo);
}
