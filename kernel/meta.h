/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a metadata device: shared by all table lines of one mapped device. All
 * of these sleep.
 */
#ifndef DMR_META_H
#define DMR_META_H

#include "dmr.h"

/*
 * Find or make the object of @ti's metadata device. Reads the superblock, writes
 * nothing. On failure NULL, with ti->error and *@ret_r set.
 */
struct dmr_meta *dmr_meta_get(struct dm_target *ti, struct dmr_target *rt,
			      int *ret_r);
/* Drop what dmr_meta_get() has returned; the last one writes what is in memory only. */
void dmr_meta_put(struct dmr_meta *meta, struct dm_target *ti);
/*
 * Use the devices of the table line that is about to be live, and of no other: also where
 * the resume is then refused. The volume is suspended. Sleeps.
 */
void dmr_meta_use(struct dmr_meta *meta, struct dm_target *ti, struct dmr_target *rt);
/* Format or load, adopt uuids and size of the table line: before any I/O. */
int dmr_meta_resume(struct dmr_meta *meta, struct dm_target *ti,
		    struct dmr_target *rt);
/* Make stable what is in memory only; all I/O has ended. */
void dmr_meta_suspend(struct dmr_meta *meta);

#endif
