/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a transaction's changes of the catalog are written down in the journal:
 * one after the other,
 *
 *	u8 what, u8 table, values
 *
 * A change that puts has all columns of the row, one that deletes those of its
 * key. A value is a byte with its type, then
 *
 *	NULL	nothing
 *	number	a zigzag varint
 *	text	a varint with the number of bytes, and these
 *	blob	the same
 */
#ifndef RD_CHANGES_H
#define RD_CHANGES_H

#include "sql.h"

enum rd_change_what {
	RD_CHANGE_PUT = '+',
	RD_CHANGE_DELETE = '-',
};

enum rd_value_type {
	RD_VALUE_NULL,
	RD_VALUE_NUMBER,
	RD_VALUE_TEXT,
	RD_VALUE_BLOB,
};

/* The most columns that a table has. */
#define RD_CHANGE_VALUES	24

struct rd_value {
	enum rd_value_type type;
	i64 number;
	const void *data;	/* in the buffer that it was read from */
	size_t len;
};

struct rd_change {
	enum rd_change_what what;
	unsigned int table;
	unsigned int nr_values;
	struct rd_value values[RD_CHANGE_VALUES];
};

/* Pure. Returns the bytes used, or -EBADMSG. */
ssize_t rd_change_unpack(struct rd_change *change, const struct rd_sql_table *tables,
			 unsigned int nr_tables, const void *data, size_t len);

#endif
