// SPDX-License-Identifier: GPL-2.0
/* Refuse devices and files that have another use than the user believes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "host/sys/block.h"
#include "host/sys/container.h"
#include "host/sys/layers.h"
#include "host/sys/loop.h"
#include "host/sys/probe.h"
#include "pool/data/fp.h"
#include "pool/pool.h"
#include "owner.h"
#include "safety.h"

#define OWNER_TEXT	256

/* --- the pool */

static bool is_in_directory(const char *path, const char *directory)
{
	RD_FREE char *copy = strdup(path);
	RD_FREE char *parent = copy ? realpath(dirname(copy), NULL) : NULL;
	RD_FREE char *pool = realpath(directory, NULL);
	size_t len = pool ? strlen(pool) : 0;

	return parent && pool && !strncmp(parent, pool, len) &&
		(!parent[len] || parent[len] == '/');
}

/* Is @st that of @file, or of a loop device over it? */
static bool is_file_or_loop(const struct stat *st, const struct stat *file)
{
	char number[32];

	if (S_ISBLK(file->st_mode))
		return S_ISBLK(st->st_mode) && st->st_rdev == file->st_rdev;
	if (st->st_dev == file->st_dev && st->st_ino == file->st_ino)
		return true;
	if (!S_ISBLK(st->st_mode))
		return false;
	snprintf(number, sizeof(number), "%u:%u", major(st->st_rdev), minor(st->st_rdev));
	return rd_loop_is_over(number, file) > 0;
}

bool rd_is_of_pool(const char *pool, const char *path)
{
	struct dirent *entry;
	struct stat st, file;
	bool found = false;

	if (is_in_directory(path, pool))
		return true;
	if (stat(path, &st))
		return false;
	/* Under any other name. */
	RD_DIR DIR *dir = opendir(pool);

	while (dir && !found && (entry = readdir(dir)))
		found = !fstatat(dirfd(dir), entry->d_name, &file, 0) &&
			!S_ISDIR(file.st_mode) && is_file_or_loop(&st, &file);
	return found;
}

/* Does the pool lie on @path, a block device or the file of a loop device? */
static bool is_below_pool(const char *pool, const char *path)
{
	RD_FREE char *data = rd_path_in(pool, "data");
	struct stat st;

	return !stat(path, &st) && data && (rd_lies_on_that(pool, &st) ||
					    rd_lies_on_that(data, &st));
}

/* --- to be written over */

static int refuse_owner(const char *path, const struct rd_owner *owner)
{
	char text[OWNER_TEXT];

	rd_err(0, "'%s' %s", path, rd_owner_print(text, sizeof(text), owner));
	return -EINVAL;
}

/* Refuse targets that are wrong even with force. */
static int check_never(const char *pool, const char *path, const struct rd_owner *owner)
{
	bool is_meta = owner->kind == RD_OWNER_META && owner->volume[0];

	if (is_below_pool(pool, path)) {
		rd_err(0, "the pool '%s' lies on '%s'", pool, path);
		rd_hint("nothing was changed; restore to another place");
		return -EINVAL;
	}
	if (owner->kind != RD_OWNER_BASE && !is_meta)
		return 0;
	refuse_owner(path, owner);
	if (is_meta)
		rd_remedy(RD_REMEDY_DETACH, owner->volume, "nothing was changed");
	else
		rd_remedy(RD_REMEDY_ROLL_BACK, NULL,
			  "nothing was changed; writes there are not tracked: write to /dev/mapper/%s",
			  owner->device);
	return -EINVAL;
}

static int check_owner(const char *path, const struct rd_owner *owner,
		       const struct rd_overwrite *overwrite)
{
	if (owner->kind == RD_OWNER_NONE)
		return 0;
	refuse_owner(path, owner);
	if (owner->kind == RD_OWNER_VOLUME && !strcmp(owner->volume, overwrite->volume))
		rd_remedy(RD_REMEDY_ROLL_BACK, overwrite->version, NULL);
	rd_remedy(RD_REMEDY_WRITE_ANYWAY, NULL, "nothing was changed");
	return -EINVAL;
}

