// SPDX-License-Identifier: GPL-2.0
/* Checks of the catalog's pages. See vfs.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/crc32c.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/plain.h"
#include "pool/data/fp.h"
#include "pages.h"
#include "vfs.h"

#define PAGE_SIZE	RD_PAGE_SIZE
#define PAGE_MAGIC	0x43505652U	/* "RVPC" */
#define CHECKED		(PAGE_SIZE - RD_PAGE_CHECK)

/* SQLite never writes the page that has this byte, which is for locks. */
#define LOCK_BYTE	0x40000000ULL

struct page_check {
	__le32 crc;
	__le32 magic;
};

/* What SQLite has for a file of ours; that of the VFS below follows it. */
struct vfs_file {
	sqlite3_file file;
	const char *name;	/* that SQLite opened it by, with what a URI had */
	int traced;		/* RD_TRACE_*, or -1 for neither */
	bool is_database, is_log;
	int pages;		/* of either: the page map */
	bool has_begun;		/* the log, which is not flushed yet */
	u64 nr_flushes;		/* of the log, behind its header */
	bool has_index;		/* the database, whose index is open */
};

/*
 * The log begins with 32 bytes: a magic at 0, whose last bit tells how it is summed, and
 * a salt of 8 bytes at 16. Each frame that follows has the salt, and all sums before it
 * are in its own.
 */
#define TRIES		20
#define TRY_US		1000

#define LOG_HEADER	32
#define LOG_MAGIC	0x377f0682U

static sqlite3_vfs *below;

static sqlite3_file *file_below(sqlite3_file *file)
{
	return (sqlite3_file *)((struct vfs_file *)file + 1);
}

static struct page_check check_of(const void *page, u64 offset)
{
	__le32 number = cpu_to_le32(offset / PAGE_SIZE + 1);
	u32 crc = crc32c(~0U, &number, sizeof(number));

	return (struct page_check){
		.crc = cpu_to_le32(~crc32c(crc, page, CHECKED)),
		.magic = cpu_to_le32(PAGE_MAGIC),
	};
}

/* Is it what was last written there? Zeros are where nothing was. */
static bool is_good(int pages, const void *page, u64 offset)
{
	struct page_check check = check_of(page, offset);

	if (rd_is_zero(page, PAGE_SIZE))
		return !rd_pages_has(pages, offset);
	return !memcmp((const u8 *)page + CHECKED, &check, sizeof(check)) &&
		rd_pages_agree(pages, page, offset);
}

static void tell_bad(const void *page, u64 offset)
{
	struct page_check check = check_of(page, offset);

	if (memcmp((const u8 *)page + CHECKED, &check, sizeof(check))) {
		rd_err(0, "page %llu of the catalog is damaged", offset / PAGE_SIZE + 1);
		return;
	}
	rd_err(0, "page %llu of the catalog is not the one that was last written there",
	       offset / PAGE_SIZE + 1);
	rd_hint("a restored catalog.db needs the catalog.db" RD_PAGES_SUFFIX " of the same copy");
}

/*
 * What SQLite is told of the error @r. That of a full file system has a code of its own:
 * after a COMMIT that failed, SQLite 3.40 no longer knows errno.
 */
static int code_of(int r, int other)
{
	return r == -ENOSPC ? SQLITE_FULL : other;
}

/* The same for @code of the VFS below, which has code and errno for each failed call. */
static int code_below(int code)
{
	return (code & 0xff) == SQLITE_IOERR ? code_of(-errno, code) : code;
}

static int refuse_pages(void)
{
	rd_err(0, "the page map of the catalog is damaged");
	return SQLITE_IOERR_DATA;
}

/* --- a file */

static int vfs_close(sqlite3_file *file)
{
	struct vfs_file *f = (struct vfs_file *)file;

	if (f->pages >= 0)
		close(f->pages);
	return file_below(file)->pMethods->xClose(file_below(file));
}

static int vfs_read(sqlite3_file *file, void *buf, int len, sqlite3_int64 offset)
{
	const struct vfs_file *f = (struct vfs_file *)file;
	unsigned int tries = TRIES;
	int r;

	for (;;) {
		r = file_below(file)->pMethods->xRead(file_below(file), buf, len, offset);
		/* Of the first page, parts are read as well. What is short ends with zeros. */
		if ((r && r != SQLITE_IOERR_SHORT_READ) || !f->is_database ||
		    len != PAGE_SIZE || is_good(f->pages, buf, offset))
			return r;
		if (!--tries)
			break;
		/* The first page is read before it is known that there is a log. */
		usleep(TRY_US);
	}
	tell_bad(buf, offset);
	return SQLITE_IOERR_DATA;
}

