/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dirty bitmaps of QEMU as lists of changes.
 *
 * A bitmap is a list of what has changed since a version only if it has recorded since the moment
 * of that version. What NBD says of a bitmap is its name, so the version keeps, in the place of
 * the tracker, a hash of the name of the bitmap that began at its moment, or that went on from
 * before it: a list that is too long does no harm. The next snapshot uses a bitmap only if the
 * newest version has its hash, and reads all of the disk if not.
 */
#ifndef RD_BITMAP_H
#define RD_BITMAP_H

#include "pool/engine/snapshot/snapshot.h"
#include "nbd.h"

struct rd_bitmap_list {
	struct rd_changed changed;
	struct rd_buffer ranges;
	u8 tracker[RD_TRACKER_SIZE];
};

/* Does @version say that the bitmap @name has recorded since? */
bool rd_bitmap_is_of(const struct rd_version *version, const char *name);

/*
 * Make the options of a snapshot of the disk @nbd: what has changed by the bitmap that was asked
 * for there, and is @name to people, if it follows on from @newest (id 0: there is none); and that
 * the bitmap @next goes on from the new version. Without @next that is @name, if the server has it,
 * and a bitmap that others make later under this name is not. @list is used by the options.
 */
int rd_bitmap_choose(struct rd_bitmap_list *list, struct rd_nbd *nbd,
		     const struct rd_version *newest, const char *name, const char *next,
		     struct rd_snapshot_options *options);

#endif
