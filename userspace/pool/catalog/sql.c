// SPDX-License-Identifier: GPL-2.0
/* The only user of SQLite. */
#include <errno.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SQLITE_ENABLE_PREUPDATE_HOOK
#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/lock.h"
#include "base/log.h"
#include "changes.h"
#include "sql.h"
#include "vfs.h"

#define NR_CACHED	256

/* Transactions are short, so this is long. */
#define BUSY_MS		(10 * 60 * 1000)
#define BUSY_STEP_MS	1
/* Who waits looks twice in this time. */
#define PAUSE_US	(2 * BUSY_STEP_MS * 1000)

#define ROOM_FOR_INDEX	(16ULL << 20)

/* No row has more, and no row of a catalog that a stranger has made makes us take more memory. */
#define MAX_ROW		(64 << 20)

struct rd_row {
	struct rd_sql *sql;
	sqlite3_stmt *stmt;
	const char *text;
	bool in_use;
	bool cached;
};

struct rd_sql {
	sqlite3 *db;
	const struct rd_sql_table *tables;
	unsigned int nr_tables;
	struct rd_buffer changes;
	unsigned int readers;
	bool writing;
	bool gave_up;			/* waiting for another one */
	bool is_unsure;			/* see rd_sql_is_unsure() */
	struct rd_row cache[NR_CACHED];
};

static int errno_of(struct rd_sql *sql, int code)
{
	switch (code & 0xff) {
	case SQLITE_OK:
		return 0;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	/* No command asks for what its tables do not allow: a count was wrong before. */
	case SQLITE_CONSTRAINT:
		return -EUCLEAN;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_IOERR:
		if (code == SQLITE_IOERR_DATA)
			return -EUCLEAN;
		/* A full file system ends here as well. */
		return sqlite3_system_errno(sql->db) == ENOSPC ? -ENOSPC : -EIO;
	default:
		return -EIO;
	}
}

static int fail(struct rd_sql *sql, int code, const char *text)
{
	int r = errno_of(sql, code);

	if (!r || r == -EBUSY)
		return r;
	/* To SQLite some of these are errors like any other; the VFS has told of its own. */
	if (code != SQLITE_IOERR_DATA)
		rd_err(r == -ENOSPC ? r : 0, "catalog: %s (%s)", sqlite3_errmsg(sql->db), text);
	if (r == -EUCLEAN)
		rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, "the catalog is damaged");
	return r;
}

/* --- noting changes */

static void note_value(struct rd_buffer *to, sqlite3_value *value)
{
	int type = sqlite3_value_type(value), len;

	switch (type) {
	case SQLITE_INTEGER:
		rd_buffer_put_u8(to, RD_VALUE_NUMBER);
		rd_buffer_put_varint(to, rd_zigzag(sqlite3_value_int64(value)));
		break;
	case SQLITE_TEXT:
	case SQLITE_BLOB:
		len = sqlite3_value_bytes(value);
		rd_buffer_put_u8(to, type == SQLITE_TEXT ? RD_VALUE_TEXT : RD_VALUE_BLOB);
		rd_buffer_put_varint(to, len);
		rd_buffer_put(to, sqlite3_value_blob(value), len);
		break;
	default:
		rd_buffer_put_u8(to, RD_VALUE_NULL);
	}
}

static void note_change(void *ctx, sqlite3 *db, int op, char const *schema,
			char const *name, sqlite3_int64 old_id, sqlite3_int64 new_id)
{
	struct rd_sql *sql = ctx;
	struct rd_buffer *to = &sql->changes;
	const struct rd_sql_table *table;
	unsigned int nr, i, nr_values;
	sqlite3_value *value;

	(void)schema;
	(void)old_id;
	(void)new_id;
	for (nr = 0; nr < sql->nr_tables; nr++)
		if (!strcmp(sql->tables[nr].name, name))
			break;
	if (nr == sql->nr_tables)
		return;
	table = &sql->tables[nr];
	rd_buffer_put_u8(to, op == SQLITE_DELETE ? RD_CHANGE_DELETE : RD_CHANGE_PUT);
	rd_buffer_put_u8(to, nr);
	nr_values = op == SQLITE_DELETE ? table->nr_keys : table->nr_columns;
	for (i = 0; i < nr_values; i++) {
		int r = op == SQLITE_DELETE ? sqlite3_preupdate_old(db, i, &value) :
			sqlite3_preupdate_new(db, i, &value);

		if (r) {
			to->failed = true;
			return;
		}
		note_value(to, value);
	}
}

struct rd_buffer *rd_sql_changes(struct rd_sql *sql)
{
	return &sql->changes;
}

