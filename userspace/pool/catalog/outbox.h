/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table outbox: the changes of committed transactions that the journal may not have
 * yet. Each row is one generation of the catalog. rd_catalog_end() fills the table.
 */
#ifndef RD_OUTBOX_H
#define RD_OUTBOX_H

#include "base/buffer.h"
#include "db.h"

/* Put @changes into the outbox as those of the present generation; in a transaction. */
int rd_outbox_put(struct rd_sql *sql, const struct rd_buffer *changes);

/* Count the generations in the outbox. */
int rd_outbox_count(struct rd_sql *sql, u64 *ret);

/* Has it a generation that the catalog has not come to? No command leaves one. */
int rd_outbox_is_ahead(struct rd_sql *sql, bool *ret);

/*
 * Read the changes of the first generation after @after, and replace the content of
 * @changes with them. -ENOENT: there is no such generation.
 */
int rd_outbox_next(struct rd_sql *sql, u64 after, u64 *ret_generation,
		   struct rd_buffer *changes);

/* Forget the changes of all generations up to @generation: the journal has them. */
int rd_outbox_clear(struct rd_sql *sql, u64 generation);

#endif
