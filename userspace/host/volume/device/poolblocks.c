// SPDX-License-Identifier: GPL-2.0
/* Give the target the data area of a pool as a block device. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/inject.h"
#include "base/log.h"
#include "host/sys/loop.h"
#include "pool/pool.h"
#include "krbd.h"
#include "poolblocks.h"

int rd_poolblocks_uuid(const char *pool, u8 uuid[16])
{
	RD_FREE char *data = rd_path_in(pool, "data");
	struct rd_area area;
	int r;

	if (!data)
		return -ENOMEM;
	r = rd_area_open(&area, data, false);
	if (r)
		return r;
	memcpy(uuid, area.super.uuid, sizeof(area.super.uuid));
	rd_area_close(&area);
	return 0;
}

int rd_poolblocks_compare(const struct rd_area *area, const char *number)
{
	struct rd_shard_image_id id;
	unsigned int major, minor;
	struct stat st;
	int r;

	if (rd_area_can(area, RD_STORE_FENCED)) {
		r = rd_shard_image_id(area->store, &id);
		return r ? r : rd_krbd_is_of(number, &id) ? 0 : -EXDEV;
	}
	if (fstat(area->store->fd, &st))
		return -errno;
	if (sscanf(number, "%u:%u", &major, &minor) != 2)
		return -EINVAL;
	if (S_ISBLK(st.st_mode) && st.st_rdev == makedev(major, minor))
		return 0;
	r = rd_loop_is_over(number, &st);
	return r < 0 ? r : r ? 0 : -EXDEV;
}

/*
 * Can the device @fd be the pool of any volume? The target refuses a pool with larger blocks
 * than the base, and a version must serve a file system from a disk with blocks of 512 bytes.
 */
static bool has_small_blocks(int fd)
{
	int size;

	return !ioctl(fd, BLKSSZGET, &size) && size <= 512;
}

int rd_poolblocks_require(const char *pool)
{
	if (!rd_pool_is_shard(pool) || rd_krbd_exists())
		return 0;
	rd_err(0, "the pool '%s' is in RADOS, and the kernel has no rbd, which would read it",
	       pool);
	rd_remedy(RD_REMEDY_RESTORE, NULL, "nothing was changed");
	return -EOPNOTSUPP;
}

static int open_shard(struct rd_poolblocks *blocks, const char *data)
{
	char name[PATH_MAX], path[RD_KRBD_PATH];
	struct rd_shard_image image;
	struct rd_store *store;
	int r;

	if (!rd_rados_name(data, name))
		return rd_err(-ENODEV, "'%s' leads to no shard", data);
	r = rd_rados_open(&store, name, 0);
	if (r)
		return r;
	r = rd_shard_image(store, &image);
	rd_store_close(store);
	if (r)
		return r;
	blocks->fd = rd_krbd_open(&image, path);
	rd_shard_image_free(&image);
	if (blocks->fd < 0)
		return blocks->fd;
	blocks->is_rbd = true;
	snprintf(blocks->path, sizeof(blocks->path), "%s", path);
	return rd_failpoint("poolblocks-rbd");
}

int rd_poolblocks_open(struct rd_poolblocks *blocks, const char *pool, bool read_only)
{
	RD_FREE char *data = rd_path_in(pool, "data");
	char loop[RD_LOOP_PATH];
	struct stat st;
	int r = data ? rd_poolblocks_require(pool) : -ENOMEM;

	*blocks = RD_POOLBLOCKS_NONE;
	if (r)
		return r;
	if (rd_pool_is_shard(pool))
		return open_shard(blocks, data);
	RD_CLOSE int fd = open(data, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) || !realpath(data, blocks->path))
		return rd_err(-errno, "cannot open '%s'", data);
	if (S_ISBLK(st.st_mode) && has_small_blocks(fd))
		return 0;
	blocks->fd = rd_loop_open(fd, read_only, loop);
	if (blocks->fd < 0)
		return blocks->fd;
	snprintf(blocks->path, sizeof(blocks->path), "%s", loop);
	return 0;
}

void rd_poolblocks_close(struct rd_poolblocks *blocks)
{
	if (blocks->fd >= 0)
		close(blocks->fd);
	blocks->fd = -1;
	/* If no table has it. */
	if (blocks->is_rbd)
		rd_krbd_tidy();
}