void rd_sql_note_nothing(struct rd_sql *sql)
{
	sqlite3_preupdate_hook(sql->db, NULL, NULL);
}

void rd_row_note(struct rd_row *row, unsigned int table, struct rd_buffer *to)
{
	unsigned int i;

	rd_buffer_put_u8(to, RD_CHANGE_PUT);
	rd_buffer_put_u8(to, table);
	for (i = 0; i < row->sql->tables[table].nr_columns; i++)
		note_value(to, sqlite3_column_value(row->stmt, i));
}

/* --- statements */

static int bind(struct rd_row *row, const char *types, va_list args)
{
	sqlite3_stmt *stmt = row->stmt;
	const void *blob;
	const char *text;
	int r = SQLITE_OK, i;
	size_t len;

	for (i = 1; *types && r == SQLITE_OK; types++, i++) {
		switch (*types) {
		case 'i':
			r = sqlite3_bind_int64(stmt, i, va_arg(args, i64));
			break;
		case 't':
			text = va_arg(args, const char *);
			r = sqlite3_bind_text(stmt, i, text, -1, SQLITE_TRANSIENT);
			break;
		case 'b':
			blob = va_arg(args, const void *);
			len = va_arg(args, size_t);
			r = sqlite3_bind_blob64(stmt, i, blob, len, SQLITE_TRANSIENT);
			break;
		default:
			abort();
		}
	}
	return r;
}

static struct rd_row *find_cached(struct rd_sql *sql, const char *text)
{
	size_t slot = ((uintptr_t)text >> 3) % NR_CACHED;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		struct rd_row *row = &sql->cache[(slot + i) % NR_CACHED];

		if (!row->in_use && (!row->text || row->text == text))
			return row;
	}
	return NULL;
}

static int get_row(struct rd_sql *sql, struct rd_row **ret, const char *text)
{
	struct rd_row *row = find_cached(sql, text);
	int r;

	if (!row) {
		row = calloc(1, sizeof(*row));
		if (!row)
			return -ENOMEM;
	} else {
		row->cached = true;
	}
	if (!row->stmt) {
		r = sqlite3_prepare_v3(sql->db, text, -1,
				       row->cached ? SQLITE_PREPARE_PERSISTENT : 0,
				       &row->stmt, NULL);
		if (r) {
			if (!row->cached)
				free(row);
			return fail(sql, r, text);
		}
		row->text = text;
		row->sql = sql;
	}
	row->in_use = true;
	*ret = row;
	return 0;
}

void rd_row_done(struct rd_row *row)
{
	if (!row || !row->in_use)
		return;
	sqlite3_reset(row->stmt);
	sqlite3_clear_bindings(row->stmt);
	row->in_use = false;
	if (!row->cached) {
		sqlite3_finalize(row->stmt);
		free(row);
	}
}

static int ask(struct rd_sql *sql, struct rd_row **ret, const char *text,
	       const char *types, va_list args)
{
	struct rd_row *row = NULL;
	int r;

	r = get_row(sql, &row, text);
	if (r)
		return r;
	r = bind(row, types, args);
	if (r) {
		rd_row_done(row);
		return fail(sql, r, text);
	}
	*ret = row;
	return 0;
}

/*
 * Some errors make SQLite undo the transaction by itself, and each statement behind them would be
 * one of its own: a change that was meant to come with others, alone and for good.
 */
static int check_together(const struct rd_sql *sql, const char *text)
{
	if (!sql->writing || !sqlite3_get_autocommit(sql->db))
		return 0;
	return rd_err(-EIO, "catalog: an error has undone what this change comes with (%s)", text);
}

int rd_row_next(struct rd_row *row)
{
	int r = sqlite3_stmt_readonly(row->stmt) ? 0 : check_together(row->sql, row->text);

	if (r)
		return r;
	r = sqlite3_step(row->stmt);
	if (r == SQLITE_ROW)
		return 1;
	if (r == SQLITE_DONE) {
		sqlite3_reset(row->stmt);
		return 0;
	}
	return fail(row->sql, r, row->text);
}

int rd_row_next_i64s(struct rd_row *row, i64 *ret, unsigned int nr)
{
	unsigned int i;
	int r = rd_row_next(row);

	for (i = 0; i < nr && r > 0; i++)
		ret[i] = rd_row_i64(row, i);
	return r;
}

int rd_row_next_two(struct rd_row *row, i64 *ret_first, i64 *ret_second)
{
	i64 numbers[2];
	int r = rd_row_next_numbers(row, &numbers);

	if (r > 0) {
		*ret_first = numbers[0];
		*ret_second = numbers[1];
	}
	return r;
}

