// SPDX-License-Identifier: GPL-2.0
/* The handle of a pool: open it, lock parts of it, report progress. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/plain.h"
#include "pool/catalog/sessions.h"
#include "pool/catalog/state.h"
#include "pool/data/rados.h"
#include "pool.h"
#include "shard.h"

#define RUN		"/run/revdedup"
#define ROOM_TO_OPEN	(128ULL << 10)
#define NEARLY_FULL	(16ULL << 20)
/* How often a command that waits looks whether the user has asked it to stop. */
#define WAIT_STEP_MS	100
/* For locks that no command holds for long: a command that waits gets them. */
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

bool rd_pool_is_shard(const char *pool)
{
	RD_FREE char *data = rd_path_in(pool, "data");
	char name[PATH_MAX];

	return rd_shard_is_name(pool) || (data && rd_rados_name(data, name));
}

char *rd_pool_opened(const char *pool)
{
	return rd_path_in(pool, rd_pool_is_shard(pool) ? "lock" : "data");
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
	fd = rd_open_plain(path, O_WRONLY, 0);
	if (fd < 0)
		return fd;
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
static int give_up_reserve(struct rd_pool *pool, u64 bytes)
{
	bool is_there;
	off_t size;
	RD_CLOSE int fd = open_reserve(pool, &size, &is_there);

	/* A pool need not have one. */
	if (fd < 0 || !size)
		return fd == -EPERM ? fd : 0;
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, rd_min(size, bytes)))
		rd_info("cannot free the reserve");
	else
		pool->gave_up_reserve = true;
	return 0;
}

/*
 * Is there room to open the catalog? A file system does not say how much it keeps for
 * itself and for root: where it is nearly full, try.
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
 * Opening the catalog takes some blocks, for the files that SQLite puts beside it, unless
 * it is only read (see sql.c).
 */
static int make_room(struct rd_pool *pool, enum rd_pool_mode mode)
{
	if (mode >= RD_POOL_DELETE)
		return give_up_reserve(pool, INT64_MAX);
	if (mode == RD_POOL_READ || has_room(pool))
		return 0;
	rd_err(-ENOSPC, "'%s'", pool->path);
	rd_remedy(RD_REMEDY_MAKE_ROOM, NULL, "nothing was changed");
	return -ENOSPC;
}

/* Fill the reserve up again. Where there is no room, a later command does. */
static void take_reserve(struct rd_pool *pool)
{
	bool is_there = true;
	off_t size = 0;
	RD_CLOSE int fd = open_reserve(pool, &size, &is_there);

	if (fd >= 0 && !is_there && posix_fallocate(fd, 0, size))
		rd_info("there is no room to fill the reserve again");
}

/* --- opening */

/*
 * A directory that only root can make, and so no other user has made it before, with files of
 * that user in the place of the locks. Pools on devices are root's.
 */
static int open_lock_of_device(const struct stat *st)
{
	char path[64];
	int fd;

	if (mkdir(RUN, 0755) && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", RUN);
	snprintf(path, sizeof(path), RUN "/%u:%u.lock", major(st->st_rdev), minor(st->st_rdev));
	fd = rd_open_plain(path, O_RDWR | O_CREAT, 0600);
	return fd < 0 ? rd_err(fd, "cannot open '%s'", path) : fd;
}

/* One who only reads may have to make the catalog, and takes a lock for that. */
static int open_lock_in(struct rd_pool *pool)
{
	RD_FREE char *path = rd_path_in(pool->path, "lock");

	if (!path)
		return -ENOMEM;
	pool->lock_fd = rd_open_plain(path, O_RDWR | O_CREAT, 0600);
	return pool->lock_fd < 0 ? rd_err(pool->lock_fd, "cannot open '%s'", path) : 0;
}

/* Open a file for locks: the data area itself, or one called after the device. */
static int open_lock_file(struct rd_pool *pool, const char *data)
{
	struct stat st;
	int flags = O_CLOEXEC | (pool->area.writable ? O_RDWR : O_RDONLY);

	if (rd_area_can(&pool->area, RD_STORE_FENCED))
		return open_lock_in(pool);
	if (!rd_area_can(&pool->area, RD_STORE_KERNEL_READS)) {
		pool->lock_fd = open(data, flags);
		return pool->lock_fd < 0 ? rd_err(-errno, "cannot open '%s'", data) : 0;
	}
	/* Two paths to one device must meet. */
	if (fstat(pool->area.store->fd, &st))
		return -errno;
	pool->lock_fd = open_lock_of_device(&st);
	return pool->lock_fd < 0 ? pool->lock_fd : 0;
}

static int check_identity(struct rd_pool *pool)
{
	u8 uuid[16];
	int r;

	r = rd_state_uuid(pool->sql, uuid);
	if (r < 0)
		return r;
	if (!r && !memcmp(uuid, pool->area.super.uuid, sizeof(uuid)))
		return 0;
	rd_err(0, "'%s': the catalog and the data area belong to different pools", pool->path);
	rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL,
		  "nothing was changed; bring back the right catalog.db if you can");
	return -ESTALE;
}

