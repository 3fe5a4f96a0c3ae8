// SPDX-License-Identifier: GPL-2.0
/* Rules of volumes. */
#include <errno.h>

#include "rules.h"
#include "sql.h"

int rd_rule_read(struct rd_sql *sql, i64 volume, struct rd_rule *ret)
{
	RD_ROW struct rd_row *row = NULL;
	i64 pieces, dedup;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT pieces, dedup FROM rule WHERE volume = ?", "i", volume);
	if (!r)
		r = rd_row_next(row);
	if (r <= 0)
		return r ? r : -ENOENT;
	pieces = rd_row_i64(row, 0);
	dedup = rd_row_i64(row, 1);
	if (pieces < 1 || pieces > RD_SEG_BLOCKS || dedup < 0 || dedup > RD_DEDUP_INLINE)
		return -EUCLEAN;
	*ret = (struct rd_rule){ .pieces = pieces, .dedup = dedup };
	return 0;
}

int rd_rule_set(struct rd_sql *sql, i64 volume, const struct rd_rule *rule)
{
	return rd_sql_run(sql, "INSERT OR REPLACE INTO rule VALUES(?, ?, ?)", "iii", volume,
			  (i64)rule->pieces, (i64)rule->dedup);
}

int rd_rule_remove(struct rd_sql *sql, i64 volume)
{
	return rd_sql_run(sql, "DELETE FROM rule WHERE volume = ?", "i", volume);
}
