/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The catalog: a SQLite database in the pool's directory. Its tables are
 * described in catalog.c, and functions on them are in
 *
 *	versions.h	volume, version, tag
 *	segments.h	segment
 *	recipes.h	recipe, uses, superseded
 *	owners.h	slot_owner, recipe_ref
 *	frames.h	extent, reserved, packing, kept, queue
 *	packs.h		pack
 *	filling.h	tail
 *	rules.h		rule
 *	state.h		state
 *	sessions.h	session
 *	leases.h	lease
 *	outbox.h	outbox
 *	journal_frames.h  journal_frame
 *	replay.h	rows of a catalog that is rebuilt from the journal
 *	check_counts.h	checks
 *
 * A transaction that changed something that the journal keeps gets the next
 * generation, and leaves its changes in the table outbox, from where they go
 * into the journal.
 */
#ifndef RD_CATALOG_H
#define RD_CATALOG_H

#include "base/buffer.h"
#include "changes.h"
#include "db.h"

/* Make an empty catalog for the pool @uuid, whose journal begins in frame 0. */
int rd_catalog_create(const char *path, const u8 uuid[16], u64 nr_frames, u64 journal_id);

/* Remove a catalog, or what an earlier try or a stranger has left in its place. */
int rd_catalog_remove(const char *path);

/*
 * Rename the catalog @from and the files that belong to it to @to. @from must be closed,
 * and @to must not exist. The caller flushes the directory.
 */
int rd_catalog_rename(const char *from, const char *to);

/* Open a catalog. -EUCLEAN: it is not a catalog. -EOPNOTSUPP: it has another format. */
int rd_catalog_open(struct rd_sql **ret, const char *path, bool writable);

int rd_catalog_begin(struct rd_sql *sql);

/*
 * End a transaction: commit if @r is 0, else roll back and return @r. This is the last
 * line of a function that began one.
 */
int rd_catalog_end(struct rd_sql *sql, int r);

/* Both around @change, which is 0 or -errno. */
#define rd_catalog_do(sql, change)						\
({										\
	struct rd_sql *sql_ = (sql);						\
	int r_ = rd_catalog_begin(sql_);					\
										\
	r_ ? r_ : rd_catalog_end(sql_, change);					\
})

/* Count the pages of the database. */
int rd_catalog_pages(struct rd_sql *sql, u64 *ret);

/* Ask for all rows of table @table: rd_next_change(). */
int rd_catalog_rows(struct rd_sql *sql, struct rd_row **ret, enum rd_table table);
/* Append the row to @to as a change that puts the row into the table. */
int rd_next_change(struct rd_row *rows, enum rd_table table, struct rd_buffer *to);

#endif
