/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table state: one row that says how far the catalog and its journal are. The row
 * also has the pool's UUID, see rd_catalog_uuid(), and rd_catalog_commit() counts its
 * generation.
 */
#ifndef RD_STATE_H
#define RD_STATE_H

#include "pool/data/area.h"
#include "db.h"

/* Where the end of the journal is, and the last part before it, unless @seq is 0. */
struct rd_journal_end {
	u64 frame;
	unsigned int block;
	u64 seq;
	u64 generation;
	u64 dump_blocks;
	u64 last_frame;
	unsigned int last_block;
	u32 last_crc;
};

struct rd_state {
	u64 generation;		/* of the catalog */
	u64 journal;		/* the number of the journal that the catalog follows */
	u64 super_seq;		/* the sequence number of the superblock at that time */
	struct rd_journal_end end;	/* all before it is stable */
};

/* -EUCLEAN: the row is missing. */
int rd_state_read(struct rd_sql *sql, struct rd_state *ret);

/* Note that the catalog is in step with the journal that @super names, up to @end. */
int rd_state_put_end(struct rd_sql *sql, const struct rd_pool_super *super,
		     const struct rd_journal_end *end);

#endif
