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

#define DATA_SUFFIX	"_rdcow"
#define META_SUFFIX	"_rdmcow"

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

static int on_file(struct rd_cow *cow, const char *dir, u64 bytes, bool reserve)
{
	RD_CLOSE int fd = rd_temporary_file(dir, bytes);
	char loop[RD_LOOP_PATH];

	if (fd < 0)
		return fd;
	/* Not all file systems can. */
	if (reserve && fallocate(fd, 0, 0, bytes) && errno == ENOSPC)
		return -ENOSPC;
	cow->fd = rd_loop_open(fd, false, loop);
	if (cow->fd < 0)
		return cow->fd;
	snprintf(cow->path, sizeof(cow->path), "%s", loop);
	return 0;
}

/* Where a store can be. */
struct places {
	u64 bytes;		/* of the store */
	bool is_lv;		/* there is a group beside the original */
	struct rd_lv lv;
	u64 vg_free, dir_free;
};

static bool group_has_room(struct places *places, const char *base, const char *suffix)
{
	places->is_lv = has_lvm() && !rd_lv_beside(base, suffix, &places->lv) &&
		!rd_vg_free(places->lv.vg, &places->vg_free);
	/* LVM rounds up to whole extents, by a few MiB at most. */
	return places->is_lv && places->vg_free >= places->bytes + (32 << 20);
}

static bool pool_has_room(struct places *places, const char *dir)
{
	struct statvfs fs;

	if (!statvfs(dir, &fs))
		places->dir_free = (u64)fs.f_bavail * fs.f_frsize;
	return places->dir_free >= places->bytes;
}

static u64 in_mib(u64 bytes)
{
	return rd_round_up(bytes, 1 << 20) >> 20;
}

int rd_cow_open(struct rd_cow *cow, const char *base, const char *dir, u64 bytes)
{
	struct places places = { .bytes = bytes };

	*cow = RD_COW_NONE;
	if (group_has_room(&places, base, DATA_SUFFIX))
		return on_lvm(cow, &places.lv, bytes);
	if (pool_has_room(&places, dir))
		return on_file(cow, dir, bytes, false);
	rd_err(0, "there is no room for data overwritten during the snapshot: %llu MiB are needed",
	       bytes >> 20);
	if (places.is_lv)
		rd_remedy(RD_REMEDY_LESS_COW, NULL,
			  "nothing was changed; volume group '%s' has %llu MiB free, and the pool has less",
			  places.lv.vg, places.vg_free >> 20);
	else
		rd_remedy(RD_REMEDY_LESS_COW, NULL,
			  "nothing was changed; the pool's file system has less");
	return -ENOSPC;
}

int rd_cow_open_meta(struct rd_cow *cow, const char *base, const char *dir, u64 bytes)
{
	struct places places = { .bytes = bytes };
	int r = -ENOSPC;

	*cow = RD_COW_NONE;
	if (pool_has_room(&places, dir))
		r = on_file(cow, dir, bytes, true);
	if (r == -ENOSPC && group_has_room(&places, base, META_SUFFIX))
		return on_lvm(cow, &places.lv, bytes);
	if (r != -ENOSPC)
		return r;
	rd_err(0, "there is no room to keep for the snapshot where blocks are that are not home: %llu MiB are needed, '%s' has %llu",
	       in_mib(bytes), dir, places.dir_free >> 20);
	if (places.is_lv)
		rd_hint("nothing was changed; make room there, or in the volume group '%s', which has %llu MiB and needs 32 more",
			places.lv.vg, places.vg_free >> 20);
	else
		rd_hint("nothing was changed; make room there, or wait until more blocks are copied back");
	return -ENOSPC;
}

void rd_cow_keep(struct rd_cow *cow)
{
	if (cow->fd >= 0)
		close(cow->fd);
	cow->fd = -1;
}

/* Most have none: asking LVM takes long. */
static int remove_meta(const char *base)
{
	char path[RD_LV_PATH_MAX];
	struct rd_lv lv;

	if (rd_lv_beside(base, META_SUFFIX, &lv) || access(rd_lv_path(path, &lv), F_OK))
		return 0;
	return rd_lv_remove(&lv);
}

int rd_cow_remove(const char *base)
{
	struct rd_lv lv;
	int r, meta;

	if (!has_lvm() || rd_lv_beside(base, DATA_SUFFIX, &lv))
		return 0;
	r = rd_lv_remove(&lv);
	meta = remove_meta(base);
	return r ? r : meta;
}
