// SPDX-License-Identifier: GPL-2.0
/* Pools: opening and closing them, and the sessions of commands. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/engine/journal.h"
#include "pool/engine/recover.h"
#include "pool.h"

#define ROOM_TO_OPEN	(128ULL << 10)
#define NEARLY_FULL	(16ULL << 20)
/* How often one who waits looks whether the user has lost patience. */
#define WAIT_STEP_MS	100
/* For locks that are held for a while at most, so this is long. */
#define LONG_WAIT_MS	(10 * 60 * 1000)

char *rd_path_in(const char *pool, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", pool, name) < 0 ? NULL : path;
}

bool rd_is_in(const char *pool, const char *name)
{
	RD_FREE char *path = rd_path_in(pool, name);

	return path && !access(path, F_OK);
}

int rd_sync_directory(const char *path)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd))
		return rd_err(-errno, "cannot flush '%s'", path);
	return 0;
}

/* --- the reserve */

static int open_reserve(const struct rd_pool *pool, off_t *ret_size, bool *ret_is_there)
{
	RD_FREE char *path = rd_path_in(pool->path, "reserve");
	struct stat st;
	int fd;

	if (!path)
		return -ENOMEM;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		close(fd);
		return -EIO;
	}
	*ret_size = st.st_size;
	*ret_is_there = st.st_blocks * 512 >= st.st_size;
	return fd;
}

/*
 * Make room for the work of deleting in a file system that is full. The file keeps
 * its size, and so remembers how much it is to be when the pool is closed.
 */
static void give_up_reserve(struct rd_pool *pool, u64 bytes)
{
	bool is_there;
	off_t size;
	RD_CLOSE int fd = open_reserve(pool, &size, &is_there);

	if (fd < 0 || !size)
		return;
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, rd_min(size, bytes)))
		rd_info("the reserve cannot be given up");
	else
		pool->gave_up_reserve = true;
}

/*
 * How much a file system keeps for itself, and for whom, it does not say: where it
 * is nearly full, try.
 */