/* Refuse the disk of another volume: equal disks are easily confused. */
static int check_others(const char *path, const struct rd_overwrite *overwrite)
{
	const char *name = (const char *)overwrite->volumes->data;
	const char *end = name + overwrite->volumes->len;

	for (; name < end; name += strlen(name) + 1) {
		if (!strcmp(name, overwrite->volume) || !rd_is_lv(path, name))
			continue;
		rd_err(0, "'%s' is the volume '%s', but %s is a version of another one", path, name,
		       overwrite->version);
		rd_remedy(RD_REMEDY_WRITE_ANYWAY, NULL, "nothing was changed");
		return -EINVAL;
	}
	return 0;
}

static int check_lock(const char *path)
{
	if (!rd_file_is_locked(path))
		return 0;
	rd_err(0, "a program holds a lock on '%s', as QEMU does on the disk of a running guest",
	       path);
	rd_remedy(RD_REMEDY_WRITE_ANYWAY, NULL, "nothing was changed; stop that program first");
	return -EBUSY;
}

/* Refuse the file of a loop device: its user would not see the change, and overwrite it. */
static int check_loop(const char *path)
{
	char loop[RD_LOOP_PATH];
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !rd_loop_find(&st, loop))
		return 0;
	rd_err(0, "'%s' is in use: the loop device '%s' is made of it", path, loop);
	rd_remedy(RD_REMEDY_WRITE_ANYWAY, NULL,
		  "nothing was changed; unmount the loop device and 'losetup --detach' it first");
	return -EBUSY;
}

/* FORMAT:PATH */
#define INSIDE	(PATH_MAX + 32)

/*
 * Refuse a file that has a disk in it: its blocks are not where those of the disk are, and to write
 * a raw disk over it leaves none that a guest can use. @ret_inside names the disk in it.
 */
static int check_format(const char *path, char ret_inside[INSIDE])
{
	const char *format = rd_container_format(path);

	if (!format)
		return 0;
	rd_err(0, "'%s' is not a disk: it is a file of format %s, with a disk in it", path,
	       format);
	snprintf(ret_inside, INSIDE, "%s:%s", format, path);
	return -EINVAL;
}

int rd_check_overwrite(const char *path, const struct rd_overwrite *overwrite)
{
	char inside[INSIDE];
	struct rd_owner owner;
	int r = rd_owner_find(path, &owner);

	if (!r)
		r = check_never(overwrite->pool, path, &owner);
	if (r || overwrite->force)
		return r;
	r = check_owner(path, &owner, overwrite);
	if (!r)
		r = check_lock(path);
	if (!r)
		r = check_loop(path);
	if (!r)
		r = check_others(path, overwrite);
	if (r)
		return r;
	r = check_format(path, inside);
	if (r)
		rd_remedy(overwrite->inside ? RD_REMEDY_WRITE_INSIDE : RD_REMEDY_OVERWRITE, inside,
			  "nothing was changed");
	return r;
}

/* --- to be read, as an image */

/* May other programs write to it while it is read? If so, @text says why. */
static bool is_in_use(const char *path, char *text, size_t size)
{
	char where[PATH_MAX];
	struct stat st;
	int fd;

	if (rd_file_is_locked(path)) {
		snprintf(text, size, "a program holds a lock on '%s', as QEMU does on the disk of a running guest",
			 path);
		return true;
	}
	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return false;
	if (rd_is_mounted(st.st_rdev, true, where)) {
		snprintf(text, size, "'%s' is mounted at '%s'", path, where);
		return true;
	}
	fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	/* A read-only mount also holds the device exclusively. */
	if (fd >= 0 || errno != EBUSY || rd_is_mounted(st.st_rdev, false, where))
		return false;
	snprintf(text, size, "'%s' is in use: it is part of another device, or a program has opened it exclusively",
		 path);
	return true;
}

