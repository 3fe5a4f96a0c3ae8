/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The beginning of an outage, and events. dirty.c ends an outage, firstwrite.c decides
 * which writes wait for that.
 */
#ifndef DMR_OUTAGE_H
#define DMR_OUTAGE_H

#include "dmr.h"

/* Begin an outage, unless one goes on: @what failed with error @r. Under meta->lock. */
void dmr_outage_begin(struct dmr_meta *meta, const char *what, int r);
/* Raise an event: what dmr_is_lost() says has changed, or the like. Under meta->lock. */
void dmr_outage_event(struct dmr_meta *meta);

#endif
