/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What waits for a worker: the only way from a lower file to an upper one. Each
 * function leaves something in a queue and wakes the worker that an upper file has set
 * up: firstwrite.c for a device, deferred.c and writeback.c for a remap table.
 */
#ifndef DMR_QUEUE_H
#define DMR_QUEUE_H

#include "dmr.h"

/* Of a device. Anywhere, unless it says otherwise. */

/* Have the worker of first writes look again soon. */
void dmr_queue_tracker(struct dmr_meta *meta);
/* Hold @bio, the first write to a segment, until its bit is stable. */
void dmr_queue_first_write(struct dmr_meta *meta, struct bio *bio);
/* From end_io: write the zeros of @bio, a write zeroes that the base refused. */
void dmr_queue_zeroes(struct dmr_meta *meta, struct bio *bio);
/* Raise an event soon; for callers that may or may not hold meta->lock. */
void dmr_queue_event(struct dmr_meta *meta);
#ifndef DMR_NO_TABLE

/* Of a remap table. */

/* Leave @bio to the worker of deferred.c. Anywhere, not under t->lock. */
void dmr_queue_bio(struct dmr_table *t, struct bio *bio);
/* Leave all of @bios to it, and empty the list. Under t->lock. */
void dmr_queue_bios(struct dmr_table *t, struct bio_list *bios);
/* Add @bio to @list, which another thread issues later. Under the list's lock. */
void dmr_queue_in(struct bio_list *list, struct bio *bio);
/* End @bio after the first write-back that begins from now on. Anywhere, not under t->lock. */
void dmr_queue_flush(struct dmr_table *t, struct bio *bio);
/* Write changes back soon. Under t->lock. */
void dmr_queue_writeback(struct dmr_table *t);
#endif

#endif
