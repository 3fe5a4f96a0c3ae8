/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the blocks of a volume are, as its metadata say it: a walk over runs.
 * What cannot be known is a run, too.
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
	struct dmr_entry place;	/* of the first block, the others in a row; KNOWN */
	u64 block;		/* of the metadata, where it says so */
};

/* A block of words or a page of entries. */
struct rd_entries {
	u64 block;		/* that was read last; 0: none */
	int r;			/* of that read */
	__le64 entries[DMR_SEG_BLOCKS];
};

struct rd_table_walk {
	const struct rd_meta *meta;
	u64 next, end;		/* blocks */
	struct rd_entries words;
	struct rd_entries page;
};

/* Over @len blocks from @first on, as far as the volume goes. */
void rd_table_walk_init(struct rd_table_walk *walk, const struct rd_meta *meta,
			u64 first, u64 len);

/* The next run, as long as it can be: true. False at the end. */
bool rd_table_walk_next(struct rd_table_walk *walk, struct rd_run *run);

#endif
