// SPDX-License-Identifier: GPL-2.0
/* The catalog's tables, and its transactions. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "catalog.h"
#include "changes.h"
#include "frames.h"
#include "journal_frames.h"
#include "outbox.h"
#include "pages.h"
#include "schema.h"
#include "sql.h"
#include "state.h"
#include "version_sql.h"

#define APPLICATION_ID	1380208707	/* "RDPC" */
#define SCHEMA_VERSION	6
#define SCHEMA_BEFORE	5	/* is upgraded */

const struct rd_sql_table rd_tables[RD_NR_TABLES] = {
	[RD_TABLE_VOLUME] = { "volume", 1, 4 },
	[RD_TABLE_VERSION] = { "version", 1, 18 },
	[RD_TABLE_TAG] = { "tag", 2, 3 },
	[RD_TABLE_SEGMENT] = { "segment", 3, 4 },
	[RD_TABLE_RECIPE] = { "recipe", 1, 4 },
	[RD_TABLE_SUPERSEDED] = { "superseded", 2, 2 },
	[RD_TABLE_LEASE] = { "lease", 1, 5 },
	[RD_TABLE_PACK] = { "pack", 1, 4 },
	[RD_TABLE_RULE] = { "rule", 1, 3 },
};

/* Recipes in pieces that a newest version has: in too many, the next snapshot writes them. */
#define USES_PIECES \
"CREATE INDEX uses_pieces ON uses(pieces) WHERE latest_refs > 0 AND pieces <> 1;"

static const char schema[] =
"PRAGMA application_id = " RD_SQL_NUMBER(APPLICATION_ID) ";"
"PRAGMA user_version = " RD_SQL_NUMBER(SCHEMA_VERSION) ";"
"BEGIN;"
/* One row: which pool the catalog is of, and how far it and the journal are. */
"CREATE TABLE state("
"	one INTEGER PRIMARY KEY CHECK(one = 1),"
"	uuid BLOB NOT NULL,"
"	generation INTEGER NOT NULL,"
"	journal_id INTEGER NOT NULL,"
"	journal_frame INTEGER NOT NULL,"	/* of its end */
"	journal_block INTEGER NOT NULL,"
"	journal_seq INTEGER NOT NULL,"
"	journal_generation INTEGER NOT NULL,"
"	dump_blocks INTEGER NOT NULL,"	/* of the dump that it begins with */
"	last_frame INTEGER NOT NULL,"	/* of the last part before its end */
"	last_block INTEGER NOT NULL,"
"	last_crc INTEGER NOT NULL,"
"	super_seq INTEGER NOT NULL);"	/* the superblock had that number */
/* Volumes stay when their last version goes: numbers are not used again. */
"CREATE TABLE volume("
"	id INTEGER PRIMARY KEY,"
"	name TEXT NOT NULL UNIQUE,"
"	next_number INTEGER NOT NULL,"
"	created INTEGER NOT NULL);"
"CREATE TABLE version("
"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
"	volume INTEGER NOT NULL,"
"	number INTEGER NOT NULL,"
"	uid INTEGER NOT NULL,"		/* random */
"	state INTEGER NOT NULL,"	/* enum rd_version_state */
"	size INTEGER NOT NULL,"		/* bytes */
"	time INTEGER NOT NULL,"
"	sum BLOB,"
"	dirty INTEGER NOT NULL,"	/* segments that were read */
"	bytes_read INTEGER NOT NULL,"
"	blocks_changed INTEGER NOT NULL,"
"	bytes_stored INTEGER NOT NULL,"	/* written into the pool for it */
"	protected INTEGER NOT NULL,"
"	comment TEXT,"
"	cursor INTEGER NOT NULL,"	/* rows below it are reversed */
"	tracker BLOB,"			/* UUID of what listed the changes; NULL: none */
"	epoch INTEGER NOT NULL,"	/* up to when; 0: none, or RD_EPOCH_* */
"	consistent INTEGER NOT NULL,"	/* 0: may have been written while it was read */
"	UNIQUE(volume, number));"
/* All that are not done: a command works on them, or has to finish them. */
"CREATE INDEX version_unfinished ON version(volume) WHERE " RD_VERSION_UNFINISHED ";"
"CREATE TABLE tag("
"	volume INTEGER NOT NULL,"
"	tag TEXT NOT NULL,"
"	number INTEGER NOT NULL,"
"	PRIMARY KEY(volume, tag)) WITHOUT ROWID;"
/* See segments.h. A row that no version sees is deleted. */
"CREATE TABLE segment("
"	volume INTEGER NOT NULL,"
"	segment INTEGER NOT NULL,"
"	born INTEGER NOT NULL,"
"	recipe INTEGER NOT NULL,"
"	PRIMARY KEY(volume, segment, born)) WITHOUT ROWID;"
"CREATE INDEX segment_born ON segment(volume, born);"
"CREATE INDEX segment_recipe ON segment(recipe);"
/* One row for each content of a segment that any version has. See map.h. */
"CREATE TABLE recipe("
"	id INTEGER PRIMARY KEY,"
"	fp BLOB NOT NULL UNIQUE,"
"	frame INTEGER NOT NULL,"
"	map BLOB NOT NULL);"
/*
 * How many rows of segment name the recipe, how many of these a newest version sees, and of
 * how many pieces its map is; 0: as of a program that did not count them, more than one.
 * All of it can be made anew but "quick", without which an audit takes longer.
 */
