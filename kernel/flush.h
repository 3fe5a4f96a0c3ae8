/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flushes of the metadata device and of the base, and what a failed one means.
 *
 * A device reports a lost cache once, to one flush, whoever has issued it. These
 * functions see to it that everybody learns of it whose data may be lost.
 */
#ifndef DMR_FLUSH_H
#define DMR_FLUSH_H

#include "dmr.h"

/* How many flushes of the metadata device have failed so far. Anywhere. */
static inline unsigned int dmr_flush_errors(struct dmr_meta *meta)
{
	return READ_ONCE(meta->flush_errors);
}

/*
 * Make stable what was written to the metadata device: dirty buffers of dm-bufio, or
 * what bypassed it. Fail if any flush has failed since @errors was sampled, even
 * another thread's: 0 or -errno. Sleeps.
 */
int dmr_flush_buffers(struct dmr_meta *meta, unsigned int errors);
int dmr_flush_meta(struct dmr_meta *meta, unsigned int errors);

/* Flush the base for the target itself; a failure is also reported above. Sleeps. */
int dmr_flush_base(struct dmr_meta *meta, struct block_device *base);
/*
 * From end_io: make a flush from above fail if one of the target's own has failed.
 * Do not consume a pending report on a bio that already failed.
 */
void dmr_flush_tell(struct dmr_meta *meta, blk_status_t *error);
#ifndef DMR_NO_TABLE

/*
 * Note that a flush of the base has failed: have the next write-back take back what
 * the target copied there. @at_once: run it now. Anywhere.
 */
void dmr_flush_base_lost(struct dmr_table *t, bool at_once);
#endif

#endif
