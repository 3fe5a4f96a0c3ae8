// SPDX-License-Identifier: GPL-2.0
/*
 * Let a volume read cold blocks from the pool, where its newest version N has them, and give
 * their chunks of the thin base back. A window is 64 MiB; its steps, and what a crash or a kill
 * leaves behind each:
 *
 *	0. rd_lease_shut(), and the lease (device, N): added, stable, if it is not there. In each
 *	   window: a free may have found that the device names no block, and forgotten it.
 *	   -> a lease without blocks does no harm
 *	1. the places of the window, by the catalog; the table still has this pool
 *	2. watch, with a token. -> marks, which the next watch or suspend drops
 *	3. read the volume through the target, and the pool through the device that the table
 *	   has, both past the page cache. What differs is left alone: it was written, or, in a
 *	   segment that is clean, one of the two is damaged
 *	4. alias: stable, and no I/O uses the base there any more. An error may mean that it
 *	   happened. -> each block is home or in the pool, with the same content; the base has
 *	   all of them
 *	5. let the pool free again. Ask the target which blocks are in the pool
 *	6. shed. -> the base has lost what nobody reads there
 *	7. drop the marks, move the cursor
 *
 * The cursor in the file of the attachment is that of the window that has begun. The first
 * window of the next run gives back all that is away already, which 6 may have left.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/volume/attach/dedup_home.h"
#include "host/volume/attach/dedup_lease.h"
#include "host/volume/attach/stack.h"
#include "host/volume/device/marks.h"
#include "host/volume/device/poolblocks.h"
#include "pool/engine/journal/journal.h"
#include "dedup_pool.h"
#include "dedup_read.h"

struct window {
	struct rd_dedup_run *run;
	u64 first, nr;			/* blocks */
	u64 first_seg;
	unsigned int nr_segs;
	struct dmr_entry *places;	/* of the segments; BASE: leave it alone */
	bool is_again;			/* the marks of the first try were lost */
	bool *away;			/* of @nr blocks: in the pool or zeros already */
	struct rd_buffer chunks;	/* struct dmr_range: to be given back */
	struct rd_buffer swaps;		/* struct dmr_range, with the new places */
};

static struct dmr_entry *place_of(const struct window *window, u64 at)
{
	return window->places + (window->first + at - window->first_seg * RD_SEG_BLOCKS);
}

/* --- 0. the lease */

static int hold_version(struct rd_dedup_run *run)
{
	struct rd_version *version = &run->source.version;
	char device[RD_DM_NAME_MAX];
	bool has;
	i64 id;
	int r = rd_has_lease(run->pool, run->at, version, &has);

	if (r || has)
		return r;
	r = rd_lease_add(run->pool, version, rd_part_uuid(device, run->at, NULL), &id);
	if (r == -ENOENT)
		rd_err(0, "%s@%lld was deleted meanwhile", run->at->volume, version->number);
	return r ? r : rd_failpoint("dedup-leased");
}

/* --- 1. what there is */

static int check_table(const struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	int r = rd_target_devices(run->at->device, &devices);

	if (!r)
		r = rd_poolblocks_compare(&run->pool->area, devices.pool);
	return r ? rd_err(r, "'%s' does not read the pool '%s'", run->at->device,
			  run->pool->path) : 0;
}

static int find_away(struct window *window)
{
	RD_BUFFER struct rd_buffer places = { 0 };
	const struct dmr_range *range;
	int r = rd_marks_places(window->run->at->device, window->first, window->nr, &places);

	memset(window->away, 0, window->nr * sizeof(*window->away));
	rd_each(range, &places)
		if (range->place[0].kind != DMR_BASE)
			memset(window->away + (range->first - window->first), true,
			       range->len * sizeof(*window->away));
	return r;
}

/*
 * Would no block of this chunk stay home, and is one more to be swapped? Zeros alone are for mode
 * ZEROS, which knows what takes up no space. In the first window also a chunk that is away
 * already may have to be given back.
 */
