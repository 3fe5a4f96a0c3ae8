// SPDX-License-Identifier: GPL-2.0
/* Files and block devices: see store.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/direct.h"
#include "store.h"

#ifdef RD_TEST
bool rd_store_as_device;
#else
#define rd_store_as_device	false
#endif

static int read_range(struct rd_store *store, void *buf, size_t len, u64 offset)
{
	return rd_read_direct(store->fd, buf, len, offset);
}

static int write_range(struct rd_store *store, const void *buf, size_t len, u64 offset,
		       unsigned int how)
{
	(void)how;
	return rd_write_direct(store->fd, buf, len, offset);
}

static int sync_all(struct rd_store *store)
{
	return fdatasync(store->fd) ? -errno : 0;
}

static int punch_file(struct rd_store *store, const struct rd_range *ranges, unsigned int nr)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	for (; nr--; ranges++)
		if (fallocate(store->fd, mode, ranges->offset, ranges->len))
			return -errno;
	return 0;
}

/* A favour to thin volumes and SSDs, on which nothing relies: it may fail. */
static int discard(struct rd_store *store, const struct rd_range *ranges, unsigned int nr)
{
	if (rd_store_as_device)
		return punch_file(store, ranges, nr);
	for (; nr--; ranges++)
		(void)!ioctl(store->fd, BLKDISCARD, ranges);
	return 0;
}

static off_t seek(struct rd_store *store, off_t offset, int whence)
{
	return lseek(store->fd, offset, whence);
}

static int resize(struct rd_store *store, u64 bytes)
{
	/* Not fdatasync(): it need not flush a length that no data were written to yet. */
	if (ftruncate(store->fd, bytes) || fsync(store->fd))
		return -errno;
	store->bytes = bytes;
	return 0;
}

/* A sparse file cannot have more than its file system has left. */
static u64 room_of_file(const struct rd_store *store)
{
	struct statvfs vfs;

	return fstatvfs(store->fd, &vfs) ? U64_MAX : (u64)vfs.f_bavail * vfs.f_frsize;
}

static u64 room_of_device(const struct rd_store *store)
{
	(void)store;
	return U64_MAX;
}

static void close_fd(struct rd_store *store)
{
	close(store->fd);
	free(store);
}

static const struct rd_store_ops file_ops = {
	.read = read_range,
	.write = write_range,
	.sync = sync_all,
	.punch = punch_file,
	.seek = seek,
	.resize = resize,
	.room = room_of_file,
	.close = close_fd,
};

static const struct rd_store_ops device_ops = {
	.read = read_range,
	.write = write_range,
	.sync = sync_all,
	.punch = discard,
	.seek = seek,
	.room = room_of_device,
	.close = close_fd,
};

int rd_store_use(struct rd_store **ret, int fd)
{
	struct rd_store *store = calloc(1, sizeof(*store));
	bool is_device;
	int r;

	if (!store)
		return -ENOMEM;
	r = rd_size_of(fd, &store->bytes, &is_device);
	if (r) {
		free(store);
		return r;
	}
	store->fd = fd;
	is_device |= rd_store_as_device;
	store->ops = is_device ? &device_ops : &file_ops;
	store->caps = is_device ? RD_STORE_KERNEL_READS :
		RD_STORE_PUNCH | RD_STORE_ZEROS | RD_STORE_HOLES | RD_STORE_GROWS;
	*ret = store;
	return 0;
}

int rd_store_open(struct rd_store **ret, const char *path, int flags)
{
	int fd = rd_open_direct(path, flags, 0600), r;

	if (fd < 0)
		return fd;
	r = rd_store_use(ret, fd);
	if (r)
		close(fd);
	return r;
}

void rd_store_close(struct rd_store *store)
{
	if (store)
		store->ops->close(store);
}
