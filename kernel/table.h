/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of a remap table, and what is counted of it. All of these sleep.
 */
#ifndef DMR_TABLE_H
#define DMR_TABLE_H

#include "dmr.h"

/* What the status line says of a remap table. */
struct dmr_counts {
	u64 base;			/* blocks */
	u64 zero;
	u64 pool;
	u64 page_reads;
	u64 groups_read;
	unsigned int pack_mib;
	unsigned int waiting;		/* pages with changes */
	bool failed;			/* the last write-back */
};

/* Make a table of the size that the superblock says, or an ERR_PTR. Under meta->lock. */
struct dmr_table *dmr_table_create(struct dmr_meta *meta, unsigned int max_pages);
void dmr_table_destroy(struct dmr_table *t);
/*
 * Read the words, or with @fresh make all BASE, before another thread uses it, with the devices
 * that dmr_table_use() has taken. Under meta->lock.
 */
int dmr_table_load(struct dmr_table *t, bool fresh);
/* Take the devices of the live target, which is suspended. Under meta->lock. */
void dmr_table_use(struct dmr_table *t, struct dmr_target *rt,
		   unsigned int max_pages);
/* Adopt another size of the volume, which is suspended. Under meta->lock and message_lock. */
int dmr_table_resize(struct dmr_table *t, u64 volume_sectors);
/* Have the next write-back make stable what was read, which may be in a cache only. */
void dmr_table_distrust(struct dmr_table *t);
/* Have the next write-back write hints, too. */
void dmr_table_write_hints(struct dmr_table *t);
/* End the work in the background; no target is left. */
void dmr_table_stop(struct dmr_table *t);

/* Does the live table line want a remap table, and has it a pool? Under message_lock. */
bool dmr_table_is_used(struct dmr_table *t);
bool dmr_table_has_pool(struct dmr_table *t);
void dmr_table_count(struct dmr_table *t, struct dmr_counts *counts);

#endif
