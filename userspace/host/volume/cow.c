// SPDX-License-Identifier: GPL-2.0
/* Room for the old content of blocks that are overwritten during a copy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "host/sys/loop.h"
#include "cow.h"

static bool has_lvm(void)
{
	return !access("/sbin/lvs", X_OK) || !access("/usr/sbin/lvs", X_OK);
}

static int on_lvm(struct rd_cow *cow, const struct rd_lv *lv, u64 bytes)
{
	int r;

	r = rd_lv_create(lv, bytes);
	/* The remains of a killed command may have another size. */
	if (r == -EEXIST) {
		r = rd_lv_remove(lv);
		r = r ? r : rd_lv_create(lv, bytes);
	}
	if (!r)
		rd_lv_path(cow->path, lv);
	return r;
}

static int on_file(struct rd_cow *cow, const char *dir, u64 bytes)
{
	RD_CLOSE int fd = rd_temporary_file(dir, bytes);
	char loop[RD_LOOP_PATH];

	if (fd < 0)
		return fd;
	cow->fd = rd_loop_open(fd, false, loop);
	if (cow->fd < 0)
		return cow->fd;
	snprintf(cow->path, sizeof(cow->path), "%s", loop);
	return 0;
}

int rd_cow_open(struct rd_cow *cow, const char *base, const char *dir, u64 bytes)
{
	struct statvfs fs;
	struct rd_lv lv;
	u64 vg_free = 0;
	bool is_lv;

	*cow = RD_COW_NONE;
	is_lv = base && has_lvm() && !rd_lv_beside(base, "_rdcow", &lv) &&
		!rd_vg_free(lv.vg, &vg_free);
	/* LVM rounds up to whole extents, by a few MiB at most. */
	if (is_lv && vg_free >= bytes + (32 << 20))
		return on_lvm(cow, &lv, bytes);
	if (!statvfs(dir, &fs) && (u64)fs.f_bavail * fs.f_frsize >= bytes)
		return on_file(cow, dir, bytes);
	rd_err(0, "there is no room for data overwritten during the snapshot: %llu MiB are needed",
	       bytes >> 20);
	if (is_lv)
		rd_remedy(RD_REMEDY_LESS_COW, NULL,
			  "nothing was changed; volume group '%s' has %llu MiB free, and the pool has less",
			  lv.vg, vg_free >> 20);
	else
		rd_remedy(RD_REMEDY_LESS_COW, NULL,
			  "nothing was changed; the pool's file system has less");
	return -ENOSPC;
}

void rd_cow_keep(struct rd_cow *cow)
{
	if (cow->fd >= 0)
		close(cow->fd);
	cow->fd = -1;
}

int rd_cow_remove(const char *base)
{
	struct rd_lv lv;

	if (!has_lvm() || rd_lv_beside(base, "_rdcow", &lv))
		return 0;
	return rd_lv_remove(&lv);
}
