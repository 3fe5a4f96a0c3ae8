/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table outbox: the changes of transactions that are committed and that the journal
 * may not have yet. rd_catalog_commit() fills it.
 */
#ifndef RD_OUTBOX_H
#define RD_OUTBOX_H

#include "base/buffer.h"
#include "db.h"

/*
 * Read the changes of the first generation after @after: @changes has these alone then.
 * -ENOENT: there is none.
 */
int rd_outbox_next(struct rd_sql *sql, u64 after, u64 *ret_generation,
		   struct rd_buffer *changes);

/* Forget the changes of all generations up to @generation: the journal has them. */
int rd_outbox_clear(struct rd_sql *sql, u64 generation);

#endif
