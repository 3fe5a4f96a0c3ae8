/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The message shed: give space of the base back.
 */
#ifndef DMR_SHED_H
#define DMR_SHED_H

#include "dmr.h"

/*
 * Discard on the base the units within @ranges of which no block is BASE. @zeroed: the base
 * reads zeros there for good, so blocks that are ZERO come home. Under message_lock; 0 or
 * -errno, which is in the log.
 */
int dmr_shed(struct dmr_table *t, const char *ranges, bool zeroed);

#endif