static bool is_worth_it(const struct window *window, u64 at)
{
	u64 i, nr_away = 0, nr_pool = 0;

	for (i = at; i < at + window->run->unit; i++) {
		if (!window->away[i] && place_of(window, i)->kind == DMR_BASE)
			return false;
		nr_away += window->away[i];
		nr_pool += !window->away[i] && dmr_entry_in_pool(*place_of(window, i));
	}
	return nr_pool || (nr_away == window->run->unit &&
			   (window->run->is_first || window->is_again));
}

/*
 * Choose chunks of which no block would stay home. Other blocks are left alone: they would
 * free nothing.
 */
static int choose_chunks(struct window *window)
{
	u64 at, unit = window->run->unit;

	window->chunks.len = 0;
	for (at = 0; at + unit <= window->nr; at += unit)
		if (is_worth_it(window, at))
			rd_dedup_add(&window->chunks, window->first + at, unit);
	return window->chunks.failed ? -ENOMEM : 0;
}

/* --- 3. comparing */

/*
 * A block differs. A write makes its segment dirty before it changes anything, and nothing makes
 * that clean while the attachment is locked: if it was dirty, there is no need to ask again, and
 * if it is clean even now, nobody has written there.
 */
static int leave_alone(struct window *window, u64 at)
{
	struct rd_dedup_run *run = window->run;
	u64 block = window->first + at, segment = block / RD_SEG_BLOCKS;
	int r = 0;

	place_of(window, at)->kind = DMR_BASE;
	if (!rd_dedup_source_is_dirty(&run->source, segment))
		r = rd_dedup_source_look(&run->source);
	if (r || rd_dedup_source_is_dirty(&run->source, segment))
		return r;
	rd_err(0, "the volume '%s' and %s@%lld differ at offset %llu, and nothing was written there: one of them is damaged",
	       run->at->volume, run->at->volume, run->source.version.number,
	       block * RD_BLOCK_SIZE);
	rd_remedy(RD_REMEDY_SCRUB, NULL, "nothing more of this volume was given back");
	return -EUCLEAN;
}

static int compare_piece(struct window *window, const struct rd_dedup_piece *piece)
{
	struct rd_dedup_run *run = window->run;
	u64 i, at, offset;
	int r = 0;

	for (i = 0; i < piece->nr && !r; i++) {
		at = piece->first + i - window->first;
		offset = i * RD_BLOCK_SIZE;
		run->report->compared += RD_BLOCK_SIZE;
		if (!window->away[at] && place_of(window, at)->kind != DMR_BASE &&
		    memcmp(piece->live + offset, piece->pool + offset, RD_BLOCK_SIZE))
			r = leave_alone(window, at);
	}
	return r;
}

/* Where reading has come to. */
struct cursor {
	const struct dmr_range *chunk, *end;
	u64 at;			/* blocks of that chunk that are read, or are being read */
};

static void start_next(struct window *window, struct cursor *cursor)
{
	struct rd_pace *pace = &window->run->pace;
	u64 most = rd_pace_at_once(pace, RD_DEDUP_READ) / RD_BLOCK_SIZE;
	u64 first = cursor->chunk->first + cursor->at;
	u64 nr = rd_min(most, cursor->chunk->len - cursor->at);

	rd_dedup_reader_start(window->run->reader, first, nr,
			      place_of(window, first - window->first));
	cursor->at += nr;
	if (cursor->at < cursor->chunk->len)
		return;
	cursor->chunk++;
	cursor->at = 0;
}

/* With a rate nothing is read ahead: it would be read before it is paid for. */
static void start_reading(struct window *window, struct cursor *cursor)
{
	struct rd_dedup_reader *reader = window->run->reader;

	while (cursor->chunk < cursor->end && rd_dedup_reader_has_room(reader)) {
		start_next(window, cursor);
		if (window->run->pace.rate)
			break;
	}
}