/* Say why there is nothing at @data, which is in the directory @path. */
static int refuse_path(const char *path, const char *data, int error)
{
	RD_FREE char *catalog = rd_path_in(path, "catalog.db");
	struct stat st;

	if (!lstat(data, &st) && S_ISLNK(st.st_mode) && error == -ENOENT) {
		rd_err(0, "the target of the link '%s' does not exist", data);
		rd_hint("activate its volume group with 'vgchange -ay', or mount its disk");
		return -ENODEV;
	}
	if (error == -EACCES) {
		rd_err(error, "cannot open the pool '%s'", path);
		rd_hint("run this command as root, or as the owner of the pool");
		return error;
	}
	if (error != -ENOENT && error != -ENOTDIR)
		return rd_err(error, "cannot look at '%s'", data);
	if (catalog && !access(catalog, F_OK)) {
		rd_err(0, "'%s' is missing, and with it the data of the pool", data);
		rd_hint("nothing was changed; bring it back, from a copy of the pool if need be");
		return -ENOENT;
	}
	rd_err(0, "'%s' is not a pool", path);
	/* To make one there would hide the one that is to be mounted. */
	rd_remedy(RD_REMEDY_NAME_POOL, NULL, "its file system may not be mounted");
	return -ENOENT;
}

static int open_catalog(struct rd_pool *pool, const char *catalog, enum rd_pool_mode mode)
{
	bool writable = mode != RD_POOL_READ && mode != RD_POOL_LOST;
	int r;

	if (access(catalog, F_OK)) {
		rd_err(0, "'%s': there is no catalog", pool->path);
		if (mode != RD_POOL_LOST)
			rd_remedy(RD_REMEDY_REBUILD_CATALOG, NULL, NULL);
		else
			rd_hint("nothing was changed; the superblocks are lost too, and only a copy of catalog.db can replace them: bring one back");
		return -EUCLEAN;
	}
	r = rd_catalog_open(&pool->sql, catalog, writable);
	return r || mode == RD_POOL_LOST ? r : check_identity(pool);
}

static int open_parts(struct rd_pool *pool, enum rd_pool_mode mode)
{
	RD_FREE char *data = rd_path_in(pool->path, "data");
	RD_FREE char *catalog = rd_path_in(pool->path, "catalog.db");
	char name[PATH_MAX];
	int r;

	if (!data || !catalog)
		return -ENOMEM;
	r = rd_check_directory(pool->path);
	if (r)
		return r;
	r = rd_rados_name(data, name) ? 0 : rd_check_plain(data, mode != RD_POOL_READ, true);
	if (r)
		return r == -EPERM ? r : refuse_path(pool->path, data, r);
	r = mode == RD_POOL_LOST ? rd_area_open_lost(&pool->area, data) :
		rd_area_open(&pool->area, data, mode != RD_POOL_READ);
	/* A data area with a catalog beside it had superblocks: both were written over. */
	if ((r == -ENODATA || r == -EMEDIUMTYPE) && !access(catalog, F_OK))
		r = -EUCLEAN;
	if (!r)
		r = open_lock_file(pool, data);
	if (!r)
		r = rd_pool_lock(pool, &pool->lock, RD_LOCK_POOL, 0, mode >= RD_POOL_ALONE,
				 "the pool");
	if (!r)
		r = make_room(pool, mode);
	if (r || mode == RD_POOL_REPAIR || rd_area_can(&pool->area, RD_STORE_FENCED))
		return r;
	return open_catalog(pool, catalog, mode);
}

int rd_pool_open(struct rd_pool **ret, const char *path, enum rd_pool_mode mode,
		 unsigned int wait_ms, const struct rd_progress *progress)
{
	struct rd_pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return -ENOMEM;
	pool->lock_fd = -1;
	pool->lock = RD_LOCK_NONE;
	pool->session_lock = RD_LOCK_NONE;
	pool->wait_ms = wait_ms;
	pool->progress = progress;
	pool->path = strdup(path);
	r = pool->path ? open_parts(pool, mode) : -ENOMEM;
	if (r) {
		rd_pool_close(pool);
		return r;
	}
	*ret = pool;
	return 0;
}

void rd_pool_close(struct rd_pool *pool)
{
	bool is_ours = pool->gave_up_reserve || (pool->sql && pool->area.writable);

	rd_sql_close(pool->sql);
	/* SQLite, which is closed now, was the last to need the room. */
	if (is_ours)
		take_reserve(pool);
	rd_area_close(&pool->area);
	/* Drops every lock. */
	if (pool->lock_fd >= 0)
		close(pool->lock_fd);
	rd_buffer_free(&pool->fenced_off);
	free(pool->path);
	free(pool);
}

/* --- what all commands do */

int rd_pool_progress(struct rd_pool *pool, const char *what, u64 done, u64 total)
{
	const struct rd_progress *progress = pool->progress;

	if (!progress)
		return 0;
	if (progress->tell)
		progress->tell(progress, what, done, total);
	return progress->stop && *progress->stop ? -EINTR : 0;
}

/* List the commands that run now: one of them may have the lock. */
static void say_who(struct rd_pool *pool)
{
	RD_BUFFER struct rd_buffer sessions = { 0 };
	const struct rd_session *session;
	char started[RD_TIME_TEXT];

	if (pool->sql && !rd_session_list(pool->sql, pool->session, &sessions))
		rd_each(session, &sessions)
			rd_hint("running: %s, pid %lld, since %s", session->verb,
				session->pid, rd_print_time(started, session->started));
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
		if (rd_pool_progress(pool, NULL, 0, 0))
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
		rd_remedy(RD_REMEDY_WAIT_FOR_LOCK, NULL, "try again later");
		return -EBUSY;
	}
	return r && r != -EINTR ? rd_err(r, "cannot lock %s", what) : r;
}
