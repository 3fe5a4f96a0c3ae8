// SPDX-License-Identifier: GPL-2.0
/* Bring blocks home that are zeros by the metadata alone. */
#include <errno.h>
#include <string.h>

#include "host/sys/lvm.h"
#include "host/sys/thin.h"
#include "host/volume/device/marks.h"
#include "host/volume/freeze/freeze.h"
#include "dedup_home.h"
#include "stack.h"

#define WINDOW_BYTES	(1ULL << 30)

/* Is there anything left that could be brought home? */
static bool is_left(const struct rd_attachment *at)
{
	struct rd_target_devices devices;

	return !rd_target_devices(at->device, &devices) && !strcmp(devices.pool, "-") &&
		rd_target_has_zeros(&devices);
}

/* Does the base read as zeros where it was discarded? */
static bool is_zeroed(const struct rd_attachment *at, struct rd_thin *thin)
{
	return !rd_thin_find(at->base, thin) && thin->zeroes && thin->discards &&
		!thin->has_origin;
}

static int find_zeros(const struct rd_attachment *at, u64 first, u64 nr_blocks,
		      struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer places = { 0 };
	const struct dmr_range *range;
	int r = rd_marks_places(at->device, first, nr_blocks, &places);

	rd_each(range, &places)
		if (range->place[0].kind == DMR_ZERO)
			rd_buffer_put(ret, range, sizeof(*range));
	return !r && ret->failed ? -ENOMEM : r;
}

static int shed_window(const struct rd_attachment *at, u64 first, u64 nr)
{
	RD_BUFFER struct rd_buffer zeros = { 0 };
	int r = find_zeros(at, first, nr, &zeros);

	if (!r && zeros.len)
		r = rd_marks_shed(at->device, &zeros, true);
	return r;
}

int rd_dedup_shed_zeros(const struct rd_attachment *at)
{
	struct rd_target_devices devices;
	struct rd_thin thin;
	u64 first, size, end;
	int r;

	if (!is_zeroed(at, &thin))
		return 0;
	r = rd_target_devices(at->device, &devices);
	if (r)
		return r;
	/* Whole chunks at a time: a table with millions of ranges is not to be in memory. */
	size = rd_max(WINDOW_BYTES / rd_max(thin.chunk, RD_BLOCK_SIZE), 1) *
		rd_max(thin.chunk, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	end = rd_round_up(devices.sectors, 8) / 8;
	for (first = 0; first < end && !r; first += size)
		r = shed_window(at, first, rd_min(size, end - first));
	return r == -EBUSY ? 0 : r;
}

static int copy_rest(const struct rd_attachment *at, const struct rd_target_status *status)
{
	return rd_target_is_home(status) || strcmp(status->hydration, "off") ? 0 :
		rd_dm_message(at->device, "hydrate start", NULL);
}

/* Drop the table. The target records that all is home a moment after it is. */
static int drop_table(struct rd_attachment *at, bool *ret_home)
{
	enum rd_stack_state state;
	int r = rd_stack_is_linear(at, ret_home);

	if (r || !*ret_home)
		return r;
	r = rd_stack_up(at, &state);
	if (r || !at->is_zeros)
		return r;
	at->is_zeros = false;
	return rd_attachment_save(at);
}

int rd_dedup_bring_home(struct rd_attachment *at, bool *ret_home)
{
	struct rd_target_status status;
	int r = 0;

	*ret_home = !is_left(at);
	if (*ret_home)
		return 0;
	r = rd_target_status(at->device, &status);
	/* What an interrupted snapshot has left is for the next one to clean up. */
	if (!r && (status.has_checkpoint || rd_freeze_is_there(at)))
		return 0;
	if (!r && !strcmp(status.hydration, "off") && !rd_target_is_home(&status)) {
		r = rd_dedup_shed_zeros(at);
		if (!r)
			r = rd_target_status(at->device, &status);
		if (!r)
			r = copy_rest(at, &status);
	}
	return r ? r : drop_table(at, ret_home);
}

/* --- the tag */

#define TAG	"revdedup_partial"

/* The file first: what has no tag loses nothing if it is removed. */
int rd_dedup_tag(struct rd_attachment *at)
{
	int r = 0;

	if (!at->is_partial) {
		at->is_partial = true;
		r = rd_attachment_save(at);
	}
	return r ? r : rd_lv_tag(at->base, TAG, true);
}

int rd_dedup_untag_home(struct rd_attachment *at)
{
	bool is_home;
	int r;

	if (!at->is_partial)
		return 0;
	r = rd_stack_is_linear(at, &is_home);
	if (r || !is_home)
		return r;
	r = rd_lv_tag(at->base, TAG, false);
	at->is_partial = r != 0;
	return r ? r : rd_attachment_save(at);
}
