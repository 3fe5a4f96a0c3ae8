// SPDX-License-Identifier: GPL-2.0
/*
 * Make a pool larger.
 *
 *	1	make the file longer, and flush that
 *	2	write a new journal, and flush it
 *	3	write the superblock, which names that journal and the new number of frames
 *	4	free the new frames in the catalog, which follows the new journal
 *
 * A crash before 3 leaves the old number, and a file that is longer than the pool needs. A
 * crash after 3 leaves the new one: as after each switch to another journal, the next command
 * that writes does step 4. The new journal is there for more than that: it tells a data area
 * of before the growth, which a user may put back, from the present one.
 *
 * What a device holds in its new part is never read: see area.h.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "pool/engine/journal/journal.h"
#include "grow.h"

/* Find the size that the data area is to have. */
static int choose_size(struct rd_pool *pool, u64 size, u64 *ret)
{
	RD_FREE char *path = rd_path_in(pool->path, "data");
	int r = path ? 0 : -ENOMEM;

	*ret = size ? size : pool->area.store->bytes;
	if (r || size || !rd_area_can(&pool->area, RD_STORE_GROWS))
		return r;
	r = rd_default_size(path, ret);
	/* A file system that is smaller than a sparse file of it is no reason to fail. */
	*ret = rd_max(*ret, pool->area.store->bytes);
	return r;
}

static int refuse_less(const struct rd_pool *pool, u64 bytes)
{
	const struct rd_area *area = &pool->area;
	u64 end = rd_frame_offset(area->super.nr_frames - 1) + RD_SEG_SIZE;

	rd_err(0, "the pool '%s' does not shrink: its last frame ends at %llu bytes, and %s %llu",
	       pool->path, end,
	       rd_area_can(area, RD_STORE_GROWS) ? "the file would have only" : "the device has only",
	       bytes);
	rd_hint("nothing was changed");
	return -EINVAL;
}

int rd_grow(struct rd_pool *pool, u64 size, struct rd_grow_report *report)
{
	struct rd_area *area = &pool->area;
	u64 bytes, nr_frames;
	int r;

	r = choose_size(pool, size, &bytes);
	if (r)
		return r;
	nr_frames = rd_frames_in(bytes);
	report->frames_before = area->super.nr_frames;
	report->frames = nr_frames;
	if (nr_frames < area->super.nr_frames)
		return refuse_less(pool, bytes);
	if (nr_frames == area->super.nr_frames)
		return 0;
	if (nr_frames > RD_MAX_FRAMES)
		return rd_err(-EFBIG, "'%s': no pool can have %llu bytes", pool->path, bytes);
	if (bytes > area->store->bytes) {
		r = rd_area_extend(area, bytes);
		if (r) {
			rd_err(r, "cannot make the data area %llu bytes long", bytes);
			rd_hint("the pool has its old size");
			return r;
		}
	}
	r = rd_failpoint("grow-extended");
	if (!r)
		r = rd_journal_renew(pool, nr_frames);
	if (r == -ENOSPC)
		rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, "the pool has its old size");
	return r;
}
