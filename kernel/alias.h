/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages that share blocks of the live volume with the pool. Under message_lock only;
 * 0 or -errno, which is in the log.
 */
#ifndef DMR_ALIAS_H
#define DMR_ALIAS_H

#include "dmr.h"

int dmr_watch(struct dmr_table *t, u64 token, const char *ranges);
/* Remove all marks. */
void dmr_unwatch(struct dmr_table *t);
int dmr_alias(struct dmr_table *t, u64 token, const char *ranges);

#endif