static int write_below(sqlite3_file *file, const void *buf, int len, sqlite3_int64 offset)
{
	struct vfs_file *f = (struct vfs_file *)file;
	u64 id = rd_trace_buffer(f->traced, buf, len, offset);
	int r = file_below(file)->pMethods->xWrite(file_below(file), buf, len, offset);

	if (!r)
		rd_trace_written(id);
	return r;
}

static u64 salt_of(const u8 *header)
{
	__le64 salt;

	memcpy(&salt, header + 16, sizeof(salt));
	return le64_to_cpu(salt);
}

/* The salt of the log @file; *@ret_any: SQLite would not pass over what is there. */
static int read_salt(sqlite3_file *file, u64 *ret, bool *ret_any)
{
	u8 header[LOG_HEADER];
	u32 magic;
	int r = file->pMethods->xRead(file, header, sizeof(header), 0);

	*ret_any = false;
	if (r)
		return r == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : r;
	magic = (u32)header[0] << 24 | header[1] << 16 | header[2] << 8 | header[3];
	*ret = salt_of(header);
	*ret_any = (magic & ~1U) == LOG_MAGIC;
	return SQLITE_OK;
}

/*
 * Note in the map that a new log begins. The salt that the map has may never have reached
 * the file, if a process died in between, so read the salt in the file. That log must be
 * stable: otherwise it is unknown which of the two a crash leaves.
 */
static int begin_log(struct vfs_file *f, const void *header)
{
	sqlite3_file *log = file_below(&f->file);
	u64 before = 0;
	bool any;
	int r;

	if (read_salt(log, &before, &any))
		return -EIO;
	if (any && !rd_pages_log_is_known(f->pages) &&
	    log->pMethods->xSync(log, SQLITE_SYNC_NORMAL))
		return errno == ENOSPC ? -ENOSPC : -EIO;
	r = rd_pages_begin_log(f->pages, salt_of(header), any ? before : 0);
	f->has_begun = !r;
	return r ? r : rd_failpoint("pages-begun");
}

static int vfs_write(sqlite3_file *file, const void *buf, int len, sqlite3_int64 offset)
{
	struct vfs_file *f = (struct vfs_file *)file;
	u8 page[PAGE_SIZE];
	struct page_check check;
	int r = rd_failpoint("catalog-write");

	if (!r && f->is_log && !offset && len == LOG_HEADER)
		r = begin_log(f, buf);
	if (r)
		return r == -EUCLEAN ? refuse_pages() : code_of(r, SQLITE_IOERR_WRITE);
	if (!f->is_database || len != PAGE_SIZE)
		return write_below(file, buf, len, offset);
	memcpy(page, buf, CHECKED);
	r = rd_pages_note(f->pages, page, offset);
	if (r)
		return code_of(r, SQLITE_IOERR_WRITE);
	check = check_of(page, offset);
	memcpy(page + CHECKED, &check, sizeof(check));
	return write_below(file, page, len, offset);
}

static int vfs_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	const struct vfs_file *f = (struct vfs_file *)file;
	int r;

	if (f->is_log && !size) {
		r = rd_pages_end_log(f->pages);
		if (r)
			return code_of(r, SQLITE_IOERR_TRUNCATE);
	}
	rd_trace_cut(f->traced, size);
	r = file_below(file)->pMethods->xTruncate(file_below(file), size);
	if (r)
		return code_below(r);
	if (f->is_database)
		r = rd_pages_cut(f->pages, size);
	return r ? code_of(r, SQLITE_IOERR_TRUNCATE) : SQLITE_OK;
}

static int vfs_sync(sqlite3_file *file, int flags)
{
	struct vfs_file *f = (struct vfs_file *)file;
	int r;
	u64 id;

	/* The header of a log is flushed before anything follows it. */
	f->nr_flushes += !f->has_begun;
	r = rd_failpoint("catalog-sync");
	if (!r && f->is_database)
		r = rd_pages_sync(f->pages);
	if (r)
		return code_of(r, SQLITE_IOERR_FSYNC);
	id = rd_trace_sync(f->traced);
	r = file_below(file)->pMethods->xSync(file_below(file), flags);
	if (r)
		return code_below(r);
	rd_trace_synced(id);
	if (f->has_begun)
		r = rd_pages_log_is_stable(f->pages);
	if (r)
		return code_of(r, SQLITE_IOERR_FSYNC);
	f->has_begun = false;
	return SQLITE_OK;
}