"CREATE TABLE uses("
"	recipe INTEGER PRIMARY KEY,"
"	refs INTEGER NOT NULL CHECK(refs >= 0),"
"	latest_refs INTEGER NOT NULL CHECK(latest_refs >= 0),"
"	pieces INTEGER NOT NULL,"
"	quick INTEGER);"		/* sum, see quick.h; NULL: not known */
USES_PIECES
/* How many blocks of the recipe "source" are REF "target". */
"CREATE TABLE recipe_ref("
"	target INTEGER NOT NULL,"
"	source INTEGER NOT NULL,"
"	n INTEGER NOT NULL CHECK(n > 0),"
"	PRIMARY KEY(target, source)) WITHOUT ROWID;"
/* How many slots of the frame the recipe has. At most one recipe has a slot. */
"CREATE TABLE slot_owner("
"	frame INTEGER NOT NULL,"
"	recipe INTEGER NOT NULL,"
"	n INTEGER NOT NULL CHECK(n > 0),"
"	PRIMARY KEY(frame, recipe)) WITHOUT ROWID;"
/* No newest version names the recipe any more; that of the volume was the last one. */
"CREATE TABLE superseded("
"	recipe INTEGER NOT NULL,"
"	volume INTEGER NOT NULL,"
"	PRIMARY KEY(recipe, volume)) WITHOUT ROWID;"
/* Free frames. */
"CREATE TABLE extent("
"	start INTEGER PRIMARY KEY,"
"	len INTEGER NOT NULL CHECK(len > 0));"
/* Slots that no recipe has any more, and that are still to be given back. */
"CREATE TABLE queue("
"	frame INTEGER PRIMARY KEY,"
"	slots BLOB NOT NULL);"		/* 512 bits */
/* The frame that compaction fills slot by slot. */
"CREATE TABLE packing("
"	frame INTEGER PRIMARY KEY,"
"	next INTEGER NOT NULL);"	/* slot */
/* A command that runs, or that ran and died: the lock on its byte tells which. */
"CREATE TABLE session("
"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
"	pid INTEGER NOT NULL,"
"	verb TEXT NOT NULL,"
"	started INTEGER NOT NULL,"
"	version INTEGER NOT NULL);"	/* that it is making, or 0 */
/* Frames that a session may write to. */
"CREATE TABLE reserved("
"	start INTEGER PRIMARY KEY,"
"	len INTEGER NOT NULL,"
"	session INTEGER NOT NULL);"
/* Frames that are in use only in another state of the pool, which this one replaced. */
"CREATE TABLE kept(frame INTEGER PRIMARY KEY);"
"CREATE TABLE journal_frame(frame INTEGER PRIMARY KEY, journal INTEGER NOT NULL);"
/* A device whose table points into the pool: blocks that it may name are not freed. */
"CREATE TABLE lease("
"	id INTEGER PRIMARY KEY,"
"	device TEXT NOT NULL,"
"	volume INTEGER NOT NULL,"
"	number INTEGER NOT NULL,"
"	time INTEGER NOT NULL);"
/* Changes that are committed here and not yet in the journal. */
"CREATE TABLE outbox(generation INTEGER PRIMARY KEY, changes BLOB NOT NULL);"
"COMMIT;";

