/* SPDX-License-Identifier: GPL-2.0 */
/* What the inline snapshots of a pool looked up, as far as it is recorded. */
#ifndef RD_LOOKUPS_H
#define RD_LOOKUPS_H

#include "pool/index/lookup_log.h"
#include "pool/pool.h"

/* Append struct rd_lookup_entry, the oldest first: at least the last 1,000. Says what is wrong. */
int rd_lookups(const struct rd_pool *pool, struct rd_buffer *ret);

#endif
