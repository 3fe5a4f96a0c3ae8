// SPDX-License-Identifier: GPL-2.0
/* Checks of the catalog's pages. See vfs.h. */
#include <errno.h>
#include <linux/crc32c.h>
#include <string.h>
#include <time.h>

#include "failpoint.h"
#include "fp.h"
#include "log.h"
#include "trace.h"
#include "vfs.h"

#define PAGE_SIZE	4096
#define PAGE_MAGIC	0x43505652U	/* "RVPC" */
#define CHECKED		(PAGE_SIZE - RD_VFS_RESERVED)

/* SQLite never writes the page that has this byte, which is for locks. */
#define LOCK_BYTE	0x40000000ULL

struct page_check {
	__le32 crc;
	__le32 magic;
};

/* What SQLite has for a file of ours; that of the VFS below follows it. */
struct vfs_file {
	sqlite3_file file;
	int traced;		/* RD_TRACE_*, or -1 for neither */
	bool is_database;
};

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

static bool is_good(const void *page, u64 offset)
{
	struct page_check check = check_of(page, offset);

	return !memcmp((const u8 *)page + CHECKED, &check, sizeof(check)) ||
		rd_is_zero(page, PAGE_SIZE);
}

static int code_of(int r, int other)
{
	return r == -ENOSPC ? SQLITE_FULL : other;
}

/* --- a file */

static int vfs_close(sqlite3_file *file)
{
	return file_below(file)->pMethods->xClose(file_below(file));
}

static int vfs_read(sqlite3_file *file, void *buf, int len, sqlite3_int64 offset)
{
	int r = file_below(file)->pMethods->xRead(file_below(file), buf, len, offset);

	/* Of the first page, parts are read as well. */
	if (r || !((struct vfs_file *)file)->is_database || len != PAGE_SIZE ||
	    is_good(buf, offset))
		return r;
	rd_err(0, "page %lld of the catalog is damaged", offset / PAGE_SIZE + 1);
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

static int vfs_write(sqlite3_file *file, const void *buf, int len, sqlite3_int64 offset)
{
	u8 page[PAGE_SIZE];
	struct page_check check;
	int r = rd_point("catalog-write");

	if (r)
		return code_of(r, SQLITE_IOERR_WRITE);
	if (!((struct vfs_file *)file)->is_database || len != PAGE_SIZE)
		return write_below(file, buf, len, offset);
	memcpy(page, buf, CHECKED);
	check = check_of(page, offset);
	memcpy(page + CHECKED, &check, sizeof(check));
	return write_below(file, page, len, offset);
}

static int vfs_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	rd_trace_cut(((struct vfs_file *)file)->traced, size);
	return file_below(file)->pMethods->xTruncate(file_below(file), size);
}

static int vfs_sync(sqlite3_file *file, int flags)
{
	int r = rd_point("catalog-sync");
	u64 id;

	if (r)
		return code_of(r, SQLITE_IOERR_FSYNC);
	id = rd_trace_sync(((struct vfs_file *)file)->traced);
	r = file_below(file)->pMethods->xSync(file_below(file), flags);
	if (!r)
		rd_trace_synced(id);
	return r;
}

static int vfs_file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	return file_below(file)->pMethods->xFileSize(file_below(file), ret);
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

static int vfs_shm_map(sqlite3_file *file, int nr, int size, int extend, void volatile **ret)
{
	return file_below(file)->pMethods->xShmMap(file_below(file), nr, size, extend, ret);
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
	return file_below(file)->pMethods->xShmUnmap(file_below(file), delete);
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

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	struct vfs_file *f = (struct vfs_file *)file;
	int r;

	(void)vfs;
	/* Where this stays NULL, SQLite does not call vfs_close(). */
	file->pMethods = NULL;
	f->is_database = flags & SQLITE_OPEN_MAIN_DB;
	f->traced = flags & SQLITE_OPEN_MAIN_DB ? RD_TRACE_CATALOG :
		flags & SQLITE_OPEN_WAL ? RD_TRACE_LOG : -1;
	r = below->xOpen(below, name, file_below(file), flags, ret_flags);
	if (!r)
		file->pMethods = &methods;
	return r;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	size_t len = strlen(name);

	(void)vfs;
	if (len > 4 && !strcmp(name + len - 4, "-wal"))
		rd_trace_removed(RD_TRACE_LOG);
	return below->xDelete(below, name, sync);
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
	return sqlite3_vfs_register(&ours, 0) ? NULL : ours.zName;
}

/* --- reading all of it */

/*
 * Is page @number in the log? SQLite reads it there, and what the database has may
 * be half of it, if a crash came while it was copied.
 *
 * The log: a header of 32 bytes, with a salt of 8 bytes at 16; then frames of a
 * header of 24 bytes, with the page's number at 0 (big endian) and the salt at
 * 8, and the page. A frame with another salt is an old one.
 */
static bool is_in_log(sqlite3_file *log, u64 number)
{
	u8 header[32], frame[24];
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
static bool is_page_good(sqlite3_file *file, sqlite3_file *log, u64 offset)
{
	const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
	unsigned int tries = 20;
	u8 page[PAGE_SIZE];

	while (file->pMethods->xRead(file, page, sizeof(page), offset) ||
	       !is_good(page, offset)) {
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

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) || !file ||
	    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log))
		return -EIO;
	file = file_below(file);
	if (file->pMethods->xFileSize(file, &size))
		return -EIO;
	for (offset = 0; offset < (u64)size; offset += PAGE_SIZE) {
		*ret_page = offset / PAGE_SIZE + 1;
		if (offset != LOCK_BYTE && !is_page_good(file, log, offset))
			return -EUCLEAN;
	}
	return 0;
}
