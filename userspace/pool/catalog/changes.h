/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of the catalog, as the outbox and the journal store them: those of a transaction,
 * one after the other,
 *
 *	u8 what, u8 table, values
 *
 * A change that puts a row has all its columns, a change that deletes a row those of its key.
 * (SQLite's session extension has a format of its own, which depends on its version; this one
 * must be read for as long as a pool lives.) A value is a byte with its type, then
 *
 *	NULL	nothing
 *	number	a zigzag varint
 *	text	a varint with the number of bytes, and these
 *	blob	the same
 */
#ifndef RD_CHANGES_H
#define RD_CHANGES_H

#include <sys/types.h>

#include "base/units.h"

/* A table whose changes are noted; its key is its first @nr_keys columns. */
struct rd_sql_table {
	const char *name;
	unsigned int nr_keys;
	unsigned int nr_columns;
};

/* The tables that the journal keeps; all others can be made from these. */
enum rd_table {
	RD_TABLE_VOLUME,
	RD_TABLE_VERSION,
	RD_TABLE_TAG,
	RD_TABLE_SEGMENT,
	RD_TABLE_RECIPE,
	RD_TABLE_SUPERSEDED,
	RD_TABLE_LEASE,
	RD_TABLE_PACK,
	RD_TABLE_RULE,
	RD_NR_TABLES,
};

extern const struct rd_sql_table rd_tables[RD_NR_TABLES];

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
