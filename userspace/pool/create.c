// SPDX-License-Identifier: GPL-2.0
/*
 * Make a pool.
 *
 * It gets a directory of its own, which is new or empty. If not all of its parts can be
 * made, those that were are removed again, and none that was there before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/plain.h"
#include "base/uuid.h"
#include "pool/data/rados.h"
#include "pool.h"
#include "shard.h"

#define DEFAULT_RESERVE	(16ULL << 20)
/* What is not written takes nothing in RADOS, and a pool can grow. */
#define SHARD_SIZE	(1ULL << 40)

static int write_file(const char *path, const char *text)
{
	RD_CLOSE int fd = rd_open_plain(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t len = strlen(text);

	if (fd < 0)
		return rd_err(fd, "cannot make '%s'", path);
	if (write(fd, text, len) != len || fsync(fd))
		return rd_err(-errno, "cannot write '%s'", path);
	return 0;
}

static int make_reserve(const char *pool, u64 bytes)
{
	RD_FREE char *path = rd_path_in(pool, "reserve");
	RD_CLOSE int fd = -1;
	int r;

	if (!path)
		return -ENOMEM;
	if (!bytes)
		return 0;
	fd = rd_open_plain(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return rd_err(fd, "cannot make '%s'", path);
	r = -posix_fallocate(fd, 0, bytes);
	return r ? rd_err(r, "cannot reserve %llu bytes", bytes) : 0;
}

int rd_default_size(const char *path, u64 *ret)
{
	char name[PATH_MAX];
	struct statvfs vfs;

	*ret = SHARD_SIZE;
	if (rd_rados_name(path, name))
		return 0;
	if (statvfs(path, &vfs))
		return rd_err(-errno, "cannot look at '%s'", path);
	/* The largest file of ext4 with 4 KiB blocks is just below 16 TiB. */
	*ret = rd_min((u64)vfs.f_blocks * vfs.f_frsize, 15ULL << 40);
	return 0;
}

static int make_data(const char *pool, const struct rd_pool_options *options,
		     const u8 uuid[16], u64 journal, u64 *ret_frames)
{
	RD_FREE char *path = rd_path_in(pool, "data");
	/* As the user typed it. */
	const char *name = options->data ? options->data : path;
	struct rd_area area;
	u64 size = options->size;
	int r = 0;

	if (!path)
		return -ENOMEM;
	if (options->data && rd_shard_is_name(options->data)) {
		if (symlink(options->data, path))
			return rd_err(-errno, "cannot make '%s'", path);
		if (!size)
			r = rd_default_size(path, &size);
	} else if (options->data) {
		RD_FREE char *target = realpath(options->data, NULL);

		if (!target)
			return rd_err(-errno, "cannot find '%s'", options->data);
		/* An absolute path stays as it is: the target of a link in /dev may change. */
		if (symlink(options->data[0] == '/' ? options->data : target, path))
			return rd_err(-errno, "cannot make '%s'", path);
	} else {
		r = rd_check_plain(path, true, false);
		r = r == -ENOENT ? 0 : r;
		if (!r && !size)
			r = rd_default_size(pool, &size);
	}
	if (!r)
		r = rd_area_format(name, size, options->force, uuid, journal,
				   options->compression, options->rule);
	if (!r)
		r = rd_area_open(&area, name, false);
	if (r)
		return r;
	*ret_frames = area.super.nr_frames;
	rd_area_close(&area);
	return 0;
}

static int make_catalog(const char *pool, const u8 uuid[16], u64 frames, u64 journal)
{
	RD_FREE char *tmp = rd_path_in(pool, "catalog.new");
	RD_FREE char *path = rd_path_in(pool, "catalog.db");
	int r;

	if (!tmp || !path)
		return -ENOMEM;
	r = rd_catalog_create(tmp, uuid, frames, journal);
	return r ? r : rd_catalog_rename(tmp, path);
}

static int make_about(const char *pool, const u8 uuid[16], u64 reserve)
{
	RD_FREE char *path = rd_path_in(pool, "pool.json");
	char text[256], uuid_text[RD_UUID_TEXT];

	if (!path)
		return -ENOMEM;
	snprintf(text, sizeof(text),
		 "{\"what\": \"revdedup pool\", \"format\": 1, \"uuid\": \"%s\", \"reserve\": %llu}\n",
		 rd_uuid_print(uuid_text, uuid), reserve);
	return write_file(path, text);
}

/* The catalog comes last: a directory without one is not a pool. */
static int fill_directory(const char *path, const struct rd_pool_options *options,
			  u64 *ret_frames)
{
	u64 reserve = options->reserve ? options->reserve : DEFAULT_RESERVE;
	u64 journal;
	u8 uuid[16];
	int r;

	if (getrandom(uuid, sizeof(uuid), 0) != sizeof(uuid) ||
	    getrandom(&journal, sizeof(journal), 0) != sizeof(journal))
		return rd_err(-errno, "no random number");
	uuid[6] = (uuid[6] & 0x0f) | 0x40;
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
	journal >>= 1;
	r = make_data(path, options, uuid, journal, ret_frames);
	if (!r)
		r = make_reserve(path, reserve);
	if (!r)
		r = make_about(path, uuid, reserve);
	if (!r)
		r = make_catalog(path, uuid, *ret_frames, journal);
	if (!r)
		r = rd_sync_directory(path);
	return r;
}

/* --- what is there already */

/* The parts of a pool, in the order in which they are made. */
static const char *const parts[] = {
	"data", "reserve", "pool.json", "catalog.new-pages", "catalog.new", "catalog.new-journal",
	"catalog.new-wal", "catalog.new-shm", "catalog.spare-wal", "catalog.spare-shm",
	"catalog.db-pages", "catalog.db",
};

#define NR_PARTS	(sizeof(parts) / sizeof(*parts))

/* Is the part there? A link to nothing is, and so is one that cannot be looked for. */
static bool is_there(const char *pool, const char *name)
{
	RD_FREE char *path = rd_path_in(pool, name);
	struct stat st;

	return !path || !lstat(path, &st);
}

/* Is @data the data area of a pool? A catalog can be rebuilt from it. */
static bool is_without_catalog(const char *data)
{
	struct rd_store *store;
	bool has_super;

	if (rd_store_open(&store, data, O_RDONLY | O_NONBLOCK))
		return false;
	has_super = rd_area_has_super(store, true) > 0;
	rd_store_close(store);
	return has_super;
}

/*
 * Refuse a data area that is there already. A link may be left of an older pool: its
 * target has not been checked, and the user has not named it.
 */
static int check_data(const char *pool, bool force)
{
	RD_FREE char *path = rd_path_in(pool, "data");
	char target[PATH_MAX];
	ssize_t len;

	if (!path)
		return -ENOMEM;
	len = readlink(path, target, sizeof(target) - 1);
	if ((!force || len >= 0) && is_without_catalog(path)) {
		rd_err(0, "'%s' is the data area of a pool without a catalog", path);
		rd_remedy(RD_REMEDY_REBUILD_CATALOG, pool, "nothing was changed");
		if (len < 0)
			rd_remedy(RD_REMEDY_OVERWRITE, NULL, NULL);
		return -EEXIST;
	}
	if (len < 0)
		return 0;
	target[len] = '\0';
	rd_err(0, "'%s' is a link to '%s'", path, target);
	rd_remedy(RD_REMEDY_NAME_DATA, NULL, "nothing was changed; remove the link first");
	return -EEXIST;
}

static int check_empty(const char *path)
{
	RD_DIR DIR *dir = opendir(path);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return rd_err(-errno, "cannot use '%s'", path);
	while (!r && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    !strcmp(entry->d_name, "lost+found"))
			continue;
		rd_err(0, "'%s' is not empty: it has '%s'", path, entry->d_name);
		rd_remedy(RD_REMEDY_USE_ANYWAY, path,
			  "nothing was changed; a pool needs a directory of its own");
		r = -ENOTEMPTY;
	}
	return r;
}

static int check_directory(const char *path, bool force)
{
	int r;

	if (is_there(path, "catalog.db")) {
		rd_err(0, "'%s' is a pool already", path);
		return -EEXIST;
	}
	r = check_data(path, force);
	return r || force ? r : check_empty(path);
}

/* --- */

static void remove_parts(const char *pool, const bool *were_there)
{
	unsigned int i;

	for (i = NR_PARTS; i--;) {
		RD_FREE char *path = rd_path_in(pool, parts[i]);

		if (path && !were_there[i])
			unlink(path);
	}
}

int rd_pool_create(const char *path, const struct rd_pool_options *options)
{
	bool is_new = !mkdir(path, 0700), were_there[NR_PARTS];
	u64 frames = 0;
	unsigned int i;
	int r;

	if (!is_new && errno != EEXIST)
		return rd_err(-errno, "cannot make '%s'", path);
	r = rd_check_directory(path);
	if (!r)
		r = check_directory(path, options->force);
	if (r)
		return r;
	for (i = 0; i < NR_PARTS; i++)
		were_there[i] = is_there(path, parts[i]);
	r = fill_directory(path, options, &frames);
	if (!r)
		return 0;
	remove_parts(path, were_there);
	if (is_new)
		rmdir(path);
	if (options->data && frames)
		rd_remedy(RD_REMEDY_USE_ANYWAY, options->data,
			  "no pool was made, but the data area was written to");
	else
		rd_hint("no pool was made");
	return r;
}