/*
 * A log of a header alone, as a process leaves it that dies or finds no room there, counts as
 * empty. SQLite does not read that header where it makes an index in memory, misses its salt
 * there, and tries again until it gives up (SQLITE_PROTOCOL).
 */
static int vfs_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	int r = file_below(file)->pMethods->xFileSize(file_below(file), ret);

	if (!r && ((struct vfs_file *)file)->is_log && *ret == LOG_HEADER)
		*ret = 0;
	return r;
}

static int vfs_lock(sqlite3_file *file, int level)
{
	return file_below(file)->pMethods->xLock(file_below(file), level);
}

static int vfs_unlock(sqlite3_file *file, int level)
{
	return file_below(file)->pMethods->xUnlock(file_below(file), level);
}

static int vfs_check_reserved(sqlite3_file *file, int *ret)
{
	return file_below(file)->pMethods->xCheckReservedLock(file_below(file), ret);
}

static int vfs_control(sqlite3_file *file, int op, void *arg)
{
	return file_below(file)->pMethods->xFileControl(file_below(file), op, arg);
}

static int vfs_sector_size(sqlite3_file *file)
{
	return file_below(file)->pMethods->xSectorSize(file_below(file));
}

static int vfs_characteristics(sqlite3_file *file)
{
	return file_below(file)->pMethods->xDeviceCharacteristics(file_below(file));
}

static char *path_beside(const char *database, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s%s", database, suffix) < 0 ? NULL : path;
}

/* Where the log and the index wait for a file system that is full: see make_beside(). */
static char *path_of_spare(const char *database, const char *suffix)
{
	const char *name = strrchr(database, '/');
	char *path;

	return asprintf(&path, "%.*scatalog.spare%s", name ? (int)(name + 1 - database) : 0,
			database, suffix) < 0 ? NULL : path;
}

/* For all who may open the database, as SQLite does it. */
static int share_as(int fd, const char *database)
{
	struct stat st;

	return stat(database, &st) || fchmod(fd, st.st_mode & 0777) ||
		(!geteuid() && fchown(fd, st.st_uid, st.st_gid)) ? -errno : 0;
}

static int use_spare(const char *database, const char *suffix, const char *path)
{
	RD_FREE char *spare = path_of_spare(database, suffix);
	int fd = spare ? rd_open_plain(spare, O_RDONLY, 0) : -ENOMEM;
	struct stat st;
	bool is_used;

	if (fd < 0)
		return -ENOSPC;
	/* By now another command may have it as the log: do not empty it. */
	is_used = !fstat(fd, &st) && !st.st_size && !share_as(fd, database) &&
		(!renameat2(AT_FDCWD, spare, AT_FDCWD, path, RENAME_NOREPLACE) || errno == EEXIST);
	close(fd);
	return is_used ? 0 : -ENOSPC;
}

/*
 * Make the log or the index where there is none, empty: in a file system that is full there is
 * no room for that (XFS) or little (btrfs), but a command that only reads has to work there. So
 * the first log and the first index are not removed in the end, but kept under another name,
 * which needs no room to be changed back. Whoever removes them has the database for himself, and
 * so not now.
 */
static int make_beside(const char *database, const char *suffix, const char *path)
{
	int fd, r;

	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 :
			errno == ENOSPC ? use_spare(database, suffix, path) : -errno;
	r = share_as(fd, database);
	close(fd);
	return r;
}

/* Keep the file @path as the spare one, if there is none. */
static bool keep_as_spare(const char *database, const char *suffix, const char *path)
{
	RD_FREE char *spare = path_of_spare(database, suffix);

	return spare && !truncate(path, 0) &&
		!renameat2(AT_FDCWD, path, AT_FDCWD, spare, RENAME_NOREPLACE);
}

/*
 * What only reads the index makes none, and does not go without. An empty one means nothing,
 * and takes no room.
 */
