/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages that share blocks of the live volume with the pool. Under message_lock only;
 * 0 or -errno, which is in the log.
 */
#ifndef DMR_ALIAS_H
#define DMR_ALIAS_H

#include "dmr.h"

int dmr_watch(struct dmr_table *t, const char *ranges);
int dmr_alias(struct dmr_table *t, const char *ranges);

#endif