static int compare_chunks(struct window *window)
{
	struct rd_dedup_run *run = window->run;
	const struct rd_dedup_piece *piece;
	struct cursor cursor = { .chunk = (const struct dmr_range *)window->chunks.data };
	int r;

	cursor.end = cursor.chunk + window->chunks.len / sizeof(*cursor.chunk);
	do {
		start_reading(window, &cursor);
		r = rd_dedup_reader_wait(run->reader, &piece);
		if (r || !piece)
			break;
		rd_pace(&run->pace, 2 * piece->nr * RD_BLOCK_SIZE);
		r = compare_piece(window, piece);
		if (!r)
			r = rd_dedup_progress(run, piece->first + piece->nr);
	} while (!r);
	rd_dedup_reader_drain(run->reader);
	return r;
}

/* --- 4. swapping */

static int add_swap(struct window *window, u64 at)
{
	struct dmr_range range = { .first = window->first + at, .len = 1 };
	struct dmr_range *last = NULL;

	range.place[0] = *place_of(window, at);
	if (window->swaps.len)
		last = (struct dmr_range *)(window->swaps.data + window->swaps.len) - 1;
	if (last && last->first + last->len == range.first &&
	    dmr_entry_goes_on(last->place[0], last->len, range.place[0])) {
		last->len++;
		return 0;
	}
	return rd_buffer_put(&window->swaps, &range, sizeof(range));
}

/* Chunks again, as some may have a block that differs. */
static int list_swaps(struct window *window)
{
	const struct dmr_range *chunk;
	u64 at, end;
	int r = choose_chunks(window);

	window->swaps.len = 0;
	rd_each(chunk, &window->chunks) {
		end = chunk->first + chunk->len - window->first;
		for (at = chunk->first - window->first; at < end && !r; at++)
			if (!window->away[at])
				r = add_swap(window, at);
	}
	return r;
}

/* -ESTALE: begin again. */
static int mark_and_swap(struct window *window)
{
	const char *device = window->run->at->device;
	u64 token;
	int r = rd_marks_token(&token);

	if (!r)
		r = rd_marks_set(device, token, &window->chunks);
	if (!r)
		r = rd_failpoint("dedup-marked");
	if (!r)
		r = compare_chunks(window);
	if (!r)
		r = list_swaps(window);
	if (!r && window->swaps.len)
		r = rd_marks_alias(device, token, &window->swaps);
	return r;
}

/* What is away already is not read again: damage there does not hold up what is not. */
static void leave_away(struct window *window)
{
	u64 i;

	for (i = 0; i < window->nr; i++)
		if (window->away[i])
			place_of(window, i)->kind = DMR_BASE;
}

/* Steps 1 to 4, with the pool shut. */
static int swap_shut(struct window *window)
{
	int r = hold_version(window->run);

	if (!r)
		r = check_table(window->run);
	if (!r)
		r = find_away(window);
	if (!r)
		r = rd_dedup_source_read(&window->run->source, window->first_seg, window->nr_segs,
					 window->places);
	if (!r) {
		leave_away(window);
		r = choose_chunks(window);
	}
	if (r || !window->chunks.len)
		return r;
	/*
	 * A compaction may just have moved them: a catalog that is made anew must know where
	 * they are before the device does.
	 */
	r = rd_journal_flush(window->run->pool);
	return r ? r : mark_and_swap(window);
}

static int swap(struct window *window)
{
	struct rd_dedup_run *run = window->run;
	struct rd_lock shut = RD_LOCK_NONE;
	unsigned int tries = 0;
	int r;

	/* A segment may have become dirty since: that is for the comparison to find. */
	r = rd_dedup_source_look(&run->source);
	if (!r)
		r = rd_lease_shut(run->pool, &shut);
	if (r)
		return r;
	do {
		r = swap_shut(window);
		/* A part of them may be away by now, and is to be given back all the same. */
		window->is_again = r == -ESTALE;
	} while (r == -ESTALE && rd_dedup_try_again(run, &tries));
	rd_lock_drop(&shut);
	return r == -ESTALE ? rd_dedup_disturbed(run) : r;
}

