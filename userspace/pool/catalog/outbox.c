// SPDX-License-Identifier: GPL-2.0
/* The changes that the journal does not have yet. */
#include <errno.h>

#include "outbox.h"
#include "sql.h"

int rd_outbox_next(struct rd_sql *sql, u64 after, u64 *ret_generation,
		   struct rd_buffer *changes)
{
	RD_ROW struct rd_row *row = NULL;
	const void *blob;
	size_t len;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT generation, changes FROM outbox WHERE generation > ?"
		       " ORDER BY generation LIMIT 1", "i", (i64)after);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -ENOENT;
	*ret_generation = rd_row_i64(row, 0);
	blob = rd_row_blob(row, 1, &len);
	changes->len = 0;
	return rd_buffer_put(changes, blob, len);
}

int rd_outbox_count(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM outbox", "");
}

int rd_outbox_is_ahead(struct rd_sql *sql, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM outbox WHERE generation >"
			  " (SELECT generation FROM state)", "");
}

int rd_outbox_put(struct rd_sql *sql, const struct rd_buffer *changes)
{
	return rd_sql_run(sql, "INSERT INTO outbox SELECT generation, ? FROM state", "b",
			  changes->data, changes->len);
}

int rd_outbox_clear(struct rd_sql *sql, u64 generation)
{
	return rd_sql_run(sql, "DELETE FROM outbox WHERE generation <= ?", "i", (i64)generation);
}
