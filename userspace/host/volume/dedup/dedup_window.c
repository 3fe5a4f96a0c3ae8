// SPDX-License-Identifier: GPL-2.0
/*
 * The windows of a volume that gives space back. Each mode says where its blocks may lie, and has
 * the steps of a window, and what a crash leaves behind each: dedup_zeros.c, dedup_pool.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/volume/device/marks.h"
#include "pool/data/fp.h"
#include "dedup_read.h"
#include "dedup_run.h"

#define MAX_TRIES	3	/* to do a window whose marks are lost */

static int tell(const struct rd_dedup_run *run, u64 block)
{
	const struct rd_progress *progress = run->options->progress;

	if (!progress)
		return 0;
	if (progress->tell)
		progress->tell(progress, "dedup", block * RD_BLOCK_SIZE,
			       run->nr_blocks * RD_BLOCK_SIZE);
	return progress->stop && *progress->stop ? -EINTR : 0;
}

/* --- choosing */

int rd_dedup_find_away(struct rd_dedup_window *window)
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
static bool is_worth_it(const struct rd_dedup_window *window, u64 at)
{
	const struct rd_dedup_run *run = window->run;
	u64 i, nr_away = 0, nr_pool = 0;

	for (i = at; i < at + run->unit; i++) {
		if (!window->away[i] && rd_dedup_place(window, i)->kind == DMR_BASE)
			return false;
		nr_away += window->away[i];
		nr_pool += !window->away[i] && dmr_entry_in_pool(*rd_dedup_place(window, i));
	}
	return rd_dedup_is_zeros(run) || nr_pool ||
		(nr_away == run->unit && (run->is_first || window->is_again));
}

static int put(struct rd_buffer *ranges, u64 first, u64 nr, struct dmr_entry place)
{
	struct dmr_range range = { .first = first, .len = nr, .place[0] = place };
	struct dmr_range *last = NULL;

	if (ranges->len)
		last = (struct dmr_range *)(ranges->data + ranges->len) - 1;
	if (last && last->first + last->len == first &&
	    dmr_entry_goes_on(last->place[0], last->len, place)) {
		last->len += nr;
		return 0;
	}
	return rd_buffer_put(ranges, &range, sizeof(range));
}

int rd_dedup_choose_chunks(struct rd_dedup_window *window)
{
	const struct dmr_entry zero = { .kind = DMR_ZERO };
	u64 at, unit = window->run->unit;
	int r = 0;

	window->chunks.len = 0;
	for (at = 0; at + unit <= window->nr && !r; at += unit)
		if (is_worth_it(window, at))
			r = put(&window->chunks, window->first + at, unit, zero);
	return r;
}

/* --- comparing */

/* Block @at differs, so that it is left alone. May it? */
static int leave_alone(struct rd_dedup_window *window, u64 at)
{
	const struct rd_dedup_mode *mode = window->run->mode;

	rd_dedup_place(window, at)->kind = DMR_BASE;
	return mode->differs ? mode->differs(window, window->first + at) : 0;
}

static bool is_same(const struct rd_dedup_piece *piece, u64 i)
{
	const u8 *live = piece->live + i * RD_BLOCK_SIZE;

	if (piece->places[i].kind == DMR_ZERO)
		return rd_is_zero(live, RD_BLOCK_SIZE);
	return !memcmp(live, piece->pool + i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
}

static int compare_piece(struct rd_dedup_window *window, const struct rd_dedup_piece *piece)
{
	u64 i, at;
	int r = 0;

	for (i = 0; i < piece->nr && !r; i++) {
		at = piece->first + i - window->first;
		window->run->report->compared += RD_BLOCK_SIZE;
		if (!window->away[at] && piece->places[i].kind != DMR_BASE && !is_same(piece, i))
			r = leave_alone(window, at);
	}
	return r;
}

/* Where reading has come to. */
struct cursor {
	const struct dmr_range *chunk, *end;
	u64 at;			/* blocks of that chunk that are read, or are being read */
};

static void start_next(struct rd_dedup_window *window, struct cursor *cursor)
{
	struct rd_dedup_run *run = window->run;
	u64 most = rd_pace_at_once(&run->pace, RD_DEDUP_READ) / RD_BLOCK_SIZE;
	u64 first = cursor->chunk->first + cursor->at;
	u64 nr = rd_min(most, cursor->chunk->len - cursor->at);

	run->mode->read(run, first, nr, rd_dedup_place(window, first - window->first));
	cursor->at += nr;
	if (cursor->at < cursor->chunk->len)
		return;
	cursor->chunk++;
	cursor->at = 0;
}

static void start_reading(struct rd_dedup_window *window, struct cursor *cursor)
{
	struct rd_dedup_reader *reader = window->run->reader;

	while (cursor->chunk < cursor->end && rd_dedup_reader_has_room(reader)) {
		start_next(window, cursor);
		if (!rd_dedup_reads_ahead(window->run))
			break;
	}
}

static int compare_chunks(struct rd_dedup_window *window)
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
		rd_pace(&run->pace, (rd_dedup_is_zeros(run) ? 1 : 2) * piece->nr * RD_BLOCK_SIZE);
		r = compare_piece(window, piece);
		if (!r)
			r = tell(run, piece->first + piece->nr);
	} while (!r);
	rd_dedup_reader_drain(run->reader);
	return r;
}