int rd_check_image(const char *path, bool force, bool *ret_in_use)
{
	char text[PATH_MAX + 256], inside[INSIDE];
	struct rd_owner owner;
	int r;

	/* The broken file of another volume is no reason to refuse. */
	rd_owner_find(path, &owner);
	if (owner.kind == RD_OWNER_BASE) {
		refuse_owner(path, &owner);
		rd_remedy(RD_REMEDY_SNAPSHOT, owner.volume, "no version was made");
		return -EINVAL;
	}
	if (!force) {
		r = check_format(path, inside);
		if (r) {
			rd_remedy(RD_REMEDY_READ_INSIDE, inside, NULL);
			rd_remedy(RD_REMEDY_TAKE_FILE, NULL, "no version was made");
			return r;
		}
	}
	*ret_in_use = is_in_use(path, text, sizeof(text));
	if (!*ret_in_use)
		return 0;
	if (force) {
		rd_warn("%s: the version may mix content from before and after a write", text);
		return 0;
	}
	rd_err(0, "%s", text);
	rd_remedy(RD_REMEDY_ALLOW_CHANGES, NULL, "no version was made; stop or unmount it first");
	return -EBUSY;
}

static int check_empty(const char *path, enum rd_remedy remedy)
{
	struct rd_content content;
	int r = rd_probe(path, &content);

	if (r || !rd_content_text(&content)[0])
		return r;
	rd_err(0, "'%s' is not empty, it holds %s", path, rd_content_text(&content));
	rd_remedy(remedy, NULL, "nothing was changed");
	return -EINVAL;
}

/* --- to be the data area of a pool */

/* Force discards content, but takes no device that is in use. */
int rd_check_data(const char *path, bool force)
{
	struct rd_owner owner;
	int r = rd_owner_find(path, &owner);

	if (!r && owner.kind != RD_OWNER_NONE && owner.kind != RD_OWNER_POOL &&
	    (owner.kind != RD_OWNER_META || owner.volume[0])) {
		refuse_owner(path, &owner);
		rd_hint("nothing was changed; a pool belongs on a device of its own");
		return -EINVAL;
	}
	if (!r)
		r = rd_block_is_free(path);
	return r || force ? r : check_empty(path, RD_REMEDY_OVERWRITE);
}

/* Does @path, or the directory that it will be in, share a disk with the data area? */
static bool is_beside_data(const char *pool, const char *path)
{
	RD_FREE char *data = rd_path_in(pool, "data");
	RD_FREE char *copy = strdup(path);

	return data && copy &&
		rd_share_a_disk(data, access(path, F_OK) ? dirname(copy) : path);
}

bool rd_copies_are_beside(const char *pool)
{
	RD_FREE char *link = rd_path_in(pool, "copies");
	RD_FREE char *path = link ? realpath(link, NULL) : NULL;

	return path && is_beside_data(pool, path);
}

int rd_check_copies(const char *pool, const char *path, bool is_new, bool force)
{
	struct stat st;
	int r = 0;

	if (is_new && rd_is_of_pool(pool, path)) {
		rd_err(0, "'%s' is part of the pool", path);
		rd_hint("no copy was changed; copies belong on another disk");
		return -EINVAL;
	}
	if (is_new && !stat(path, &st) && S_ISBLK(st.st_mode))
		r = rd_check_data(path, false);
	if (r || force || !is_beside_data(pool, path))
		return r;
	rd_err(0, "'%s' is on a disk on which the data of the pool is: it would be lost with it",
	       path);
	rd_hint("no copy was changed; name a file or device on another disk");
	return -EINVAL;
}

/* --- to be attached */

