/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SQL: sql.c is the only user of SQLite, and only the files of this folder have texts of
 * SQL, but for questions about JSON (host/qemu/qmp.h). db.h says what the functions return.
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
#include "db.h"

struct rd_sql_table;

int rd_sql_open(struct rd_sql **ret, const char *path, bool create, bool writable,
		const struct rd_sql_table *tables, unsigned int nr_tables);

/*
 * The database is one that we know. Until then a close copies nothing from its log: what is
 * refused stays as it is. One that was created needs no such call.
 */
void rd_sql_accept(struct rd_sql *sql);

/* Open an empty database in memory. */
int rd_sql_open_memory(struct rd_sql **ret);

/* Run several statements without arguments. */
int rd_sql_script(struct rd_sql *sql, const char *text);

int rd_sql_run(struct rd_sql *sql, const char *text, const char *types, ...);

/* Run a statement with @nr values whose types are known only at run time. */
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
/* Read the next row, whose columns are the members of *@ret, each a number of 64 bits. */
#define rd_row_next_numbers(row, ret)						\
	rd_row_next_i64s(row, (i64 *)(ret), sizeof(*(ret)) / sizeof(i64))
int rd_row_next_i64s(struct rd_row *row, i64 *ret, unsigned int nr);
/* The same for a row of two numbers. */
int rd_row_next_two(struct rd_row *row, i64 *ret_first, i64 *ret_second);
/* Text and blobs last until the next row. */
const char *rd_row_text(struct rd_row *row, unsigned int column);
const void *rd_row_blob(struct rd_row *row, unsigned int column, size_t *ret_len);
/* Copy a blob of @len bytes. false: it has more, or fewer. */
bool rd_row_copy(struct rd_row *row, unsigned int column, void *ret, size_t len);

/* Read one row, whose columns are the members of *@ret, as above. -ENOENT: there is none. */
#define rd_sql_numbers(sql, ret, ...)						\
	rd_sql_i64s(sql, (i64 *)(ret), sizeof(*(ret)) / sizeof(i64), __VA_ARGS__)
int rd_sql_i64s(struct rd_sql *sql, i64 *ret, unsigned int nr, const char *text,
		const char *types, ...);
/* Read one number. -ENOENT: there is no row. */
#define rd_sql_number(sql, ret, ...)	rd_sql_i64s(sql, ret, 1, __VA_ARGS__)
/* The same for a number of any type; 0 after an error. */
#define rd_sql_get(sql, ret, ...)						\
({										\
	i64 number_ = 0;							\
	int r_ = rd_sql_number(sql, &number_, __VA_ARGS__);			\
										\
	*(ret) = number_;							\
	r_;									\
})

/* Return the rowid of the row inserted last, and how many rows the last change changed. */
i64 rd_sql_last_id(struct rd_sql *sql);
int rd_sql_changed(struct rd_sql *sql);

/* In a transaction: a number that is another one when other processes have changed anything. */
int rd_sql_changed_by_others(struct rd_sql *sql, i64 *ret);

/* Return the changes of the transaction so far: see changes.h. */
struct rd_buffer *rd_sql_changes(struct rd_sql *sql);

/* Append the row to @to as if it had just been put into @table. */
void rd_row_note(struct rd_row *row, unsigned int table, struct rd_buffer *to);

/* RD_PACKED_FRAMES for texts: frames below it are ordinary ones. */
#define RD_SQL_PACKED_FRAMES	68719476736

/* Turn a macro that is a number into a text for SQL. */
#define RD_SQL_NUMBER(number)	RD_SQL_NUMBER_(number)
#define RD_SQL_NUMBER_(number)	#number

#endif