static bool has_room(const struct rd_pool *pool)
{
	struct statvfs vfs;
	RD_CLOSE int fd = -1;

	if (statvfs(pool->path, &vfs) || (u64)vfs.f_bavail * vfs.f_frsize >= NEARLY_FULL)
		return true;
	fd = open(pool->path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno != ENOSPC;
	return posix_fallocate(fd, 0, ROOM_TO_OPEN) != ENOSPC;
}

/*
 * Even to open the catalog takes some blocks, for what SQLite puts beside it, but of who
 * only reads (see sql.c).
 */
static int make_room(struct rd_pool *pool, enum rd_pool_mode mode)
{
	if (mode >= RD_POOL_DELETE) {
		give_up_reserve(pool, INT64_MAX);
		return 0;
	}
	if (mode == RD_POOL_READ || has_room(pool))
		return 0;
	rd_err(-ENOSPC, "'%s'", pool->path);
	rd_hint("nothing was changed; 'revdedupctl delete' and 'prune' make room");
	return -ENOSPC;
}

/* Where there is no room for it, it comes back when there is. */
static void take_reserve(struct rd_pool *pool)
{
	bool is_there = true;
	off_t size = 0;
	RD_CLOSE int fd = open_reserve(pool, &size, &is_there);

	if (fd >= 0 && !is_there && posix_fallocate(fd, 0, size))
		rd_info("there is no room for the reserve");
}

/* --- sessions */

static int begin_session(struct rd_pool *pool, const char *verb)
{
	int r;

	r = rd_catalog_begin(pool->sql);
	if (r)
		return r;
	r = rd_sql_run(pool->sql, "INSERT INTO session(pid, verb, started, version)"
		       " VALUES(?, ?, ?, 0)", "iti", (i64)getpid(), verb, (i64)time(NULL));
	if (!r) {
		pool->session = rd_sql_last_id(pool->sql);
		/* Before anybody can see the row and find nobody behind it. */
		r = rd_lock_take(&pool->session_lock, pool->lock_fd, RD_LOCK_SESSION,
				 pool->session, true, 0);
	}
	return rd_catalog_end(pool->sql, r);
}

static int end_session(struct rd_pool *pool, bool has_failed)
{
	int r;

	if (!pool->session)
		return 0;
	/* If that fails, the next command does it. */
	if (has_failed)
		rd_undo(pool);
	r = rd_end_session(pool->sql, pool->session);
	rd_lock_drop(&pool->session_lock);
	pool->session = 0;
	return r;
}

/* --- opening */

/* A file for locks: the data area itself, or one named after the device. */
static int open_lock_file(struct rd_pool *pool, const char *data)
{
	struct stat st;
	char path[64];
	int flags = O_CLOEXEC | (pool->area.writable ? O_RDWR : O_RDONLY);

	if (!pool->area.is_device) {
		pool->lock_fd = open(data, flags);
		return pool->lock_fd < 0 ? rd_err(-errno, "cannot open '%s'", data) : 0;
	}
	/* Two paths to one device must meet. */
	if (fstat(pool->area.fd, &st))
		return -errno;
	mkdir("/run/lock/revdedup", 0755);
	snprintf(path, sizeof(path), "/run/lock/revdedup/%u:%u", major(st.st_rdev),
		 minor(st.st_rdev));
	pool->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return pool->lock_fd < 0 ? rd_err(-errno, "cannot open '%s'", path) : 0;
}

static int check_identity(struct rd_pool *pool)
{
	u8 uuid[16];
	int r;

	r = rd_catalog_uuid(pool->sql, uuid);
	if (r < 0)
		return r;
	if (!r && !memcmp(uuid, pool->area.super.uuid, sizeof(uuid)))
		return 0;
	rd_err(0, "'%s': the catalog and the data area are of different pools", pool->path);
	rd_hint("nothing was changed; bring the right catalog.db, or make it anew with 'repair --rebuild-catalog'");
	return -ESTALE;
}

static const char *const life_texts[] = {
	[RD_LIFE_OLD_CATALOG] = "the catalog is older than the data area",
	[RD_LIFE_OLD_DATA] = "the data area is older than the catalog, or has lost the end of the copy of the catalog",
	[RD_LIFE_APART] = "the catalog and the data area have each gone on without the other",
};

const char *rd_life_text(enum rd_life life)
{
	return life_texts[life];
}

/* Both ways out keep what the other side knows. */
static void hint_ways_out(enum rd_life life)
{
	rd_hint("nothing was changed; bring the %s, or go on from what the data area says with 'revdedupctl repair --rebuild-catalog', or from what the catalog says with 'revdedupctl repair --force'",
		life == RD_LIFE_OLD_CATALOG ? "newer catalog.db, with its catalog.db-pages" :
		life == RD_LIFE_OLD_DATA ? "newer data area" : "two that belong together");
}

/*
 * Who only reads may: each block is checked as it is read, so what is not there any more
 * is an error. An older catalog may name frames that have something else by now: nobody
 * is told what it says, which was true once.
 */
static int check_life(struct rd_pool *pool, enum rd_pool_mode mode)
{
	enum rd_life life;
	int r = check_identity(pool);

	if (!r)
		r = rd_journal_life(pool, &life);
	if (r)
		return r;
	if (mode == RD_POOL_APART)
		return life == RD_LIFE_ONE ? -EEXIST : 0;
	pool->life = life;
	if (life == RD_LIFE_ONE)
		return 0;
	if (mode == RD_POOL_READ && life != RD_LIFE_OLD_CATALOG) {
		rd_warn("'%s': %s; versions may be damaged, and nothing can be written", pool->path,
			rd_life_text(life));
		return 0;
	}
	rd_err(0, "'%s': %s", pool->path, rd_life_text(life));
	hint_ways_out(life);
	return -ESTALE;
}

/* Why there is nothing at @data, which is in the directory @path. */
static int refuse_path(const char *path, const char *data, int error)
{
	struct stat st;

	if (!lstat(data, &st) && S_ISLNK(st.st_mode) && error == -ENOENT) {
		rd_err(0, "what '%s' leads to is not there", data);
		rd_hint("a volume may have to be activated, with 'vgchange -ay', or a disk to be mounted");
		return -ENODEV;
	}
	if (error != -ENOENT && error != -ENOTDIR)
		return rd_err(error, "cannot look at '%s'", data);
	rd_err(0, "'%s' is not a pool", path);
	rd_hint("is its file system mounted? Make one with 'revdedupctl init %s', or name another with --pool",
		path);
	return -ENOENT;
}

static int open_parts(struct rd_pool *pool, enum rd_pool_mode mode, const char *verb)
{
	RD_FREE char *data = rd_path_in(pool->path, "data");
	RD_FREE char *catalog = rd_path_in(pool->path, "catalog.db");
	bool writable = mode != RD_POOL_READ;
	int r;

	if (!data || !catalog)
		return -ENOMEM;
	if (access(data, F_OK))
		return refuse_path(pool->path, data, -errno);
	r = mode == RD_POOL_LOST ? rd_area_open_lost(&pool->area, data) :
		rd_area_open(&pool->area, data, writable);
	/* Of what has a catalog both superblocks were written over. */
	if ((r == -ENODATA || r == -EMEDIUMTYPE) && !access(catalog, F_OK))
		r = -EUCLEAN;
	if (!r)
		r = open_lock_file(pool, data);
	if (!r)
		r = rd_pool_lock(pool, &pool->lock, RD_LOCK_POOL, 0, mode >= RD_POOL_REPAIR,
				 "the pool");
	if (!r)
		r = make_room(pool, mode);
	if (r || mode == RD_POOL_REPAIR)
		return r;
	if (access(catalog, F_OK)) {
		rd_err(0, "'%s': there is no catalog", pool->path);
		if (mode != RD_POOL_LOST)
			rd_hint("'revdedupctl repair --rebuild-catalog' makes it anew from the pool");
		else
			rd_hint("nothing was changed; the superblocks are lost as well, and nothing else makes them: bring a copy of catalog.db");
		return -EUCLEAN;
	}
	r = rd_catalog_open(&pool->sql, catalog, writable && mode != RD_POOL_LOST);
	if (r || mode == RD_POOL_LOST)
		return r;
	r = check_life(pool, mode);
	if (!r && writable)
		r = begin_session(pool, verb);
	return r || !writable || mode == RD_POOL_APART ? r : rd_recover(pool);
}

int rd_pool_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		 const char *verb, unsigned int wait_ms)
{
	struct rd_pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return -ENOMEM;
	pool->area.fd = -1;
	pool->lock_fd = -1;
	pool->lock = RD_LOCK_NONE;
	pool->session_lock = RD_LOCK_NONE;
	pool->wait_ms = wait_ms;
	pool->path = strdup(path);
	r = pool->path ? open_parts(pool, mode, verb) : -ENOMEM;
	if (r) {
		rd_pool_close(pool, r);
		return r;
	}
	*ret = pool;
	return 0;
}

