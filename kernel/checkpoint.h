/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Epochs in two phases. Under meta->lock; 0 or -errno, which is in the log.
 */
#ifndef DMR_CHECKPOINT_H
#define DMR_CHECKPOINT_H

#include "dmr.h"

int dmr_checkpoint(struct dmr_meta *meta, struct block_device *base, u64 epoch);
int dmr_commit(struct dmr_meta *meta, u64 epoch, u64 version);
int dmr_abort(struct dmr_meta *meta, u64 epoch);
int dmr_mark(struct dmr_meta *meta, const char *ranges);

#endif