static int prepare_index(const char *database, bool make)
{
	RD_FREE char *path = path_beside(database, "-shm");
	int r = path ? rd_check_plain(path, true, false) : -ENOMEM;

	if (r == -ENOENT && make)
		r = make_beside(database, "-shm", path);
	return r && r != -ENOENT ? code_of(r, SQLITE_CANTOPEN) : SQLITE_OK;
}

static int vfs_shm_map(sqlite3_file *file, int nr, int size, int extend, void volatile **ret)
{
	struct vfs_file *vfs_file = (struct vfs_file *)file;
	const char *name = vfs_file->name;
	bool only_read = !nr && sqlite3_uri_boolean(name, RD_VFS_READ_INDEX, 0);
	int r = vfs_file->has_index ? SQLITE_OK : prepare_index(name, only_read);

	if (r)
		return r;
	r = file_below(file)->pMethods->xShmMap(file_below(file), nr, size, extend, ret);
	/* It stays open, and a process that has given up rights finds no path. */
	vfs_file->has_index = r == SQLITE_OK || r == SQLITE_READONLY ||
		r == SQLITE_READONLY_CANTINIT;
	/*
	 * The first who writes is about to fill it, which begins with a version. A reader
	 * that cannot do that itself waits for it: to SQLite it would be an error.
	 */
	if (only_read && r == SQLITE_READONLY && (!*ret || !*(const volatile u32 *)*ret)) {
		*ret = NULL;
		return SQLITE_BUSY;
	}
	return code_below(r);
}

static int vfs_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
	return file_below(file)->pMethods->xShmLock(file_below(file), offset, n, flags);
}

static void vfs_shm_barrier(sqlite3_file *file)
{
	file_below(file)->pMethods->xShmBarrier(file_below(file));
}

static int vfs_shm_unmap(sqlite3_file *file, int delete)
{
	const char *name = ((struct vfs_file *)file)->name;
	RD_FREE char *path = delete ? path_beside(name, "-shm") : NULL;
	int r = file_below(file)->pMethods->xShmUnmap(file_below(file), 0);

	((struct vfs_file *)file)->has_index = false;
	/* Nothing else has the database now. */
	if (path && !keep_as_spare(name, "-shm", path))
		unlink(path);
	return r;
}

/* Version 2: no mapping of the database, which would go past the checks. */
static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = vfs_close,
	.xRead = vfs_read,
	.xWrite = vfs_write,
	.xTruncate = vfs_truncate,
	.xSync = vfs_sync,
	.xFileSize = vfs_file_size,
	.xLock = vfs_lock,
	.xUnlock = vfs_unlock,
	.xCheckReservedLock = vfs_check_reserved,
	.xFileControl = vfs_control,
	.xSectorSize = vfs_sector_size,
	.xDeviceCharacteristics = vfs_characteristics,
	.xShmMap = vfs_shm_map,
	.xShmLock = vfs_shm_lock,
	.xShmBarrier = vfs_shm_barrier,
	.xShmUnmap = vfs_shm_unmap,
};

/* --- the VFS */

/* SQLite asks for more than it needs where it only reads. */
static int open_pages(const char *catalog, int flags, int *ret)
{
	bool create = flags & SQLITE_OPEN_MAIN_DB && flags & SQLITE_OPEN_CREATE;
	int r = rd_pages_open(ret, catalog, create, flags & SQLITE_OPEN_READWRITE);

	if (r == -EACCES || r == -EROFS || r == -EPERM)
		r = rd_pages_open(ret, catalog, false, false);
	if (!r)
		return SQLITE_OK;
	rd_err(r, "cannot open '%s" RD_PAGES_SUFFIX "'", catalog);
	if (r == -ENOENT)
		rd_hint("it belongs to catalog.db: restore both from the same copy");
	return r == -ENOENT ? SQLITE_IOERR_DATA : SQLITE_CANTOPEN;
}

static int refuse_log(const char *name)
{
	rd_err(0, "'%s' is the log of another catalog, or of an earlier state of this one", name);
	rd_hint("nothing was changed; a restored catalog.db needs the -wal of the same copy, or none: move this one away");
	return SQLITE_IOERR_DATA;
}

/* Does the log that is there go on from this catalog? Others may begin new ones. */
static int check_log(struct vfs_file *f, const char *name)
{
	u64 salt = 0, before;
	bool any, known;
	int r;

	do {
		before = salt;
		r = read_salt(file_below(&f->file), &salt, &any);
		if (r || !any)
			return r;
		if (rd_pages_know_log(f->pages, salt, &known))
			return refuse_pages();
	} while (!known && salt != before);
	return known ? SQLITE_OK : refuse_log(name);
}