/* --- swapping */

/* Chunks again, as some may have a block that differs. */
static int list_swaps(struct rd_dedup_window *window)
{
	const struct dmr_range *chunk;
	u64 at, end;
	int r = rd_dedup_choose_chunks(window);

	window->swaps.len = 0;
	rd_each(chunk, &window->chunks) {
		end = chunk->first + chunk->len - window->first;
		for (at = chunk->first - window->first; at < end && !r; at++)
			if (!window->away[at])
				r = put(&window->swaps, window->first + at, 1,
					*rd_dedup_place(window, at));
	}
	return r;
}

/* -ESTALE: begin again. Another program has set marks, or the volume was suspended. */
static int mark_and_swap(struct rd_dedup_window *window)
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

static int disturbed(const struct rd_dedup_run *run)
{
	rd_err(0, "another program suspends '%s' again and again, or marks its blocks",
	       run->at->device);
	rd_remedy(RD_REMEDY_REPEAT, run->at->volume, NULL);
	return -EBUSY;
}

static int try_swap(struct rd_dedup_window *window)
{
	int r = window->run->mode->find(window);

	return r || !window->chunks.len ? r : mark_and_swap(window);
}

static int swap(struct rd_dedup_window *window)
{
	struct rd_dedup_run *run = window->run;
	unsigned int tries = 0;
	int r;

	while ((r = try_swap(window)) == -ESTALE) {
		/* A part of them may be away by now, and is to be given back all the same. */
		window->is_again = true;
		run->at->dedup_lost_marks++;
		if (++tries == MAX_TRIES)
			return disturbed(run);
	}
	return r;
}

/* --- giving back */

static int count_swapped(struct rd_dedup_window *window)
{
	const struct dmr_range *swap;
	int r = window->swaps.len ? rd_dedup_find_away(window) : 0;
	u64 i;

	rd_each(swap, &window->swaps)
		for (i = 0; i < swap->len && !r; i++)
			window->run->report->found +=
				window->away[swap->first + i - window->first] ? RD_BLOCK_SIZE : 0;
	return r;
}

/* Give the chunks back (see rd_marks_shed()), and say so where only a part could be. */
static int shed(const struct rd_dedup_window *window)
{
	const struct rd_dedup_run *run = window->run;
	int r = rd_marks_shed(run->at->device, &window->chunks, run->thin.zeroes);

	if (r != -EBUSY)
		return r;
	rd_err(0, "another program has suspended '%s', or copies it back from the pool",
	       run->at->device);
	rd_remedy(RD_REMEDY_REPEAT, run->at->volume, "the rest was not given back");
	return r;
}

static int do_window(struct rd_dedup_window *window)
{
	struct rd_dedup_run *run = window->run;
	int r = run->mode->begin ? run->mode->begin(run) : 0;

	if (!r)
		r = swap(window);
	rd_lock_drop(&run->shut);
	if (r || !window->chunks.len)
		return r;
	r = rd_failpoint("dedup-aliased");
	if (!r)
		r = count_swapped(window);
	if (!r)
		r = shed(window);
	return r ? r : rd_failpoint("dedup-shed");
}

static int one_window(struct rd_dedup_run *run, u64 first, u64 nr)
{
	struct rd_dedup_window window = {
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

/* --- all of them */

static bool is_out_of_time(const struct rd_dedup_run *run)
{
	return run->options->until_us && rd_now_us() >= run->options->until_us;
}

/*
 * Each mode has its own: only the same mode finishes what a kill leaves half done in the window
 * that the cursor names.
 */
static u64 *cursor_of(struct rd_dedup_run *run)
{
	return rd_dedup_is_zeros(run) ? &run->at->zeros_cursor : &run->at->pool_cursor;
}

/* Note where the next run goes on: before a window, so that it is the one that was cut short. */
static int save_cursor(struct rd_dedup_run *run, u64 at)
{
	u64 *cursor = cursor_of(run);

	at = at < run->nr_blocks ? at : 0;
	if (*cursor == at)
		return 0;
	*cursor = at;
	return rd_attachment_save(run->at);
}

static int all_windows(struct rd_dedup_run *run)
{
	u64 size = rd_dedup_window_blocks(run);
	u64 at = *cursor_of(run) / run->unit * run->unit;
	int saved, r = 0;

	run->is_first = true;
	at = at < run->nr_blocks ? at : 0;
	run->report->first = at * RD_BLOCK_SIZE;
	while (at < run->nr_blocks) {
		r = tell(run, at);
		run->report->out_of_time = !r && is_out_of_time(run);
		if (r || run->report->out_of_time)
			break;
		r = save_cursor(run, at);
		if (!r)
			r = one_window(run, at, rd_min(size, run->nr_blocks - at));
		if (r)
			break;
		at = rd_min(at + size, run->nr_blocks);
		run->is_first = false;
	}
	if (!r)
		tell(run, at);
	run->report->bytes = at * RD_BLOCK_SIZE - run->report->first;
	saved = save_cursor(run, at);
	return r ? r : saved;
}

int rd_dedup_windows(struct rd_dedup_run *run, const struct rd_dedup_mode *mode)
{
	int r;

	run->mode = mode;
	r = rd_dedup_reader_new(&run->reader, run);
	if (r)
		return r;
	r = all_windows(run);
	rd_marks_clear(run->at->device);
	return r;
}