int rd_next_id(struct rd_row *rows, i64 *ret)
{
	return rd_row_next_numbers(rows, ret);
}

int rd_sql_ask(struct rd_sql *sql, struct rd_row **ret, const char *text,
	       const char *types, ...)
{
	va_list args;
	int r;

	va_start(args, types);
	r = ask(sql, ret, text, types, args);
	va_end(args);
	return r;
}

int rd_sql_run(struct rd_sql *sql, const char *text, const char *types, ...)
{
	RD_ROW struct rd_row *row = NULL;
	va_list args;
	int r;

	va_start(args, types);
	r = ask(sql, &row, text, types, args);
	va_end(args);
	while (!r) {
		r = rd_row_next(row);
		if (!r)
			return 0;
		if (r > 0)
			r = 0;
	}
	return r;
}

static int bind_value(sqlite3_stmt *stmt, int i, const struct rd_value *value)
{
	switch (value->type) {
	case RD_VALUE_NUMBER:
		return sqlite3_bind_int64(stmt, i, value->number);
	case RD_VALUE_TEXT:
		return sqlite3_bind_text64(stmt, i, value->data, value->len, SQLITE_TRANSIENT,
					   SQLITE_UTF8);
	case RD_VALUE_BLOB:
		return sqlite3_bind_blob64(stmt, i, value->data, value->len, SQLITE_TRANSIENT);
	default:
		return sqlite3_bind_null(stmt, i);
	}
}

int rd_sql_run_values(struct rd_sql *sql, const char *text, const struct rd_value *values,
		      unsigned int nr)
{
	RD_ROW struct rd_row *row = NULL;
	unsigned int i;
	int r;

	r = get_row(sql, &row, text);
	if (r)
		return r;
	for (i = 0; i < nr; i++) {
		r = bind_value(row->stmt, i + 1, &values[i]);
		if (r)
			return fail(sql, r, text);
	}
	return rd_row_next(row);
}

int rd_sql_i64s(struct rd_sql *sql, i64 *ret, unsigned int nr, const char *text,
		const char *types, ...)
{
	RD_ROW struct rd_row *row = NULL;
	va_list args;
	int r;

	va_start(args, types);
	r = ask(sql, &row, text, types, args);
	va_end(args);
	if (!r)
		r = rd_row_next_i64s(row, ret, nr);
	else
		return r;
	return r > 0 ? 0 : r ? r : -ENOENT;
}

i64 rd_row_i64(struct rd_row *row, unsigned int column)
{
	return sqlite3_column_int64(row->stmt, column);
}

const char *rd_row_text(struct rd_row *row, unsigned int column)
{
	return (const char *)sqlite3_column_text(row->stmt, column);
}

const void *rd_row_blob(struct rd_row *row, unsigned int column, size_t *ret_len)
{
	const void *blob = sqlite3_column_blob(row->stmt, column);

	*ret_len = sqlite3_column_bytes(row->stmt, column);
	return blob;
}

bool rd_row_copy(struct rd_row *row, unsigned int column, void *ret, size_t len)
{
	const void *blob = sqlite3_column_blob(row->stmt, column);

	if ((size_t)sqlite3_column_bytes(row->stmt, column) != len)
		return false;
	memcpy(ret, blob, len);
	return true;
}

i64 rd_sql_last_id(struct rd_sql *sql)
{
	return sqlite3_last_insert_rowid(sql->db);
}

int rd_sql_changed(struct rd_sql *sql)
{
	return sqlite3_changes(sql->db);
}

int rd_sql_script(struct rd_sql *sql, const char *text)
{
	int r = check_together(sql, text);

	return r ? r : fail(sql, sqlite3_exec(sql->db, text, NULL, NULL, NULL), text);
}

int rd_sql_check_pages(struct rd_sql *sql, u64 *ret_page)
{
	return rd_vfs_check(sql->db, ret_page);
}

int rd_sql_settle(struct rd_sql *sql)
{
	i64 busy;
	int r = rd_sql_number(sql, &busy, "PRAGMA wal_checkpoint(TRUNCATE)", "");

	return r ? r : busy ? -EBUSY : 0;
}

int rd_sql_changed_by_others(struct rd_sql *sql, i64 *ret)
{
	return rd_sql_number(sql, ret, "PRAGMA data_version", "");
}

/* --- transactions */

int rd_sql_begin_read(struct rd_sql *sql)
{
	int r = 0;

	if (!sql->readers && !sql->writing)
		r = rd_sql_run(sql, "BEGIN", "");
	if (!r)
		sql->readers++;
	return r;
}

