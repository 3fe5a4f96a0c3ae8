/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of the index that are not in a file yet: a hash table in memory. Keys are spread
 * evenly, so their high bits say where they are, and the table is nearly sorted at all times.
 */
#ifndef RD_GATHER_H
#define RD_GATHER_H

#include "run.h"

/*
 * No more entries are gathered: with them the table, of 4 MiB, is as full as it gets. 6 MiB are in
 * use while it grows. Tests come there sooner.
 */
#ifdef RD_TEST
#define RD_GATHER_MAX	3000
#else
#define RD_GATHER_MAX	(3U << 16)
#endif

struct rd_gather {
	struct rd_index_run_entry *entries;	/* no place: nothing is there */
	u64 size;			/* a power of two; SLACK more are behind it */
	u64 nr;
};

/* Add an entry, or change its place. -ENOSPC: there are too many. */
int rd_gather_add(struct rd_gather *gather, u64 key, u64 place);
bool rd_gather_find(const struct rd_gather *gather, u64 key, u64 *ret_place);

/* Sort: the entries are the first gather->nr then, and only rd_gather_clear() may follow. */
void rd_gather_sort(struct rd_gather *gather);
void rd_gather_clear(struct rd_gather *gather);

#endif