/* Pools that were made by an older program may lack some of these tables. */
static const struct {
	const char *name, *columns;
} later_tables[] = {
	/* See packs.h. */
	{ "pack",
	  "frame INTEGER PRIMARY KEY,"
	  "place INTEGER NOT NULL,"
	  "blocks INTEGER NOT NULL,"
	  "slots INTEGER NOT NULL" },
	/* Frames with room for more packs from a slot on: see filling.h. */
	{ "tail",
	  "frame INTEGER PRIMARY KEY,"
	  "next INTEGER NOT NULL" },
	/* Of volumes that have another one than the pool. */
	{ "rule",
	  "volume INTEGER PRIMARY KEY,"
	  "pieces INTEGER NOT NULL,"
	  "dedup INTEGER NOT NULL" },
	/* What the last pass over the pool has not seen: see fresh.h. */
	{ "fresh",
	  "recipe INTEGER PRIMARY KEY,"
	  "pass INTEGER NOT NULL" },
	{ "pass",
	  "one INTEGER PRIMARY KEY CHECK(one = 1),"
	  "number INTEGER NOT NULL,"
	  "closed INTEGER NOT NULL,"
	  "least_run INTEGER NOT NULL,"
	  "slices INTEGER NOT NULL,"
	  "slice INTEGER NOT NULL,"
	  "reads_places INTEGER NOT NULL" },
};

static int add_table(struct rd_sql *sql, const char *name, const char *columns, bool writable)
{
	RD_FREE char *text = NULL;
	i64 nr;
	int r;

	/* A TEMP table would hide one that is there. */
	r = rd_sql_number(sql, &nr, "SELECT count(*) FROM main.sqlite_master WHERE name = ?", "t",
			  name);
	if (r || nr)
		return r;
	if (asprintf(&text, "CREATE %s TABLE IF NOT EXISTS %s(%s);", writable ? "" : "TEMP", name,
		     columns) < 0)
		return -ENOMEM;
	return rd_sql_script(sql, text);
}

/*
 * A command that only reads uses empty tables where the pool has none. One that writes makes
 * them, and ends where there is no room: what it put into a TEMP table would be lost with it.
 * Those that delete have the reserve.
 */
static int add_tables(struct rd_sql *sql, bool writable)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < sizeof(later_tables) / sizeof(*later_tables) && !r; i++)
		r = add_table(sql, later_tables[i].name, later_tables[i].columns, writable);
	return r;
}

/*
 * The format before had "whole" for "pieces": 1 is the same, and 0 says that they were not
 * counted. Reading alone, a view has the place of the table.
 */
static int upgrade(struct rd_sql *sql, bool writable)
{
	i64 version;
	int r;

	if (!writable)
		return rd_sql_script(sql, "CREATE TEMP VIEW uses AS SELECT recipe, refs,"
				     " latest_refs, whole AS pieces, quick FROM main.uses;");
	r = rd_sql_begin(sql);
	if (r)
		return r;
	/* Another command may have been first. */
	r = rd_sql_number(sql, &version, "PRAGMA user_version", "");
	if (!r && version == SCHEMA_BEFORE)
		r = rd_sql_script(sql, "DROP INDEX uses_pieces;"
				  "ALTER TABLE uses RENAME COLUMN whole TO pieces;"
				  USES_PIECES
				  "PRAGMA user_version = " RD_SQL_NUMBER(SCHEMA_VERSION) ";");
	return rd_catalog_end(sql, r);
}

int rd_catalog_remove(const char *path)
{
	static const char *const parts[] = { "-wal", "-shm", "-journal", RD_PAGES_SUFFIX, "" };
	unsigned int i;

	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		RD_FREE char *part = NULL;

		if (asprintf(&part, "%s%s", path, parts[i]) < 0)
			return -ENOMEM;
		if (unlink(part) && errno != ENOENT)
			return rd_err(-errno, "cannot remove '%s'", part);
	}
	return 0;
}

int rd_catalog_create(const char *path, const u8 uuid[16], u64 nr_frames, u64 journal_id)
{
	struct rd_sql *sql;
	int r;

	r = rd_catalog_remove(path);
	if (!r)
		r = rd_sql_open(&sql, path, true, true, rd_tables, RD_NR_TABLES);
	if (r)
		return r;
	/* What SQLite puts beside it gets the same mode. */
	if (chmod(path, 0600))
		r = rd_err(-errno, "cannot set the mode of '%s'", path);
	if (!r)
		r = rd_sql_script(sql, schema);
	if (!r)
		r = add_tables(sql, true);
	if (!r)
		r = rd_sql_begin(sql);
	if (!r) {
		/* The journal begins in frame 0. */
		r = rd_state_insert(sql, uuid, journal_id);
		if (!r)
			r = rd_journal_frame_insert(sql, journal_id, 0);
		if (!r)
			r = rd_frames_free(sql, 1, nr_frames - 1);
		r = rd_catalog_end(sql, r);
	}
	if (!r)
		r = rd_sql_settle(sql);
	rd_sql_close(sql);
	return r;
}

