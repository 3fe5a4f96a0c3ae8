/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The catalog: a SQLite database in the pool's directory. Its tables are
 * described in catalog.c.
 *
 * A transaction that changed something that the journal keeps gets the next
 * generation, and leaves its changes in the table outbox, from where they go
 * into the journal.
 */
#ifndef RD_CATALOG_H
#define RD_CATALOG_H

#include "sql.h"

/* The tables that the journal keeps; all others can be made from these. */
enum rd_table {
	RD_TABLE_VOLUME,
	RD_TABLE_VERSION,
	RD_TABLE_TAG,
	RD_TABLE_SEGMENT,
	RD_TABLE_RECIPE,
	RD_TABLE_SUPERSEDED,
	RD_TABLE_LEASE,
	RD_NR_TABLES,
};

extern const struct rd_sql_table rd_tables[RD_NR_TABLES];

/* A new one, empty but for the pool's identity, whose journal is in frame 0. */
int rd_catalog_create(const char *path, const u8 uuid[16], u64 nr_frames, u64 journal_id);

/*
 * The catalog @from, with the files that belong to it, is called @to from now on. It is
 * not open, and @to is not there. The directory is the caller's to flush.
 */
int rd_catalog_rename(const char *from, const char *to);

/* -EUCLEAN: not a catalog; -EOPNOTSUPP: of another version. */
int rd_catalog_open(struct rd_sql **ret, const char *path, bool writable);

/* Whose it is. 1: it does not say. */
int rd_catalog_uuid(struct rd_sql *sql, u8 uuid[16]);

int rd_catalog_begin(struct rd_sql *sql);
/* On failure everything is as it was before begin. */
int rd_catalog_commit(struct rd_sql *sql);

/*
 * @r 0: commit. Else roll back, and return @r: the last line of a function
 * that has begun.
 */
int rd_catalog_end(struct rd_sql *sql, int r);

#endif
