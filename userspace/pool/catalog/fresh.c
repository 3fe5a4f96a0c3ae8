// SPDX-License-Identifier: GPL-2.0
/* What the last pass over the pool has not seen: see fresh.h. */
#include <errno.h>

#include "fresh.h"
#include "sql.h"

int rd_fresh_mark(struct rd_sql *sql, i64 recipe, bool moved)
{
	return rd_sql_run(sql, "INSERT OR REPLACE INTO fresh SELECT ?, number FROM pass"
			  " WHERE reads_places >= ?", "ii", recipe, (i64)moved);
}

int rd_fresh_remove(struct rd_sql *sql, i64 recipe)
{
	return rd_sql_run(sql, "DELETE FROM fresh WHERE recipe = ?", "i", recipe);
}

int rd_fresh_pass(struct rd_sql *sql, struct rd_fresh_pass *ret)
{
	i64 row[6];
	int r = rd_sql_numbers(sql, &row, "SELECT number, closed, least_run, slices, slice,"
			       " reads_places FROM pass", "");

	if (!r)
		*ret = (struct rd_fresh_pass){ row[0], row[1], row[2], row[3], row[4], row[5] };
	return r;
}

int rd_fresh_set_pass(struct rd_sql *sql, const struct rd_fresh_pass *pass)
{
	return rd_sql_run(sql, "INSERT OR REPLACE INTO pass VALUES(1, ?, ?, ?, ?, ?, ?)", "iiiiii",
			  pass->number, (i64)pass->closed, (i64)pass->least_run,
			  (i64)pass->slices, (i64)pass->slice, (i64)pass->reads_places);
}

int rd_fresh_update_pass(struct rd_sql *sql, const struct rd_fresh_pass *pass)
{
	int r = rd_sql_run(sql, "UPDATE pass SET closed = ?2, least_run = ?3, slices = ?4,"
			   " slice = ?5, reads_places = ?6 WHERE number = ?1", "iiiiii",
			   pass->number, (i64)pass->closed, (i64)pass->least_run,
			   (i64)pass->slices, (i64)pass->slice, (i64)pass->reads_places);

	return r || rd_sql_changed(sql) ? r : -ENOENT;
}

int rd_fresh_set_reads_places(struct rd_sql *sql, bool reads_places)
{
	return rd_sql_run(sql, "UPDATE pass SET reads_places = ?", "i", (i64)reads_places);
}

int rd_fresh_forget(struct rd_sql *sql)
{
	int r = rd_sql_run(sql, "DELETE FROM pass", "");

	return r ? r : rd_sql_run(sql, "DELETE FROM fresh", "");
}

int rd_fresh_count(struct rd_sql *sql, u64 *ret_fresh, u64 *ret_all)
{
	int r = rd_sql_get(sql, ret_fresh, "SELECT count(*) FROM fresh", "");

	*ret_all = 0;
	return r ? r : rd_sql_get(sql, ret_all, "SELECT count(*) FROM uses", "");
}

int rd_fresh_recipes(struct rd_sql *sql, struct rd_row **ret)
{
	return rd_sql_ask(sql, ret, "SELECT id FROM fresh CROSS JOIN recipe ON id = fresh.recipe"
			  " ORDER BY frame, id", "");
}

int rd_fresh_clear(struct rd_sql *sql, i64 number, unsigned int max, i64 *last)
{
	i64 end;
	int r;

	r = rd_sql_number(sql, &end, "SELECT coalesce(max(recipe), -1) FROM (SELECT recipe"
			  " FROM fresh WHERE recipe > ? ORDER BY recipe LIMIT ?)", "ii", *last,
			  (i64)max);
	if (!r && end < 0)
		return -ENOENT;
	if (!r)
		r = rd_sql_run(sql, "DELETE FROM fresh WHERE recipe > ? AND recipe <= ?"
			       " AND pass < ?", "iii", *last, end, number);
	*last = end;
	return r;
}
