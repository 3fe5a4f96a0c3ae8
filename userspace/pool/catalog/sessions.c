// SPDX-License-Identifier: GPL-2.0
/* Commands that write, or wrote and died. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "sessions.h"
#include "sql.h"

int rd_session_insert(struct rd_sql *sql, const char *verb, i64 *ret_id)
{
	u64 id;
	int r;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return rd_err(-errno, "no random number");
	*ret_id = (id & (RD_SESSION_MAX - 1)) + 1;
	/* SQLite counts up first: a number of ours would write that page for some, not for all. */
	r = rd_sql_run(sql, "INSERT INTO session(pid, verb, started, version)"
		       " VALUES(?, ?, ?, 0)", "iti", (i64)getpid(), verb, (i64)time(NULL));
	return r ? r : rd_sql_run(sql, "UPDATE session SET id = ? WHERE id = ?", "ii", *ret_id,
				  rd_sql_last_id(sql));
}

int rd_session_exists(struct rd_sql *sql, i64 id, bool *ret)
{
	return rd_sql_get(sql, ret, "SELECT count(*) FROM session WHERE id = ?", "i", id);
}

int rd_session_delete(struct rd_sql *sql, i64 id)
{
	return rd_sql_run(sql, "DELETE FROM session WHERE id = ?", "i", id);
}

int rd_session_version(struct rd_sql *sql, i64 id, i64 *ret_version)
{
	return rd_sql_number(sql, ret_version, "SELECT version FROM session WHERE id = ?", "i",
			     id);
}

int rd_session_set_pid(struct rd_sql *sql, i64 id, i64 pid)
{
	return rd_sql_run(sql, "UPDATE session SET pid = ? WHERE id = ?", "ii", pid, id);
}

int rd_session_set_version(struct rd_sql *sql, i64 id, i64 version)
{
	return rd_sql_run(sql, "UPDATE session SET version = ? WHERE id = ?", "ii", version, id);
}

int rd_session_next(struct rd_sql *sql, i64 own, i64 *id)
{
	return rd_sql_number(sql, id, "SELECT id FROM session WHERE id > ? AND id <> ?"
			     " ORDER BY id LIMIT 1", "ii", *id, own);
}

int rd_session_list(struct rd_sql *sql, i64 own, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *row = NULL;
	const char *verb;
	int r;

	r = rd_sql_ask(sql, &row, "SELECT id, pid, verb, started FROM session WHERE id <> ?",
		       "i", own);
	while (!r && (r = rd_row_next(row)) > 0) {
		struct rd_session session = {
			.id = rd_row_i64(row, 0),
			.pid = rd_row_i64(row, 1),
			.started = rd_row_i64(row, 3),
		};

		verb = rd_row_text(row, 2);
		snprintf(session.verb, sizeof(session.verb), "%s", verb ? verb : "");
		r = rd_buffer_put(ret, &session, sizeof(session));
	}
	return r;
}