/* Is the log there that must be? Who ends it says so in the map before, others begin one. */
static int check_has_log(const struct vfs_file *f, const char *name)
{
	RD_FREE char *log = NULL;
	unsigned int tries;
	struct stat st;
	bool needed;

	if (asprintf(&log, "%s-wal", name) < 0)
		return SQLITE_NOMEM;
	for (tries = TRIES; tries; tries--) {
		if (rd_pages_need_log(f->pages, &needed))
			return refuse_pages();
		if (!needed || (!stat(log, &st) && st.st_size))
			return SQLITE_OK;
		usleep(TRY_US);
	}
	rd_err(0, "'%s', the log of the catalog, is missing", log);
	rd_hint("nothing was changed; the log has the last changes of the catalog: copy it from where catalog.db was copied");
	return SQLITE_IOERR_DATA;
}

static char *catalog_of_log(const char *name)
{
	return strndup(name, strlen(name) - strlen("-wal"));
}

static int open_log_pages(struct vfs_file *f, const char *name, int flags)
{
	RD_FREE char *catalog = catalog_of_log(name);
	int r = catalog ? open_pages(catalog, flags, &f->pages) : SQLITE_NOMEM;

	return r ? r : check_log(f, name);
}

/*
 * Of the files with a name, SQLite opens only the catalog and its log. It has no use for a
 * journal: one that lies there is not ours, would be rolled back, and may end with the name of
 * any other file, which SQLite would remove.
 */
static int check_open(const struct vfs_file *f, const char *name, int flags)
{
	RD_FREE char *catalog = NULL;
	int r;

	if (!name)
		return SQLITE_OK;
	if (!f->is_database && !f->is_log)
		return SQLITE_CANTOPEN;
	r = rd_check_plain(name, flags & SQLITE_OPEN_READWRITE, false);
	if (r == -ENOENT && f->is_log && flags & SQLITE_OPEN_CREATE) {
		catalog = catalog_of_log(name);
		r = catalog ? make_beside(catalog, "-wal", name) : -ENOMEM;
		/* SQLite says so, where it cannot do without. */
		if (r == -EACCES || r == -EROFS)
			r = 0;
	}
	return r && r != -ENOENT ? code_of(r, SQLITE_CANTOPEN) : SQLITE_OK;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	struct vfs_file *f = (struct vfs_file *)file;
	int r;

	(void)vfs;
	/* Where this stays NULL, SQLite does not call vfs_close(). */
	file->pMethods = NULL;
	f->name = name;
	f->is_database = flags & SQLITE_OPEN_MAIN_DB;
	f->is_log = flags & SQLITE_OPEN_WAL;
	f->traced = f->is_database ? RD_TRACE_CATALOG : f->is_log ? RD_TRACE_LOG : -1;
	f->pages = -1;
	f->has_begun = false;
	f->nr_flushes = 0;
	f->has_index = false;
	r = check_open(f, name, flags);
	if (!r)
		r = below->xOpen(below, name, file_below(file), flags, ret_flags);
	if (r)
		return r;
	file->pMethods = &methods;
	if (f->is_database) {
		r = open_pages(name, flags, &f->pages);
		if (!r)
			r = check_has_log(f, name);
	} else if (f->is_log) {
		r = open_log_pages(f, name, flags);
	}
	if (r) {
		vfs_close(file);
		file->pMethods = NULL;
	}
	return r;
}

/* Beside a database without a page map SQLite removes what is no log of it. */
static int end_log(const char *name)
{
	RD_FREE char *catalog = strndup(name, strlen(name) - strlen("-wal"));
	int pages, r;

	if (!catalog)
		return SQLITE_NOMEM;
	r = rd_pages_open(&pages, catalog, false, true);
	if (r)
		return r == -ENOENT ? SQLITE_OK : SQLITE_IOERR_DELETE;
	r = rd_pages_end_log(pages);
	close(pages);
	return r ? code_of(r, SQLITE_IOERR_DELETE) : SQLITE_OK;
}

static bool is_log_name(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && !strcmp(name + len - 4, "-wal");
}

