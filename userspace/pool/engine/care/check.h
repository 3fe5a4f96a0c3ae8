/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recount everything that the catalog counts, and compare the catalog with the blocks that
 * the data area has allocated, without reading any data.
 */
#ifndef RD_CHECK_H
#define RD_CHECK_H

#include "pool/pool.h"

struct rd_check_report {
	/* Each thing that is wrong, in a sentence. */
	void (*wrong)(void *ctx, const char *text);
	void *ctx;
	u64 nr_wrong;
	bool is_unreadable;	/* the catalog is: only its pages were checked */
	u64 nr_recipes;
	u64 nr_versions;
	u64 live_bytes;		/* blocks that recipes have */
	u64 packed_bytes;	/* that packs take, with their fingerprints */
	u64 allocated_bytes;	/* of the data area, where that is known */
};

/* Check only the catalog. Returns 0 even if something is wrong: see the report. */
int rd_check_catalog(struct rd_pool *pool, struct rd_check_report *report);

/* Check the catalog, and compare it with the data area. */
int rd_check(struct rd_pool *pool, struct rd_check_report *report);

#endif
