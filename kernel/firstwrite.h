/* SPDX-License-Identifier: GPL-2.0 */
/*
 * First writes wait until their bits are stable; see firstwrite.c for the rule.
 */
#ifndef DMR_FIRSTWRITE_H
#define DMR_FIRSTWRITE_H

#include "dmr.h"

void dmr_first_write_init(struct dmr_meta *meta);
/* For a noflush suspend: push back first writes that wait, until told otherwise. Sleeps. */
void dmr_first_write_requeue(struct dmr_meta *meta, bool requeue);

#endif
