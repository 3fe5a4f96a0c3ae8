/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table session: commands that write, or wrote and died. A session is alive while a
 * process holds its lock (RD_LOCK_SESSION); the row says what the session has to undo. Its
 * number is random: the journal has it, and tells copies of a pool apart by it.
 */
#ifndef RD_SESSIONS_H
#define RD_SESSIONS_H

#include "base/buffer.h"
#include "db.h"

/* The greatest number, which leaves room for the numbers that SQLite would give. */
#define RD_SESSION_MAX	(1ULL << 40)

struct rd_session {
	i64 id;
	i64 pid;
	char verb[32];
	i64 started;
};

/* Insert or delete a session, in a transaction. */
int rd_session_insert(struct rd_sql *sql, const char *verb, i64 *ret_id);
/* Is there a row of session @id? */
int rd_session_exists(struct rd_sql *sql, i64 id, bool *ret);
int rd_session_delete(struct rd_sql *sql, i64 id);

/* Tell users of the process @pid, and not of that which has inserted the session. */
int rd_session_set_pid(struct rd_sql *sql, i64 id, i64 pid);

/* Find the version that the session writes, or 0. -ENOENT: there is no such session. */
int rd_session_version(struct rd_sql *sql, i64 id, i64 *ret_version);
/* Note, in a transaction, that the session writes @version; 0: it writes none any more. */
int rd_session_set_version(struct rd_sql *sql, i64 id, i64 version);

/* Find the next session after *@id that is not @own, and set *@id. -ENOENT: no more. */
int rd_session_next(struct rd_sql *sql, i64 own, i64 *id);

/* Append a struct rd_session for each session but @own. */
int rd_session_list(struct rd_sql *sql, i64 own, struct rd_buffer *ret);

#endif
