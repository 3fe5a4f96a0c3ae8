// SPDX-License-Identifier: GPL-2.0
/* List the mounts of this host: see proc_pid_mountinfo(5). */
#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "mounts.h"

int rd_mounts_open(struct rd_mounts *mounts)
{
	errno = 0;
	mounts->table = mnt_new_table_from_file("/proc/self/mountinfo");
	mounts->at = mnt_new_iter(MNT_ITER_FORWARD);
	if (mounts->table && mounts->at)
		return 0;
	rd_mounts_close(mounts);
	return errno ? -errno : -ENOMEM;
}

void rd_mounts_close(struct rd_mounts *mounts)
{
	mnt_free_iter(mounts->at);
	mnt_unref_table(mounts->table);
}

/* Find the block device that it was mounted from, if the source is one. */
static bool find_source(struct libmnt_fs *fs, dev_t *ret)
{
	const char *source = mnt_fs_get_srcpath(fs);
	struct stat st;

	if (!source || source[0] != '/' || stat(source, &st) || !S_ISBLK(st.st_mode))
		return false;
	*ret = st.st_rdev;
	return true;
}

static void take(struct libmnt_fs *fs, struct rd_mount *ret)
{
	const char *options = mnt_fs_get_fs_options(fs);

	snprintf(ret->where, sizeof(ret->where), "%s", mnt_fs_get_target(fs));
	ret->number = mnt_fs_get_devno(fs);
	ret->device = ret->number;
	ret->is_read_only = options && !strncmp(options, "ro", strcspn(options, ","));
	/* A btrfs has a number of its own: use the device that it was mounted from. */
	if (!major(ret->number))
		find_source(fs, &ret->device);
}

bool rd_mounts_next(struct rd_mounts *mounts, struct rd_mount *ret)
{
	struct libmnt_fs *fs;

	if (mnt_table_next_fs(mounts->table, mounts->at, &fs))
		return false;
	take(fs, ret);
	return true;
}

int rd_mounted_at(const char *dir, dev_t *ret)
{
	RD_FREE char *path = realpath(dir, NULL);
	struct rd_mounts mounts;
	struct rd_mount mount;
	int r = -ENODEV;

	if (!path || rd_mounts_open(&mounts))
		return -ENODEV;
	/* Of several mounts at one place, the last one covers the others. */
	while (rd_mounts_next(&mounts, &mount))
		if (!strcmp(mount.where, path)) {
			*ret = mount.device;
			r = 0;
		}
	rd_mounts_close(&mounts);
	return r;
}

int rd_mount_source(const char *path, dev_t *ret)
{
	struct rd_mounts mounts;
	struct libmnt_fs *fs;
	struct statx stx;
	int r = -ENODEV;

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) || !(stx.stx_mask & STATX_MNT_ID) ||
	    rd_mounts_open(&mounts))
		return -ENODEV;
	while (r && !mnt_table_next_fs(mounts.table, mounts.at, &fs))
		if ((u64)mnt_fs_get_id(fs) == stx.stx_mnt_id && find_source(fs, ret))
			r = 0;
	rd_mounts_close(&mounts);
	return r;
}
