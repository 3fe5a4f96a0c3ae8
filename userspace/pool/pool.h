/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pool: a directory with the catalog (catalog.db), the data area (data, a
 * file or a link to a block device), and a reserve of space (reserve).
 * Documentation/pool.rst has the whole design.
 */
#ifndef RD_POOL_H
#define RD_POOL_H

#include "base/lock.h"
#include "pool/catalog/catalog.h"
#include "pool/data/area.h"

struct rd_lease_ops;

/*
 * Is the data area that of the catalog, as both were left? Each knows how far the other
 * must be: the catalog has the last part of the journal that it has seen stable, and the
 * sequence number of the superblock; each part of the journal has the generation of the
 * catalog.
 */
enum rd_life {
	RD_LIFE_ONE,
	RD_LIFE_OLD_CATALOG,	/* the data area has gone on without it */
	RD_LIFE_OLD_DATA,	/* the catalog has gone on without it */
	RD_LIFE_APART,		/* both have gone on, each without the other */
};

const char *rd_life_text(enum rd_life life);

struct rd_pool {
	char *path;
	struct rd_sql *sql;
	struct rd_area area;
	bool gave_up_reserve;		/* some of it: it comes back in the end */
	int lock_fd;
	struct rd_lock lock;		/* shared: it is open */
	unsigned int wait_ms;		/* for locks of others */
	const struct rd_progress *progress;	/* or NULL */
	struct rd_lease_ops *lease_ops;	/* or NULL: see lease.h */
	bool told_unreachable;		/* that a device is */
	enum rd_life life;		/* of one that is only read */

	/* Of a pool that is open for writing. */
	i64 session;
	struct rd_lock session_lock;
};

/* What long work tells: how much of what. */
struct rd_progress {
	void (*tell)(const struct rd_progress *progress, const char *what,
		     u64 done, u64 total);
	/* Set by a signal: end as soon as that is clean. */
	volatile int *stop;
};

struct rd_pool_options {
	const char *data;	/* NULL: a file in the directory */
	u64 size;		/* of the file; 0: as large as its file system */
	u64 reserve;		/* bytes kept for deleting in a full pool */
	bool force;
};

int rd_pool_create(const char *path, const struct rd_pool_options *options);

/* What @name is called in the directory @pool; NULL: no memory. */
char *rd_path_in(const char *pool, const char *name);
/* Is it there? A link counts if what it leads to is. */
bool rd_is_in(const char *pool, const char *name);
/* Names made and removed there are stable after it. */
int rd_sync_directory(const char *path);

enum rd_pool_mode {
	RD_POOL_READ,
	RD_POOL_WRITE,
	RD_POOL_DELETE,		/* the same, and the reserve is given up for it */
	RD_POOL_REPAIR,		/* alone; the reserve as well */
	/* Alone; catalog and data area are not of one life, and the catalog is to hold. */
	RD_POOL_APART,
	/* Alone; both superblocks are lost, and the catalog can be read. */
	RD_POOL_LOST,
};

/*
 * Open the pool @path for the command @verb. Opening it for writing finishes or
 * undoes what commands that died have left. -ENOENT: there is no pool. -EEXIST,
 * without a word: the superblocks are not lost, catalog and data area are of one life.
 */
int rd_pool_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		 const char *verb, unsigned int wait_ms);
/*
 * Ends the session; @r, and an error of its own if @r is 0, is returned.
 */
int rd_pool_close(struct rd_pool *pool, int r);

/* -EINTR once the user has asked to stop. Also tells how far the work is. */
int rd_pool_progress(struct rd_pool *pool, const char *what, u64 done, u64 total);

/* Take a lock of others', or say who has it and return -EBUSY. */
int rd_pool_lock(struct rd_pool *pool, struct rd_lock *ret, enum rd_lock_class class,
		 u64 id, bool exclusive, const char *what);

#endif
