/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The worker that takes the bios which map could not send on.
 */
#ifndef DMR_DEFERRED_H
#define DMR_DEFERRED_H

#include "dmr.h"

void dmr_deferred_init(struct dmr_table *t);

#endif