/* There is nothing else for SQLite to remove: see check_open(). */
static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	RD_FREE char *catalog = NULL;
	int r;

	(void)vfs;
	if (!is_log_name(name))
		return SQLITE_IOERR_DELETE_NOENT;
	catalog = catalog_of_log(name);
	r = catalog ? end_log(name) : SQLITE_NOMEM;
	if (r)
		return r;
	rd_trace_removed(RD_TRACE_LOG);
	return keep_as_spare(catalog, "-wal", name) ? SQLITE_OK : below->xDelete(below, name, sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	(void)vfs;
	*ret = 0;
	return is_log_name(name) ? below->xAccess(below, name, flags, ret) : SQLITE_OK;
}

/* With its links: SQLite would otherwise open where the last one leads to. */
static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	char dir[PATH_MAX] = "";
	int n;

	(void)vfs;
	if (name[0] != '/' && !getcwd(dir, sizeof(dir)))
		return SQLITE_CANTOPEN;
	n = snprintf(ret, size, "%s%s%s", dir, name[0] == '/' ? "" : "/", name);
	return n < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* All else that the VFS below does is right for us as it is. */
const char *rd_vfs_name(void)
{
	static sqlite3_vfs ours;

	if (below)
		return ours.zName;
	below = sqlite3_vfs_find(NULL);
	if (!below)
		return NULL;
	ours = *below;
	ours.zName = "revdedup";
	ours.szOsFile += sizeof(struct vfs_file);
	ours.xOpen = vfs_open;
	ours.xDelete = vfs_delete;
	ours.xAccess = vfs_access;
	ours.xFullPathname = vfs_full_path;
	return sqlite3_vfs_register(&ours, 0) ? NULL : ours.zName;
}

u64 rd_vfs_log_flushes(sqlite3 *db)
{
	sqlite3_file *log = NULL;

	/* A database in memory has another one. */
	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) || !log ||
	    log->pMethods != &methods)
		return 0;
	return ((struct vfs_file *)log)->nr_flushes;
}

/* --- reading all of it */

/*
 * Is page @number in the log? SQLite reads it there, and what the database has may
 * be half of it, if a crash came while it was copied.
 *
 * A frame of the log has a header of 24 bytes, with the page's number at 0 (big endian)
 * and the salt at 8, and then the page. One with another salt is an old one.
 */
static bool is_in_log(sqlite3_file *log, u64 number)
{
	u8 header[LOG_HEADER], frame[24];
	sqlite3_int64 size, offset;

	if (!log || !log->pMethods || log->pMethods->xFileSize(log, &size) ||
	    log->pMethods->xRead(log, header, sizeof(header), 0))
		return false;
	for (offset = sizeof(header); offset < size; offset += sizeof(frame) + PAGE_SIZE)
		if (!log->pMethods->xRead(log, frame, sizeof(frame), offset) &&
		    !memcmp(frame + 8, header + 16, 8) &&
		    ((u64)frame[0] << 24 | frame[1] << 16 | frame[2] << 8 | frame[3]) == number)
			return true;
	return false;
}

/*
 * Good, or in the log; or neither for a moment, while another process copies it
 * from there.
 */
static bool is_page_good(sqlite3_file *file, int pages, sqlite3_file *log, u64 offset)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	unsigned int tries = 20;
	u8 page[PAGE_SIZE];

	while (file->pMethods->xRead(file, page, sizeof(page), offset) ||
	       !is_good(pages, page, offset)) {
		if (is_in_log(log, offset / PAGE_SIZE + 1))
			return true;
		if (!--tries)
			return false;
		nanosleep(&moment, NULL);
	}
	return true;
}

int rd_vfs_check(sqlite3 *db, u64 *ret_page)
{
	sqlite3_file *file = NULL, *log = NULL;
	sqlite3_int64 size;
	u64 offset;
	int pages;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) || !file ||
	    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log))
		return -EIO;
	pages = ((struct vfs_file *)file)->pages;
	file = file_below(file);
	*ret_page = 0;
	if (rd_pages_check(pages))
		return -EUCLEAN;
	if (file->pMethods->xFileSize(file, &size))
		return -EIO;
	for (offset = 0; offset < (u64)size; offset += PAGE_SIZE) {
		*ret_page = offset / PAGE_SIZE + 1;
		if (offset != LOCK_BYTE && !is_page_good(file, pages, log, offset))
			return -EUCLEAN;
	}
	return 0;
}
