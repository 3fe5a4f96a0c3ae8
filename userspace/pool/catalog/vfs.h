/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The VFS between SQLite and the files of the catalog. It gives each page of the database a
 * check, so that no bit of it turns unnoticed. (SQLite's own cksumvfs does the same, but
 * Debian does not package it, and it would not know the page map.) SQLite leaves the last
 * RD_PAGE_CHECK bytes of a page alone; they are
 *
 *	 0  4  CRC-32C of the page's number (from 1, 4 bytes, little endian) and of
 *	       the rest of the page
 *	 4  4  magic
 *
 * The VFS sets them when SQLite writes the page to the database, and compares them when it
 * reads the page there, as it does with the page map (pages.h), which knows whether the page
 * is the newest one. The log (-wal) has checks of its own, and the map knows which log
 * belongs to the catalog. A page of zeros was never written.
 */
#ifndef RD_VFS_H
#define RD_VFS_H

#include <sqlite3.h>

#include "pages.h"

/* In a URI: the index of the log is not written to. SQLite knows it as well. */
#define RD_VFS_READ_INDEX	"readonly_shm"

/* Return the name of the VFS for sqlite3_open_v2(). NULL: no memory. */
const char *rd_vfs_name(void);

/*
 * Check every page of the database @db, used or not, while others may write. -EUCLEAN:
 * *@ret_page is the first bad page, or 0 for the page map.
 */
int rd_vfs_check(sqlite3 *db, u64 *ret_page);

/* Count the flushes of transactions in the log of @db that have begun, well or not. */
u64 rd_vfs_log_flushes(sqlite3 *db);

#endif