int rd_pool_close(struct rd_pool *pool, int r)
{
	bool is_ours = pool->gave_up_reserve || (pool->sql && pool->area.writable);
	int end = 0;

	if (pool->sql)
		end = end_session(pool, r);
	rd_sql_close(pool->sql);
	/* SQLite was the last that could need it. */
	if (is_ours)
		take_reserve(pool);
	rd_area_close(&pool->area);
	/* Drops every lock. */
	if (pool->lock_fd >= 0)
		close(pool->lock_fd);
	free(pool->path);
	free(pool);
	return r ? r : end;
}

/* --- what all commands do */

static bool is_stopped(const struct rd_pool *pool)
{
	return pool->progress && pool->progress->stop && *pool->progress->stop;
}

int rd_pool_progress(struct rd_pool *pool, const char *what, u64 done, u64 total)
{
	const struct rd_progress *progress = pool->progress;

	if (!progress)
		return 0;
	if (progress->tell)
		progress->tell(progress, what, done, total);
	return is_stopped(pool) ? -EINTR : 0;
}

/* The commands that run now may be the ones that have the lock. */
static void say_who(struct rd_pool *pool)
{
	RD_ROW struct rd_row *row = NULL;
	char started[32];
	struct tm tm;
	time_t when;

	if (!pool->sql || rd_sql_ask(pool->sql, &row, "SELECT pid, verb, started FROM session"
				     " WHERE id <> ?", "i", pool->session))
		return;
	while (rd_row_next(row) > 0) {
		when = rd_row_i64(row, 2);
		strftime(started, sizeof(started), "%Y-%m-%d %H:%M:%S", localtime_r(&when, &tm));
		rd_hint("running: %s, pid %lld, since %s", rd_row_text(row, 1),
			(long long)rd_row_i64(row, 0), started);
	}
}

static int wait_for_lock(struct rd_pool *pool, struct rd_lock *ret, enum rd_lock_class class,
			 u64 id, bool exclusive, const char *what)
{
	unsigned int wait_ms = pool->wait_ms, waited = 0, now;
	int r;

	if (class == RD_LOCK_JOURNAL || class == RD_LOCK_FREE)
		wait_ms = rd_max(wait_ms, rd_patience_ms(LONG_WAIT_MS));
	for (;;) {
		now = rd_min(wait_ms - waited, WAIT_STEP_MS);
		r = rd_lock_take(ret, pool->lock_fd, class, id, exclusive, now);
		if (r != -EAGAIN || waited + now >= wait_ms)
			return r;
		if (is_stopped(pool))
			return -EINTR;
		if (waited < RD_TELL_MS && waited + now >= RD_TELL_MS) {
			rd_warn("waiting for another command that is using %s", what);
			say_who(pool);
		}
		waited += now;
	}
}

int rd_pool_lock(struct rd_pool *pool, struct rd_lock *ret, enum rd_lock_class class,
		 u64 id, bool exclusive, const char *what)
{
	int r = wait_for_lock(pool, ret, class, id, exclusive, what);

	if (r == -EAGAIN) {
		rd_err(0, "another command is using %s", what);
		say_who(pool);
		rd_hint("try again later, or wait for it with --lock-wait SECONDS");
		return -EBUSY;
	}
	return r && r != -EINTR ? rd_err(r, "cannot lock %s", what) : r;
}
