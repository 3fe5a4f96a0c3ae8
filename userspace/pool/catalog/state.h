/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table state: one row with the pool's UUID, the generation of the catalog, and the
 * end of the journal.
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
	u64 super_seq;		/* the superblock's sequence number when @end was noted */
	struct rd_journal_end end;	/* everything before it is stable */
};

/* Insert the row of a new catalog: generation 0, the journal is empty and in frame 0. */
int rd_state_insert(struct rd_sql *sql, const u8 uuid[16], u64 journal);

/* Read the UUID of the pool that the catalog belongs to. 1: the catalog has none. */
int rd_state_uuid(struct rd_sql *sql, u8 uuid[16]);

int rd_state_generation(struct rd_sql *sql, u64 *ret);

/* Count one more generation; in a transaction. */
int rd_state_next_generation(struct rd_sql *sql);
/* Set the generation of a catalog that is made anew; in a transaction. */
int rd_state_set_generation(struct rd_sql *sql, u64 generation);

/* Read the row. -EUCLEAN: it is missing. */
int rd_state_read(struct rd_sql *sql, struct rd_state *ret);

/* Note that the catalog agrees with the journal that @super names, up to @end. */
int rd_state_put_end(struct rd_sql *sql, const struct rd_pool_super *super,
		     const struct rd_journal_end *end);

#endif