/* Metadata are known by the first and the last whole block, so nothing else may be there. */
static int check_blank(const char *path)
{
	RD_CLOSE int fd = rd_open_direct(path, O_RDONLY, 0);
	u8 ends[2 * RD_BLOCK_SIZE] __attribute__((aligned(RD_BLOCK_SIZE)));
	bool is_device;
	u64 bytes;
	int r = fd < 0 ? fd : rd_size_of(fd, &bytes, &is_device);

	if (!r)
		r = rd_read_direct(fd, ends, RD_BLOCK_SIZE, 0);
	if (!r)
		r = rd_read_direct(fd, ends + RD_BLOCK_SIZE, RD_BLOCK_SIZE,
				   bytes - bytes % RD_BLOCK_SIZE - RD_BLOCK_SIZE);
	if (r)
		return rd_err(r, "cannot read '%s'", path);
	r = check_empty(path, RD_REMEDY_NAME_META);
	if (r || rd_is_zero(ends, sizeof(ends)))
		return r;
	rd_err(0, "'%s' is not empty", path);
	rd_remedy(RD_REMEDY_NAME_META, NULL, "nothing was changed");
	return -EINVAL;
}

int rd_check_attach(const char *base, const char *meta)
{
	struct rd_owner owner;
	struct stat st;
	int r = rd_owner_find(base, &owner);

	if (!r && owner.kind != RD_OWNER_NONE) {
		refuse_owner(base, &owner);
		rd_hint("nothing was changed; attach the disk of a machine, or a plain device");
		return -EINVAL;
	}
	if (r || !meta)
		return r;
	/* The metadata of a volume that was detached may be used again. */
	r = rd_owner_find(meta, &owner);
	if (!r && owner.kind != RD_OWNER_NONE &&
	    (owner.kind != RD_OWNER_META || owner.volume[0])) {
		refuse_owner(meta, &owner);
		rd_remedy(RD_REMEDY_NAME_ANOTHER_META, NULL, "nothing was changed");
		return -EINVAL;
	}
	if (!r && !stat(base, &st) && rd_lies_on(meta, st.st_rdev)) {
		rd_err(0, "the metadata device '%s' lies on '%s' itself", meta, base);
		rd_remedy(RD_REMEDY_NAME_ANOTHER_META, NULL, "nothing was changed");
		return -EINVAL;
	}
	if (!r)
		r = rd_block_is_free(meta);
	return r || owner.kind == RD_OWNER_META ? r : check_blank(meta);
}

/* --- to be rolled back */

int rd_check_not_mounted(const struct rd_attachment *at)
{
	char path[RD_DM_PATH_MAX], where[PATH_MAX];
	struct stat st;
	int r = 0;

	if (stat(rd_dm_path(path, at->device), &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	if (rd_is_mounted(st.st_rdev, false, where))
		r = rd_err(-EBUSY, "'%s' is mounted at '%s'", path, where);
	/*
	 * A mount in another namespace, a container's, is seen by its claim alone. A device that
	 * lies on it claims it, too: a group of a guest's that this host has activated.
	 */
	else if (!rd_block_has_holders(path))
		r = rd_block_is_free(path);
	if (r)
		rd_hint("nothing was changed; unmount it first: its cached data belong to the state that is replaced");
	return r;
}

int rd_check_pool_apart(const struct rd_pool *pool, const struct rd_attachment *at)
{
	RD_FREE char *data = rd_path_in(pool->path, "data");
	char path[RD_DM_PATH_MAX];
	struct stat st;

	if (!data)
		return -ENOMEM;
	if (stat(rd_dm_path(path, at->device), &st))
		return rd_err(-errno, "cannot look at '%s'", path);
	if (!rd_lies_on(pool->path, st.st_rdev) && !rd_lies_on(data, st.st_rdev))
		return 0;
	rd_err(0, "the pool lies on '%s' itself", at->volume);
	rd_hint("nothing was changed; a pool belongs on a disk that is not tracked");
	return -EINVAL;
}