void rd_sql_end_read(struct rd_sql *sql)
{
	/* Nothing was changed, so nothing is lost; and some errors end it at once. */
	if (!--sql->readers && !sql->writing && !sqlite3_get_autocommit(sql->db))
		rd_sql_run(sql, "COMMIT", "");
}

int rd_sql_begin(struct rd_sql *sql)
{
	int r;

	/* It would have to wait for itself. */
	if (sql->readers || sql->writing)
		abort();
	r = rd_failpoint("catalog-begin");
	if (!r)
		r = rd_sql_run(sql, "BEGIN IMMEDIATE", "");
	if (r == -EBUSY) {
		rd_err(0, "another command still holds the write lock on the catalog");
		rd_hint("if that command was stopped, continue or kill it: its work is then finished or undone");
	}
	if (r)
		return r;
	sql->writing = true;
	sql->changes.len = 0;
	sql->changes.failed = false;
	return 0;
}

int rd_sql_commit(struct rd_sql *sql)
{
	int r = sql->changes.failed ? -ENOMEM : rd_failpoint("catalog-commit");
	u64 flushes = rd_vfs_log_flushes(sql->db);

	if (!r)
		r = rd_sql_run(sql, "COMMIT", "");
	/* One that flushed nothing has left in the log what was there. */
	if (rd_vfs_log_flushes(sql->db) != flushes)
		sql->is_unsure = r;
	if (r)
		rd_sql_rollback(sql);
	sql->writing = false;
	return r;
}

void rd_sql_rollback(struct rd_sql *sql)
{
	if (!sql->writing)
		return;
	/* After some errors SQLite has done that by itself. */
	if (!sqlite3_get_autocommit(sql->db))
		rd_sql_run(sql, "ROLLBACK", "");
	sql->writing = false;
}

bool rd_sql_is_unsure(const struct rd_sql *sql)
{
	return sql->is_unsure;
}

void rd_sql_pause(void)
{
	usleep(PAUSE_US);
}

/* --- waiting */

/*
 * Wait one more step for a lock that another process has held for @times steps. Once a wait
 * was too long, do not wait again: the command can only end.
 */
static int wait_busy(void *ctx, int times)
{
	struct rd_sql *sql = ctx;
	unsigned int waited = times * BUSY_STEP_MS;

	if (sql->gave_up || waited >= rd_patience_ms(BUSY_MS)) {
		sql->gave_up = true;
		return 0;
	}
	if (waited == RD_TELL_MS)
		rd_warn("waiting for another command that is writing to the catalog");
	usleep(BUSY_STEP_MS * 1000);
	return 1;
}

/* --- opening */

static int set_up(struct rd_sql *sql, bool create)
{
	i64 mode;
	int r;

	/* A new catalog has no journal until its log: see check_open() in vfs.c. */
	r = create ? rd_sql_script(sql, "PRAGMA journal_mode = MEMORY;") : 0;
	if (!r)
		r = rd_sql_script(sql, "PRAGMA journal_mode = WAL;"
				  "PRAGMA synchronous = FULL;"
				  "PRAGMA foreign_keys = ON;"
				  "PRAGMA secure_delete = OFF;"
				  "PRAGMA temp_store = FILE;"
				  "PRAGMA cache_size = -12288;");
	if (!r)
		r = rd_sql_number(sql, &mode, "PRAGMA synchronous", "");
	if (!r && mode != 2)
		r = rd_err(-EIO, "SQLite does not flush the catalog at each commit");
	return r;
}

/* The catalog may be a stranger's: nothing in it is run. See schema.h as well. */
static void distrust(sqlite3 *db)
{
	static const int options[][2] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(options) / sizeof(*options); i++)
		sqlite3_db_config(db, options[i][0], options[i][1], NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MAX_ROW);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

/*
 * Is it certain that no process writes to the database? A reader makes files beside it, to
 * see writers and be seen. Where it lacks the permission, no log (-wal) means no writer.
 */
static bool has_no_writer(const char *path)
{
	RD_FREE char *wal = NULL, *dir = strdup(path);

	if (!dir || asprintf(&wal, "%s-wal", path) < 0)
		return false;
	return access(dirname(dir), W_OK) && access(wal, F_OK);
}

/* SQLite makes files beside it, too, and finds out late that it cannot. */
static int check_writable(const char *path)
{
	RD_FREE char *dir = strdup(path);
	const char *what;
	int r;

	if (!dir)
		return -ENOMEM;
	what = dirname(dir);
	if (!access(what, W_OK))
		what = path;
	if (!access(what, W_OK) || errno == ENOENT)
		return 0;
	r = rd_err(-errno, "cannot write to '%s'", what);
	if (r == -EACCES)
		rd_hint("run this command as root, or give this user the permission");
	return r;
}

