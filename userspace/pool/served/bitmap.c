// SPDX-License-Identifier: GPL-2.0
/* Dirty bitmaps of QEMU as lists of changes: see bitmap.h. */

#include "bitmap.h"
#include "tracker.h"

/* Names of bitmaps. */
#define KIND	"dirty bitmap"

bool rd_bitmap_is_of(const struct rd_version *version, const char *name)
{
	return rd_tracker_is_of(version, KIND, name);
}

int rd_bitmap_choose(struct rd_bitmap_list *list, struct rd_nbd *nbd,
		     const struct rd_version *newest, const char *name, const char *next,
		     struct rd_snapshot_options *options)
{
	int r;

	if (!next && name && rd_nbd_has_bitmap(nbd))
		next = name;
	if (next) {
		rd_tracker_hash(list->tracker, KIND, next);
		options->tracker = list->tracker;
	}
	if (!name || options->why_full)
		return 0;
	if (!rd_bitmap_is_of(newest, name)) {
		if (newest->id)
			options->why_full = "the bitmap does not follow on from the newest version";
		return 0;
	}
	if (!rd_nbd_has_bitmap(nbd)) {
		options->why_full = "the server has no such bitmap";
		return 0;
	}
	r = rd_nbd_dirty(nbd, &list->ranges);
	list->changed = (struct rd_changed){
		.base = newest->number,
		.nr = list->ranges.len / sizeof(struct rd_changed_range),
		.ranges = (struct rd_changed_range *)list->ranges.data,
	};
	options->changed = &list->changed;
	return r;
}
