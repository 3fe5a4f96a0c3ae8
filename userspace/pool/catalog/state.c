// SPDX-License-Identifier: GPL-2.0
/* How far the catalog and its journal are. */
#include <errno.h>
#include <string.h>

#include "sql.h"
#include "state.h"

int rd_state_read(struct rd_sql *sql, struct rd_state *ret)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT generation, journal_id, super_seq, journal_frame,"
		       " journal_block, journal_seq, journal_generation, dump_blocks,"
		       " last_frame, last_block, last_crc FROM state", "");
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -EUCLEAN;
	*ret = (struct rd_state){
		.generation = rd_row_i64(row, 0),
		.journal = rd_row_i64(row, 1),
		.super_seq = rd_row_i64(row, 2),
		.end = {
			.frame = rd_row_i64(row, 3),
			.block = rd_row_i64(row, 4),
			.seq = rd_row_i64(row, 5),
			.generation = rd_row_i64(row, 6),
			.dump_blocks = rd_row_i64(row, 7),
			.last_frame = rd_row_i64(row, 8),
			.last_block = rd_row_i64(row, 9),
			.last_crc = rd_row_i64(row, 10),
		},
	};
	return 0;
}

int rd_state_uuid(struct rd_sql *sql, u8 uuid[16])
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT uuid FROM state", "");
	if (!r)
		r = rd_row_next(row);
	return r < 0 ? r : !r || !rd_row_copy(row, 0, uuid, 16);
}

int rd_state_generation(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT generation FROM state", "");
}

int rd_state_insert(struct rd_sql *sql, const u8 uuid[16], u64 journal)
{
	return rd_sql_run(sql, "INSERT INTO state VALUES(1, ?, 0, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
			  "bi", uuid, (size_t)16, (i64)journal);
}

int rd_state_next_generation(struct rd_sql *sql)
{
	return rd_sql_run(sql, "UPDATE state SET generation = generation + 1", "");
}

int rd_state_put_end(struct rd_sql *sql, const struct rd_pool_super *super,
		     const struct rd_journal_end *end)
{
	return rd_sql_run(sql, "UPDATE state SET journal_id = ?, journal_frame = ?,"
			  " journal_block = ?, journal_seq = ?, journal_generation = ?,"
			  " dump_blocks = ?, last_frame = ?, last_block = ?, last_crc = ?,"
			  " super_seq = ?", "iiiiiiiiii", (i64)super->journal_id,
			  (i64)end->frame, (i64)end->block, (i64)end->seq, (i64)end->generation,
			  (i64)end->dump_blocks, (i64)end->last_frame, (i64)end->last_block,
			  (i64)end->last_crc, (i64)super->seq);
}

int rd_state_set_generation(struct rd_sql *sql, u64 generation)
{
	return rd_sql_run(sql, "UPDATE state SET generation = ?", "i", (i64)generation);
}