/*
 * The index of the log (-shm) is a file that is mapped. Where there is no room for a page
 * of it, to write to it is a SIGBUS; btrfs wants room for each write, not for the first
 * one only, and may be full a moment later.
 */
static bool is_index_safe(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) || (fs.f_type != BTRFS_SUPER_MAGIC &&
				     (u64)fs.f_bavail * fs.f_bsize >= ROOM_FOR_INDEX);
}

/* @path as a URI with @option, with what has a meaning there escaped. */
static char *make_uri(const char *path, const char *option)
{
	char *uri = malloc(3 * strlen(path) + strlen(option) + sizeof("file:?"));
	char *to = uri;

	if (!uri)
		return NULL;
	to += sprintf(to, "file:");
	for (; *path; path++) {
		if (strchr("%?#", *path))
			to += sprintf(to, "%%%02x", *path);
		else
			*to++ = *path;
	}
	sprintf(to, "?%s", option);
	return uri;
}

static int open_file(sqlite3 **ret, const char *path, bool create, bool writable)
{
	int flags = SQLITE_OPEN_NOMUTEX;
	const char *vfs = rd_vfs_name(), *option = NULL;
	RD_FREE char *uri = NULL;

	if (!vfs)
		return SQLITE_NOMEM;
	if (!writable && has_no_writer(path)) {
		option = "immutable=1";
	} else if (!writable && !is_index_safe(path)) {
		/*
		 * With the index that a writer keeps up, or with none: then SQLite makes
		 * one in memory, and keeps those who write from overwriting what it reads.
		 */
		option = RD_VFS_READ_INDEX "=1";
	}
	if (option) {
		uri = make_uri(path, option);
		if (!uri)
			return SQLITE_NOMEM;
		return sqlite3_open_v2(uri, ret, flags | SQLITE_OPEN_URI | SQLITE_OPEN_READONLY,
				       vfs);
	}
	flags |= create ? SQLITE_OPEN_CREATE | SQLITE_OPEN_READWRITE :
		writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
	return sqlite3_open_v2(path, ret, flags, vfs);
}

int rd_sql_open(struct rd_sql **ret, const char *path, bool create, bool writable,
		const struct rd_sql_table *tables, unsigned int nr_tables)
{
	int r = writable ? check_writable(path) : 0, reserved = RD_PAGE_CHECK;
	struct rd_sql *sql;

	if (r)
		return r;
	sql = calloc(1, sizeof(*sql));
	if (!sql)
		return -ENOMEM;
	r = open_file(&sql->db, path, create, writable);
	if (r && sqlite3_extended_errcode(sql->db) == SQLITE_IOERR_DATA) {
		r = fail(sql, SQLITE_IOERR_DATA, path);
		rd_sql_close(sql);
		return r;
	}
	if (r) {
		rd_err(0, "cannot open '%s': %s", path, sqlite3_errmsg(sql->db));
		r = errno_of(sql, r);
		r = sqlite3_system_errno(sql->db) == ENOENT ? -ENOENT : r;
		rd_sql_close(sql);
		return r;
	}
	sql->tables = tables;
	sql->nr_tables = nr_tables;
	if (create)
		sqlite3_file_control(sql->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
	sqlite3_busy_handler(sql->db, wait_busy, sql);
	sqlite3_extended_result_codes(sql->db, 1);
	sqlite3_preupdate_hook(sql->db, note_change, sql);
	distrust(sql->db);
	if (!create)
		sqlite3_db_config(sql->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	r = writable ? set_up(sql, create) : 0;
	if (r) {
		rd_sql_close(sql);
		return r;
	}
	*ret = sql;
	return 0;
}

void rd_sql_accept(struct rd_sql *sql)
{
	sqlite3_db_config(sql->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
}

int rd_sql_open_memory(struct rd_sql **ret)
{
	struct rd_sql *sql = calloc(1, sizeof(*sql));

	if (!sql)
		return -ENOMEM;
	if (sqlite3_open_v2(":memory:", &sql->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL)) {
		rd_sql_close(sql);
		return -ENOMEM;
	}
	*ret = sql;
	return 0;
}

void rd_sql_close(struct rd_sql *sql)
{
	unsigned int i;

	if (!sql)
		return;
	for (i = 0; i < NR_CACHED; i++)
		sqlite3_finalize(sql->cache[i].stmt);
	sqlite3_close(sql->db);
	rd_buffer_free(&sql->changes);
	free(sql);
}
