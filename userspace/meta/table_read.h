/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Find where the blocks of a volume are, as its metadata says: a walk over runs. Blocks
 * whose location is unknown are runs, too.
 */
#ifndef RD_TABLE_READ_H
#define RD_TABLE_READ_H

#include "read.h"

enum rd_run_state {
	RD_RUN_KNOWN,
	RD_RUN_DAMAGED,		/* an entry, or the word of the segment, is invalid */
	RD_RUN_UNREADABLE,	/* the page or the words cannot be read */
};

struct rd_run {
	u64 first;
	u64 len;
	enum rd_run_state state;
	struct dmr_entry place;	/* of the first block, the others follow; if KNOWN */
	u64 block;		/* of the metadata, which says so */
};

/* A block of words or a page of entries. */
struct rd_entries {
	u64 block;		/* the one read last; 0: none */
	int r;			/* the result of that read */
	__le64 entries[DMR_SEG_BLOCKS];
};

struct rd_table_walk {
	const struct rd_meta *meta;
	u64 next, end;		/* blocks */
	struct rd_entries words;
	struct rd_entries page;
};

/* Begin a walk over @len blocks from @first on, up to the end of the volume. */
void rd_table_walk_init(struct rd_table_walk *walk, const struct rd_meta *meta,
			u64 first, u64 len);

/* Step to the next run, as long as possible. False at the end. */
bool rd_table_walk_next(struct rd_table_walk *walk, struct rd_run *run);

/*
 * Count the segments with a block that is not home: their pages may change while none is added.
 * The word of a segment may be older than what the target has, and then counts. Words that
 * cannot be read count as well.
 */
u64 rd_table_count_away(const struct rd_meta *meta);

#endif
