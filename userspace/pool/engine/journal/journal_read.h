/* SPDX-License-Identifier: GPL-2.0 */
/* Read the journal: nothing here needs a catalog. See journal.h. */
#ifndef RD_JOURNAL_READ_H
#define RD_JOURNAL_READ_H

#include "pool/catalog/state.h"
#include "pool/data/area.h"

struct rd_change;

/* A transaction as the journal has it; a mark has no bytes. */
struct rd_journal_entry {
	u64 generation;
	u64 session;
	const void *changes;
	size_t len;
};

/*
 * Called for each change, for each transaction behind the dump, and for each frame that a link
 * leads to; or NULL.
 */
struct rd_journal_reader {
	int (*change)(void *ctx, const struct rd_change *change);
	int (*entry)(void *ctx, const struct rd_journal_entry *entry);
	int (*frame)(void *ctx, u64 frame);
	void *ctx;
};

/* Read the journal from @end on, and move @end to the end of the last whole transaction. */
int rd_journal_read(const struct rd_area *area, struct rd_journal_end *end,
		    const struct rd_journal_reader *reader);

/* Move @at behind all parts that can be read, also those of a transaction that was never whole. */
int rd_journal_skip(const struct rd_area *area, struct rd_journal_end *at);

/* Does a part of the journal come after @end that cannot be read? */
int rd_journal_is_cut(const struct rd_area *area, const struct rd_journal_end *end,
		      bool *ret);

#endif
