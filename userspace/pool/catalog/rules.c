// SPDX-License-Identifier: GPL-2.0
/* Rules of volumes. */
#include <errno.h>

#include "rules.h"
#include "sql.h"

int rd_rule_read(struct rd_sql *sql, i64 volume, struct rd_rule *ret)
{
	struct {
		u64 pieces, dedup;
	} rule;
	int r = rd_sql_numbers(sql, &rule, "SELECT pieces, dedup FROM rule WHERE volume = ?", "i",
			       volume);

	if (r)
		return r;
	if (!rule.pieces || rule.pieces > RD_SEG_BLOCKS || rule.dedup > RD_DEDUP_INLINE)
		return -EUCLEAN;
	*ret = (struct rd_rule){ .pieces = rule.pieces, .dedup = rule.dedup };
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
