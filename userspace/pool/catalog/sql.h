/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only user of SQLite. Everything returns 0 or -errno: -EBUSY somebody else
 * writes and goes on doing so, -ENOSPC, -EUCLEAN the database is damaged, -EIO.
 * Whatever is not -EBUSY or -ENOENT has been told to the user.
 *
 * Statements are prepared once and found again by the address of their text,
 * so the text must be a literal. Their arguments follow a string of types:
 *
 *	i  i64		t  const char *		b  const void *, size_t
 *
 * where a NULL pointer is NULL.
 *
 * Changes of the tables in rd_sql_tables are noted as they are made, for the
 * journal: see changes.h.
 */
#ifndef RD_SQL_H
#define RD_SQL_H

#include "base/buffer.h"

struct rd_sql;
struct rd_row;

/* A table whose changes are noted; its key is its first @nr_keys columns. */
struct rd_sql_table {
	const char *name;
	unsigned int nr_keys;
	unsigned int nr_columns;
};

int rd_sql_open(struct rd_sql **ret, const char *path, bool create, bool writable,
		const struct rd_sql_table *tables, unsigned int nr_tables);
void rd_sql_close(struct rd_sql *sql);

/*
 * Have everything in the file itself, stable, and nothing beside it: after that it
 * may be closed and renamed. Closing does the same, and does not say if it failed.
 */
int rd_sql_settle(struct rd_sql *sql);

/* Several statements, no arguments. */
int rd_sql_script(struct rd_sql *sql, const char *text);

int rd_sql_run(struct rd_sql *sql, const char *text, const char *types, ...);

/* The same with values that are known at run time only. */
struct rd_value;

int rd_sql_run_values(struct rd_sql *sql, const char *text, const struct rd_value *values,
		      unsigned int nr);

/*
 * For rows: 1 a row, 0 no more (and the row is given back), -errno.
 *
 *	RD_ROW struct rd_row *row = NULL;
 *	r = rd_sql_ask(sql, &row, "SELECT ...", "i", id);
 *	while (!r && (r = rd_row_next(row)) > 0)
 */
int rd_sql_ask(struct rd_sql *sql, struct rd_row **ret, const char *text,
	       const char *types, ...);
int rd_row_next(struct rd_row *row);
i64 rd_row_i64(struct rd_row *row, unsigned int column);
/* These last until the next row. */
const char *rd_row_text(struct rd_row *row, unsigned int column);
const void *rd_row_blob(struct rd_row *row, unsigned int column, size_t *ret_len);
void rd_row_done(struct rd_row *row);

static inline void rd_row_done_p(struct rd_row **row)
{
	rd_row_done(*row);
}

#define RD_ROW	__attribute__((cleanup(rd_row_done_p)))

/* One number; -ENOENT: no row. */
int rd_sql_number(struct rd_sql *sql, i64 *ret, const char *text, const char *types, ...);

/* The rowid of the row inserted last, and how many rows the last change had. */
i64 rd_sql_last_id(struct rd_sql *sql);
int rd_sql_changed(struct rd_sql *sql);

/* Read all pages of the file: -EUCLEAN and the number of the first bad one. */
int rd_sql_check_pages(struct rd_sql *sql, u64 *ret_page);

/* A transaction that reads sees one state; it may be inside another one. */
int rd_sql_begin_read(struct rd_sql *sql);
void rd_sql_end_read(struct rd_sql *sql);

/* A transaction that writes. It is alone, from begin on. */
int rd_sql_begin(struct rd_sql *sql);
int rd_sql_commit(struct rd_sql *sql);
void rd_sql_rollback(struct rd_sql *sql);

/*
 * Between one transaction and the next of many: those who wait to write look now and then
 * if they can, and would hardly ever hit on the moment in between.
 */
void rd_sql_pause(void);

/* What the transaction changed so far, see changes.h. */
struct rd_buffer *rd_sql_changes(struct rd_sql *sql);

/* What comes from the journal need not go there, nor be in memory as a whole. */
void rd_sql_note_nothing(struct rd_sql *sql);

/* Note the row as if it had just been put into table number @table. */
void rd_row_note(struct rd_row *row, unsigned int table, struct rd_buffer *to);

#endif
