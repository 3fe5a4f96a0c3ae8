/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bios on their way through the remap table.
 */
#ifndef DMR_REMAP_H
#define DMR_REMAP_H

#include "dmr.h"

enum dmr_route {
	DMR_ISSUE,		/* its device and sector are set: submit it */
	DMR_TAKEN,		/* it was ended, or waits for something */
	DMR_DEFER,		/* only the worker of deferred.c can do this */
	DMR_FAIL,
};

struct dmr_pieces;

/* What target.c calls. */

/* Map @bio: DM_MAPIO_*. From map. */
int dmr_remap_map(struct dmr_table *t, struct dmr_target *rt, struct bio *bio);
/* Note that a FLUSH or FUA write has failed: the base may have lost its cache. From end_io. */
void dmr_remap_note_error(struct dmr_table *t, struct bio *bio, blk_status_t error);
/* End @bio as far as the table is concerned: DM_ENDIO_*. From end_io. */
int dmr_remap_end_io(struct dmr_table *t, struct bio *bio, blk_status_t *error);

/* What the workers call. */

/* Issue @bio, a first write whose bit is stable now. Sleeps. */
void dmr_remap_resume(struct dmr_table *t, struct bio *bio);
/* Submit or fail @bio as @route says; nothing for the other routes. Sleeps. */
void dmr_remap_submit(struct bio *bio, enum dmr_route route);

/* In an RCU read-side critical section: */

/* Route a write within a segment. DMR_DEFER with *@pieces: all is ready but them. */
enum dmr_route dmr_remap_route_write(struct dmr_table *t, struct bio *bio,
				     struct dmr_pieces *pieces);
/* Route a read, all of which is within the run at @place. */
enum dmr_route dmr_remap_route_read(struct dmr_table *t, struct bio *bio,
				    struct dmr_entry place);
/* Route a discard of blocks that are BASE. */
enum dmr_route dmr_remap_route_discard(struct dmr_table *t, struct bio *bio);
/* How many sectors of @bio, whose first block is at @place, lie in one run? */
unsigned int dmr_remap_run_sectors(struct dmr_table *t, struct bio *bio,
				   struct dmr_entry place);

#endif
