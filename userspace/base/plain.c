// SPDX-License-Identifier: GPL-2.0
/* Files in a directory that a stranger may have filled; see plain.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "log.h"
#include "plain.h"

static bool is_owner_bad(const struct stat *st)
{
	return !geteuid() && st->st_uid;
}

static int refuse_owner(const char *path)
{
	rd_err(0, "'%s' belongs to another user, who could exchange it while root uses it", path);
	rd_hint("nothing was changed; run this command as that user, or give all of the pool to root");
	return -EPERM;
}

/* The group of root is root's. */
static int check_directory(const struct stat *st, const char *path)
{
	if (is_owner_bad(st))
		return refuse_owner(path);
	if (geteuid() || !(st->st_mode & (st->st_gid ? 0022 : 0002)))
		return 0;
	rd_err(0, "'%s' is a directory that others may write to: they could exchange files while root uses them",
	       path);
	rd_hint("nothing was changed; see who put what there, then 'chmod go-w' it");
	return -EPERM;
}

int rd_check_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) || !S_ISDIR(st.st_mode) ? 0 : check_directory(&st, path);
}

static int check_file(const struct stat *st, const char *path, bool write)
{
	if (!S_ISREG(st->st_mode)) {
		rd_err(0, "'%s' is %s, and not a file", path,
		       S_ISLNK(st->st_mode) ? "a link" : S_ISDIR(st->st_mode) ? "a directory" :
		       S_ISFIFO(st->st_mode) ? "a fifo" : "something else");
		rd_hint("no command makes that: see who put it there, and remove it");
		return -EPERM;
	}
	if (is_owner_bad(st))
		return refuse_owner(path);
	if (!write || st->st_nlink <= 1)
		return 0;
	rd_err(0, "'%s' has another name, under which its content would change as well", path);
	rd_hint("nothing was changed; copy it, and move the copy there");
	return -EPERM;
}

int rd_check_plain(const char *path, bool write, bool links)
{
	struct stat st;

	if (lstat(path, &st))
		return -errno;
	if (links && S_ISLNK(st.st_mode)) {
		if (is_owner_bad(&st))
			return refuse_owner(path);
		if (stat(path, &st))
			return -errno;
	}
	return links && S_ISBLK(st.st_mode) ? 0 : check_file(&st, path, write);
}

/* Open the directory that @path is in, if this user may use it: *@ret_name is its name there. */
static int open_parent(const char *path, const char **ret_name)
{
	RD_FREE char *parent = NULL;
	const char *slash = strrchr(path, '/');
	struct stat st;
	int dir, r;

	parent = !slash ? strdup(".") : strndup(path, slash == path ? 1 : slash - path);
	*ret_name = slash ? slash + 1 : path;
	if (!parent)
		return -ENOMEM;
	dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = fstat(dir, &st) ? -errno : check_directory(&st, parent);
	if (r)
		close(dir);
	return r ? r : dir;
}

/* What is not a file may be so as long as it is not used; O_NONBLOCK is for opening alone. */
static int open_in(int dir, const char *name, const char *path, int flags, mode_t mode)
{
	bool write = (flags & O_ACCMODE) != O_RDONLY;
	struct stat st;
	int fd, r;

	if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
		r = flags & O_EXCL ? 0 : check_file(&st, path, write);
		if (r)
			return r;
	}
	fd = openat(dir, name, (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		    mode);
	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) ? -errno : check_file(&st, path, write);
	if (!r && fcntl(fd, F_SETFL, flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC)))
		r = -errno;
	if (!r && flags & O_TRUNC && st.st_size && ftruncate(fd, 0))
		r = -errno;
	if (r)
		close(fd);
	return r ? r : fd;
}

int rd_open_plain(const char *path, int flags, mode_t mode)
{
	RD_CLOSE int dir = -1;
	const char *name;

	dir = open_parent(path, &name);
	return dir < 0 ? dir : open_in(dir, name, path, flags, mode);
}
