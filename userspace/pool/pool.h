/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pool keeps versions of disks, without storing the same content twice. It is a
 * directory:
 *
 *	data		the data area: a file, or a link to a block device, or to ceph:POOL/SHARD
 *	catalog.db	the catalog, a SQLite database: what is where in the data area
 *	catalog.db-pages  checksums of the catalog's pages
 *	reserve		space that is given up to delete in a full pool
 *	pool.json	what this directory is, for people and scripts
 *	index/		where blocks are, by content: hints for inline deduplication
 *	lock, shard	of a shard in RADOS: for locks; who this directory is, see fence.c
 *
 * A disk is cut into segments of 2 MiB. A recipe is one content of a segment: for each
 * block of 4 KiB the slot of a frame that has it. A version is, for each segment, the
 * recipe of the last row that was born before it or with it. A segment of the newest version
 * is in one piece, or in no more than the rule of its volume allows; older ones point into it
 * (reverse deduplication).
 *
 * A snapshot writes content to frames that no recipe uses, flushes, then commits the
 * rows that refer to it, batch by batch. The last transaction makes the version exist.
 * Then the newer version takes over what it refers to in the one before, and that one gives up
 * what the newer one has as well.
 *
 * A delete commits first that the version does not exist, then removes its rows batch by
 * batch. Slots that no recipe uses any more go to a queue. They are given back to the
 * file system only after the journal, a copy of the catalog in the data area, knows it,
 * and each device that reads the pool has left them.
 *
 * So a crash leaves: a version that does not exist yet (undone), one that is not reversed
 * yet or half deleted (finished), frames that are reserved (queued), a queue (given
 * back), changes that the journal has not yet (appended). No crash loses a version that
 * exists, and none needs a check: the next command that writes does all of this.
 *
 * Locks are byte ranges that the kernel drops with the process, in the order that
 * base/lock.h states. Readers take the pool's lock shared, as writers do; only a repair
 * is alone. A writer takes that of its volume. A transaction of the catalog is short.
 *
 * Read next: catalog/catalog.c for the tables, data/area.h for the data area,
 * snapshot.c and free.c for the two ends of a block's life, journal.h for the copy.
 * Documentation/HACKING.md has the engine's folders.
 * Documentation/pool.rst has the whole design.
 *
 * This file is the handle alone: parts that are open, locks, progress. It knows nothing
 * of versions. session.h opens a pool for a command.
 */
#ifndef RD_POOL_H
#define RD_POOL_H

#include "base/lock.h"
#include "base/pace.h"
#include "pool/catalog/catalog.h"
#include "pool/data/area.h"

struct rd_lease_ops;

/*
 * Are the data area and the catalog of one life, that is, do they describe the same state
 * of the pool? Each knows how far the other must be: the catalog has the last part of the
 * journal that it has seen stable, and the sequence number of the superblock; each part of
 * the journal has the generation of the catalog. See journal_life.h.
 */
enum rd_life {
	RD_LIFE_ONE,
	RD_LIFE_OLD_CATALOG,	/* the data area has changes that the catalog lacks */
	RD_LIFE_OLD_DATA,	/* the catalog has changes that the data area lacks */
	RD_LIFE_APART,		/* each has changes that the other lacks */
};

struct rd_pool {
	char *path;
	struct rd_sql *sql;
	struct rd_area area;
	bool gave_up_reserve;		/* closing fills it up again */
	int lock_fd;
	struct rd_lock lock;		/* RD_LOCK_POOL */
	unsigned int wait_ms;		/* for locks that other commands have */
	const struct rd_progress *progress;	/* or NULL */
	struct rd_pace pace;		/* of what snapshot, restore and scrub read */
	struct rd_lease_ops *lease_ops;	/* or NULL: see lease.h */
	bool told_unreachable;		/* the message that a device is */
	enum rd_life life;		/* not one: it is only read, or RD_POOL_APART */
	bool is_of_another;		/* host, which frees and moves without asking this one */

	/* Of a pool that is open for writing: see session.h. */
	i64 session;
	struct rd_lock session_lock;
	bool is_ahead;			/* the journal: of what the catalog has noted */
	u64 journal;			/* that was written to last, and how far at most */
	u64 journal_seq;
	struct rd_buffer fenced_off;	/* i64: sessions that died, see fence.h */
};

/* The progress of long work, for the front end. */
struct rd_progress {
	/* @what NULL: there is no work, but the command is alive, and waits for another one. */
	void (*tell)(const struct rd_progress *progress, const char *what,
		     u64 done, u64 total);
	/* Set by a signal: the work ends as soon as that leaves nothing half done. */
	volatile int *stop;
};

struct rd_pool_options {
	const char *data;	/* NULL: a file in the directory */
	u64 size;		/* of the file; 0: as large as its file system */
	u64 reserve;		/* bytes kept for deleting in a full pool */
	struct rd_compression compression;	/* of what will be new */
	struct rd_rule rule;			/* the same; no pieces: the first one */
	bool force;
};

int rd_pool_create(const char *path, const struct rd_pool_options *options);

/*
 * Find the size that a data area gets if none is named: a sparse file that of the file system of
 * @path, a shard one of its own.
 */
int rd_default_size(const char *path, u64 *ret);

/* The path of @name in the directory @pool; NULL: no memory. */
char *rd_path_in(const char *pool, const char *name);
/* Is the pool in RADOS? @pool: its directory, or its name there. */
bool rd_pool_is_shard(const char *pool);
/* The path of the file in the directory @pool that its commands have open; NULL: no memory. */
char *rd_pool_opened(const char *pool);
/* Is the file @name in the directory @pool? A link counts if its target exists. */
bool rd_is_in(const char *pool, const char *name);
/* Flush a directory: names that were made or removed in it are stable. */
int rd_sync_directory(const char *path);

enum rd_pool_mode {
	RD_POOL_READ,
	/* To hold what is read, as RD_POOL_WRITE; where another host owns it, as RD_POOL_READ. */
	RD_POOL_HOLD,
	RD_POOL_WRITE,
	RD_POOL_TAKE,		/* the same, and takes it over from another host */
	RD_POOL_TAKE_CUT,	/* the same, also where the journal is damaged */
	RD_POOL_DELETE,		/* the same, and frees the reserve to have room */
	RD_POOL_UNHOLD,		/* the same; where another host owns it, as RD_POOL_READ */
	RD_POOL_ALONE,		/* as RD_POOL_DELETE, while no other command uses the pool */
	RD_POOL_REPAIR,		/* alone, without the catalog; frees the reserve as well */
	/* Alone; catalog and data area are not of one life, and the catalog shall hold. */
	RD_POOL_APART,
	/* Alone; both superblocks are lost, and the catalog can be read. */
	RD_POOL_LOST,
};

/*
 * Open the parts of the pool @path, and take its lock. Commands call rd_session_open(),
 * which also checks that the parts are of one life, and recovers. -ENOENT: there is no
 * pool. -EEXIST, without a message: the superblocks are not lost. @progress may be NULL. The
 * catalog of a pool whose store is fenced is not opened: rd_fence_enter() does that.
 */
int rd_pool_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		 unsigned int wait_ms, const struct rd_progress *progress);
void rd_pool_close(struct rd_pool *pool);

/* Report progress. -EINTR: the user has asked to stop. */
int rd_pool_progress(struct rd_pool *pool, const char *what, u64 done, u64 total);

/* Take a lock. -EBUSY, after a message that lists other commands: one of them has it. */
int rd_pool_lock(struct rd_pool *pool, struct rd_lock *ret, enum rd_lock_class class,
		 u64 id, bool exclusive, const char *what);

#endif
