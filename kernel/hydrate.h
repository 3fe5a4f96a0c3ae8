/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copy blocks home in the background.
 */
#ifndef DMR_HYDRATE_H
#define DMR_HYDRATE_H

#include "dmr.h"

void dmr_hydrate_init(struct dmr_table *t);

/* Record that it is on, with a limit of @mib MiB/s (0: none). Under meta->lock. */
int dmr_hydrate_start(struct dmr_table *t, u32 mib);
/* Record that it is off. Under meta->lock. */
int dmr_hydrate_stop(struct dmr_table *t);
/* "on", "off" or "paused". Under meta->lock. */
const char *dmr_hydrate_state(struct dmr_table *t);

/* Have no copies from the return of this until dmr_hydrate_resume(). Sleeps. */
void dmr_hydrate_pause(struct dmr_table *t);
void dmr_hydrate_resume(struct dmr_table *t);
/* Look for something to copy, unless it is paused. Sleeps. */
void dmr_hydrate_kick(struct dmr_table *t);

#endif
