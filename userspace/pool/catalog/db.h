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

#include <stdbool.h>

#include "base/units.h"

struct rd_sql;

void rd_sql_close(struct rd_sql *sql);

/*
 * Have everything in the file itself, stable, and nothing beside it: after that it
 * may be closed and renamed. Closing does the same, and does not say if it failed.
 */
int rd_sql_settle(struct rd_sql *sql);

/* Read all pages of the file: -EUCLEAN and the number of the first bad one. */
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

/* Rows that are one number each. */
int rd_next_id(struct rd_row *rows, i64 *ret);

/* --- transactions */

/* A transaction that reads sees one state; it may be inside another one. */
int rd_sql_begin_read(struct rd_sql *sql);
void rd_sql_end_read(struct rd_sql *sql);

/*
 * A transaction that writes. It is alone, from begin on. The journal learns nothing of
 * it: see rd_catalog_begin().
 */
int rd_sql_begin(struct rd_sql *sql);
int rd_sql_commit(struct rd_sql *sql);
void rd_sql_rollback(struct rd_sql *sql);

/*
 * Wait between one transaction and the next of many: a process that waits to write looks
 * now and then if it can, and would hardly ever hit on the moment in between.
 */
void rd_sql_pause(void);

/* What comes from the journal need not go there, nor be in memory as a whole. */
void rd_sql_note_nothing(struct rd_sql *sql);

#endif