/* --- 5. and 6. */

static int count_swapped(struct window *window)
{
	const struct dmr_range *swap;
	int r = window->swaps.len ? find_away(window) : 0;
	u64 i;

	rd_each(swap, &window->swaps)
		for (i = 0; i < swap->len && !r; i++)
			window->run->report->found +=
				window->away[swap->first + i - window->first] ? RD_BLOCK_SIZE : 0;
	return r;
}

static int do_window(struct window *window)
{
	int r = swap(window);

	if (r || !window->chunks.len)
		return r;
	r = rd_failpoint("dedup-aliased");
	if (!r)
		r = count_swapped(window);
	if (!r)
		r = rd_dedup_shed(window->run, &window->chunks, window->run->thin.zeroes);
	return r ? r : rd_failpoint("dedup-shed");
}

static int one_window(struct rd_dedup_run *run, u64 first, u64 nr)
{
	struct window window = {
		.run = run,
		.first = first,
		.nr = nr,
		.first_seg = first / RD_SEG_BLOCKS,
		.away = calloc(nr, sizeof(bool)),
	};
	int r;

	window.nr_segs = rd_round_up(first + nr, RD_SEG_BLOCKS) / RD_SEG_BLOCKS -
		window.first_seg;
	window.places = calloc(window.nr_segs * RD_SEG_BLOCKS, sizeof(*window.places));
	r = window.places && window.away ? do_window(&window) : -ENOMEM;
	rd_buffer_free(&window.chunks);
	rd_buffer_free(&window.swaps);
	free(window.places);
	free(window.away);
	return r;
}

/* --- before the first window */

static int open_pool_device(struct rd_dedup_run *run)
{
	struct rd_target_devices devices;
	char path[PATH_MAX];
	u64 bytes;
	int r = rd_target_devices(run->at->device, &devices);

	if (!r)
		r = rd_block_path(path, devices.pool);
	if (r)
		return r;
	run->pool_fd = rd_open_direct(path, O_RDONLY, 0);
	if (run->pool_fd < 0)
		return rd_err(run->pool_fd, "cannot open '%s'", path);
	/* A pool that has grown since is larger than the device that the table has. */
	if (ioctl(run->pool_fd, BLKGETSIZE64, &bytes))
		return rd_err(-errno, "cannot get the size of '%s'", path);
	run->source.nr_places = bytes / RD_BLOCK_SIZE;
	return rd_dedup_reader_new(&run->reader, run);
}

/*
 * Note the pool before the first block: after a crash the volume is brought up with it. But
 * after the table, as the target may refuse the pool.
 */
static int note_pool(struct rd_dedup_run *run)
{
	struct rd_attachment *at = run->at;
	int r = rd_attachment_path(at->pool, run->pool);

	if (r)
		return r;
	at->is_zeros = false;
	at->dedup_pool = true;
	rd_dedup_note_cold(run);
	return rd_attachment_save(at);
}

int rd_dedup_pool(struct rd_dedup_run *run)
{
	int r;

	/*
	 * What an interrupted snapshot has not moved on, or nothing that the device still reads:
	 * rd_dedup_pool_check() has seen to that.
	 */
	r = rd_lease_move(run->pool, run->at, &run->source.version);
	if (!r)
		r = rd_stack_add_pool(run->at, &run->pool->area, run->pool->path);
	if (!r)
		r = note_pool(run);
	if (!r)
		r = rd_failpoint("dedup-table");
	if (!r)
		r = rd_dedup_tag(run->at);
	if (!r)
		r = open_pool_device(run);
	if (r)
		return r;
	r = rd_dedup_windows(run, one_window);
	rd_marks_clear(run->at->device);
	return r;
}
