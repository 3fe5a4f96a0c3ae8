/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The page map of the catalog, in the file catalog.db-pages: the content that was last
 * written to each page of catalog.db, and the log (-wal) that continues it. The check in a
 * page (vfs.h) finds a bit that has turned. It cannot find a page that is whole and old:
 * its write was lost, catalog.db was put back alone, or the log is that of another catalog.
 * The map finds these, because it is another file.
 *
 *	   0	the head
 *	4096	8 bytes for each page, in order: the first 8 of the SHA-256 of the
 *		page without its check, 1 if they are 0; 0: never written
 *
 * The head (little endian):
 *
 *	 0  8  magic
 *	 8  4  CRC-32C of the 64 bytes with this field zero
 *	12  4  format, 1
 *	16  8  salt of the log that continues the catalog; 0: a log is not needed
 *	24  8  salt of the log that may be there instead, 1: no log at all; 0: none may,
 *	       the log above is stable and must be there
 *	32     zeros up to 64
 *
 * Order of writes. SQLite copies a page from its log to the catalog; the entry is written
 * just before the page. When SQLite flushes the catalog, the map is flushed first. Only
 * then may SQLite begin a new log. A crash in between leaves an entry and its page out of
 * step only if the log has that page; it is read from the log until it is copied again.
 * The head has the salt of a new log, stable, before the log has it, and has none, stable,
 * before SQLite empties or removes the log.
 */
#ifndef RD_PAGES_H
#define RD_PAGES_H

#include <stdbool.h>

#include "base/units.h"

#define RD_PAGES_SUFFIX	"-pages"

/* As SQLite has them: the pages of the catalog. */
#define RD_PAGE_SIZE	4096
/* At the end of each, for its check. */
#define RD_PAGE_CHECK	8

/* Open the map of the catalog at @catalog, or make a new, empty one. -errno. */
int rd_pages_open(int *ret_fd, const char *catalog, bool create, bool writable);

/* -EOPNOTSUPP, after a message: the map of @catalog is there, and has another format. */
int rd_pages_know_format(const char *catalog);

/* Note that @page is about to be written to the catalog at @offset. 0 or -errno. */
int rd_pages_note(int fd, const void *page, u64 offset);

/* Is @page, which was read at @offset, the one that was last written there? */
bool rd_pages_agree(int fd, const void *page, u64 offset);

/* Was a page ever written at @offset? */
bool rd_pages_has(int fd, u64 offset);

/* Cut the map to a catalog of @size bytes. */
int rd_pages_cut(int fd, u64 size);

int rd_pages_sync(int fd);

/* Is the head sound? 0, -EUCLEAN or -errno. */
int rd_pages_check(int fd);

/* Does the map know that the last log that began is stable? */
bool rd_pages_log_is_known(int fd);

/*
 * Note, stable, that the log with @salt is about to replace the log with @salt_before; 0:
 * the file has no log yet.
 */
int rd_pages_begin_log(int fd, u64 salt, u64 salt_before);

/* Note that the log that began last is stable. */
int rd_pages_log_is_stable(int fd);

/* Note, stable, that all of the log is stable in the catalog, and the log is about to go. */
int rd_pages_end_log(int fd);

/* Must there be a log? */
int rd_pages_need_log(int fd, bool *ret);

/* Does the log with @salt go on from the catalog? -EUCLEAN: the map is damaged. */
int rd_pages_know_log(int fd, u64 salt, bool *ret);

#endif