/* The catalog itself comes last: without it the others are nothing. */
int rd_catalog_rename(const char *from, const char *to)
{
	static const char *const parts[] = { "-wal", "-shm", RD_PAGES_SUFFIX, "" };
	unsigned int i;

	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		RD_FREE char *old = NULL, *new = NULL;

		if (asprintf(&old, "%s%s", from, parts[i]) < 0 ||
		    asprintf(&new, "%s%s", to, parts[i]) < 0)
			return -ENOMEM;
		if (rename(old, new) && errno != ENOENT)
			return rd_err(-errno, "cannot rename '%s'", old);
	}
	return 0;
}

/* Make in memory what the catalog must have, to compare. */
static int check_schema(struct rd_sql *sql, const char *path, i64 version)
{
	struct rd_sql *made;
	int r = rd_sql_open_memory(&made);

	if (r)
		return r;
	r = rd_sql_script(made, schema);
	if (!r)
		r = add_tables(made, true);
	if (!r && version == SCHEMA_BEFORE)
		r = rd_sql_script(made, "DROP INDEX uses_pieces;"
				  "ALTER TABLE uses RENAME COLUMN pieces TO whole;"
				  "CREATE INDEX uses_pieces ON uses(recipe)"
				  " WHERE latest_refs > 0 AND whole = 0;");
	if (!r)
		r = rd_schema_compare(sql, made, path);
	rd_sql_close(made);
	return r;
}

static int refuse_file(const char *path)
{
	rd_err(0, "'%s' is not a catalog", path);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, NULL);
	return -EUCLEAN;
}

int rd_catalog_open(struct rd_sql **ret, const char *path, bool writable)
{
	struct rd_sql *sql;
	i64 id, version;
	int r;

	r = rd_pages_know_format(path);
	if (!r)
		r = rd_sql_open(&sql, path, false, writable, rd_tables, RD_NR_TABLES);
	if (r)
		return r;
	r = rd_sql_number(sql, &id, "PRAGMA application_id", "");
	if (!r)
		r = rd_sql_number(sql, &version, "PRAGMA user_version", "");
	if (!r && id != APPLICATION_ID)
		r = refuse_file(path);
	if (!r && version != SCHEMA_VERSION && version != SCHEMA_BEFORE)
		r = rd_err_format(path, version, SCHEMA_VERSION);
	if (!r)
		r = check_schema(sql, path, version);
	if (!r)
		rd_sql_accept(sql);
	if (!r && version == SCHEMA_BEFORE)
		r = upgrade(sql, writable);
	if (!r)
		r = add_tables(sql, writable);
	if (r) {
		rd_sql_close(sql);
		return r;
	}
	*ret = sql;
	return 0;
}

int rd_catalog_begin(struct rd_sql *sql)
{
	return rd_sql_begin(sql);
}

static int commit(struct rd_sql *sql)
{
	struct rd_buffer *changes = rd_sql_changes(sql);
	int r = 0;

	if (changes->failed) {
		r = -ENOMEM;
	} else if (changes->len) {
		r = rd_state_next_generation(sql);
		if (!r)
			r = rd_outbox_put(sql, changes);
	}
	if (r) {
		rd_sql_rollback(sql);
		return r;
	}
	return rd_sql_commit(sql);
}

int rd_catalog_end(struct rd_sql *sql, int r)
{
	if (!r)
		return commit(sql);
	rd_sql_rollback(sql);
	return r;
}

int rd_catalog_pages(struct rd_sql *sql, u64 *ret)
{
	return rd_sql_get(sql, ret, "PRAGMA page_count", "");
}

int rd_catalog_rows(struct rd_sql *sql, struct rd_row **ret, enum rd_table table)
{
	static const char *const texts[RD_NR_TABLES] = {
		[RD_TABLE_VOLUME] = "SELECT * FROM volume",
		[RD_TABLE_VERSION] = "SELECT * FROM version",
		[RD_TABLE_TAG] = "SELECT * FROM tag",
		[RD_TABLE_SEGMENT] = "SELECT * FROM segment",
		[RD_TABLE_RECIPE] = "SELECT * FROM recipe",
		[RD_TABLE_SUPERSEDED] = "SELECT * FROM superseded",
		[RD_TABLE_LEASE] = "SELECT * FROM lease",
		[RD_TABLE_PACK] = "SELECT * FROM pack",
		[RD_TABLE_RULE] = "SELECT * FROM rule",
	};

	return rd_sql_ask(sql, ret, texts[table], "");
}

int rd_next_change(struct rd_row *rows, enum rd_table table, struct rd_buffer *to)
{
	int r = rd_row_next(rows);

	if (r > 0)
		rd_row_note(rows, table, to);
	return to->failed ? -ENOMEM : r;
}
