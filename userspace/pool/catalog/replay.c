// SPDX-License-Identifier: GPL-2.0
/* Rows as the journal has them. */
#include "replay.h"
#include "sql.h"

static const char *const put_texts[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = "INSERT OR REPLACE INTO volume VALUES(?, ?, ?, ?)",
	[RD_TABLE_VERSION] = "INSERT OR REPLACE INTO version"
		" VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[RD_TABLE_TAG] = "INSERT OR REPLACE INTO tag VALUES(?, ?, ?)",
	[RD_TABLE_SEGMENT] = "INSERT OR REPLACE INTO segment VALUES(?, ?, ?, ?)",
	[RD_TABLE_RECIPE] = "INSERT OR REPLACE INTO recipe VALUES(?, ?, ?, ?)",
	[RD_TABLE_SUPERSEDED] = "INSERT OR REPLACE INTO superseded VALUES(?, ?)",
	[RD_TABLE_LEASE] = "INSERT OR REPLACE INTO lease VALUES(?, ?, ?, ?, ?)",
	[RD_TABLE_PACK] = "INSERT OR REPLACE INTO pack VALUES(?, ?, ?, ?)",
	[RD_TABLE_RULE] = "INSERT OR REPLACE INTO rule VALUES(?, ?, ?)",
};

static const char *const delete_texts[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = "DELETE FROM volume WHERE id = ?",
	[RD_TABLE_VERSION] = "DELETE FROM version WHERE id = ?",
	[RD_TABLE_TAG] = "DELETE FROM tag WHERE volume = ? AND tag = ?",
	[RD_TABLE_SEGMENT] = "DELETE FROM segment WHERE volume = ? AND segment = ? AND born = ?",
	[RD_TABLE_RECIPE] = "DELETE FROM recipe WHERE id = ?",
	[RD_TABLE_SUPERSEDED] = "DELETE FROM superseded WHERE recipe = ? AND volume = ?",
	[RD_TABLE_LEASE] = "DELETE FROM lease WHERE id = ?",
	[RD_TABLE_PACK] = "DELETE FROM pack WHERE frame = ?",
	[RD_TABLE_RULE] = "DELETE FROM rule WHERE volume = ?",
};

int rd_replay_change(struct rd_sql *sql, const struct rd_change *change)
{
	const char *const *texts = change->what == RD_CHANGE_PUT ? put_texts : delete_texts;

	return rd_sql_run_values(sql, texts[change->table], change->values, change->nr_values);
}

int rd_replay_session(struct rd_sql *sql)
{
	return rd_sql_run(sql, "INSERT INTO session(pid, verb, started, version)"
			  " VALUES(0, 'before the repair', 0, 0)", "");
}
