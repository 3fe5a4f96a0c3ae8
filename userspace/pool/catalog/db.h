/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The catalog as a database: transactions, and rows that a function of this folder has
 * asked for. The text of SQL, and what takes it (sql.h), stay inside this folder.
 *
 * Every function returns 0 or -errno: -EBUSY if another process keeps writing, -ENOSPC,
 * -EUCLEAN if the database is damaged, -EIO. Of these, all but -EBUSY and -ENOENT have
 * been reported to the user.
 */
#ifndef RD_DB_H
#define RD_DB_H

#include "base/units.h"

struct rd_sql;

void rd_sql_close(struct rd_sql *sql);

/*
 * Move everything into the database file itself, stable, so that it may be closed and
 * renamed without its log. Closing does the same, but does not report a failure.
 */
int rd_sql_settle(struct rd_sql *sql);

/* Read and check all pages of the file. -EUCLEAN: *@ret_page is the first bad one. */
int rd_sql_check_pages(struct rd_sql *sql, u64 *ret_page);

/* --- rows */

/*
 * The rows of one question. A row is read by the rd_next_...() that the header of the
 * question names: 1 a row, 0 no more (and the rows are given back), -errno. Text and
 * blobs of a row last until the next one.
 *
 *	RD_ROW struct rd_row *rows = NULL;
 *	r = rd_frame_recipes(sql, &rows, frame);
 *	while (!r && (r = rd_next_id(rows, &id)) > 0)
 *		r = ...;
 */
struct rd_row;

void rd_row_done(struct rd_row *row);

static inline void rd_row_done_p(struct rd_row **row)
{
	rd_row_done(*row);
}

#define RD_ROW	__attribute__((cleanup(rd_row_done_p)))

/* Read a row that is one number. */
int rd_next_id(struct rd_row *rows, i64 *ret);

/* --- transactions */

/* Begin a transaction that reads one state of the catalog; it may be inside another one. */
int rd_sql_begin_read(struct rd_sql *sql);
void rd_sql_end_read(struct rd_sql *sql);

/* Both around @look, which is a result or -errno. */
#define rd_sql_look(sql, look)							\
({										\
	struct rd_sql *sql_ = (sql);						\
	int r_ = rd_sql_begin_read(sql_);					\
										\
	if (!r_) {								\
		r_ = (look);							\
		rd_sql_end_read(sql_);						\
	}									\
	r_;									\
})

/*
 * Begin, commit, or roll back a transaction that writes. It excludes all other writers. Its
 * changes do not go to the journal: rd_catalog_begin() begins one whose changes do.
 */
int rd_sql_begin(struct rd_sql *sql);
int rd_sql_commit(struct rd_sql *sql);
void rd_sql_rollback(struct rd_sql *sql);

/*
 * May a transaction whose commit failed be there after a crash? All of it is in the log once that
 * was to be flushed, and is until the next transaction that changes anything. What it uses must
 * not be touched before.
 */
bool rd_sql_is_unsure(const struct rd_sql *sql);

/*
 * Pause between two of many transactions. A process that waits to write polls for the lock,
 * and would hardly ever find it free without a pause.
 */
void rd_sql_pause(void);

/* Stop noting changes: those that are read from the journal need not go back to it. */
void rd_sql_note_nothing(struct rd_sql *sql);

#endif
