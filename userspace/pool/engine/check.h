/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recount everything that the catalog counts, and compare the catalog with what
 * the data area has allocated. Reads no data.
 */
#ifndef RD_CHECK_H
#define RD_CHECK_H

#include "pool/pool.h"

struct rd_check_report {
	/* Each thing that is wrong, in a sentence. */
	void (*wrong)(void *ctx, const char *text);
	void *ctx;
	u64 nr_wrong;
	bool is_unreadable;	/* the catalog: only its pages were looked at */
	u64 nr_recipes;
	u64 nr_versions;
	u64 live_bytes;		/* blocks that recipes have */
	u64 allocated_bytes;	/* of the data area, where that is known */
};

/* Of the catalog alone. 0 even where something is wrong: see the report. */
int rd_check_catalog(struct rd_pool *pool, struct rd_check_report *report);

/* The same, and of what the data area has allocated. */
int rd_check(struct rd_pool *pool, struct rd_check_report *report);

#endif
