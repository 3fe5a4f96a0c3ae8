// SPDX-License-Identifier: GPL-2.0
/* Loop devices, which make block devices of files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "block.h"
#include "loop.h"
#include "run.h"

/* Another program may take the free device first. */
#define MAX_TRIES	64

int rd_temporary_file(const char *dir, u64 bytes)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return rd_err(-errno, "cannot make a file in '%s'", dir);
	if (!ftruncate(fd, bytes))
		return fd;
	close(fd);
	return rd_err(-errno, "cannot make a file of %llu MiB in '%s'", bytes >> 20, dir);
}

static int configure(int loop, int fd, bool read_only)
{
	struct loop_config config = {
		.fd = fd,
		/* Devices above expect blocks that are no larger, whatever the disk has. */
		.block_size = 512,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0),
	};
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	/*
	 * Bypass the page cache if the file system can do that with such blocks, which the
	 * kernel checks. For a block device some kernels do not check it.
	 */
	if (!S_ISBLK(st.st_mode))
		config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
	return ioctl(loop, LOOP_CONFIGURE, &config) ? -errno : 0;
}

static int try_one(int control, int fd, bool read_only, char path[RD_LOOP_PATH])
{
	int nr = ioctl(control, LOOP_CTL_GET_FREE), loop, r;

	if (nr < 0)
		return -errno;
	snprintf(path, RD_LOOP_PATH, "/dev/loop%d", nr);
	loop = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (loop < 0)
		return -errno;
	r = configure(loop, fd, read_only);
	if (!r)
		return loop;
	close(loop);
	return r;
}

static int open_control(void)
{
	char *const argv[] = { "modprobe", "-q", "loop", NULL };
	int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (fd >= 0 || errno != ENOENT || rd_run(argv, NULL) < 0)
		return fd;
	return open("/dev/loop-control", O_RDWR | O_CLOEXEC);
}

int rd_loop_open(int fd, bool read_only, char path[RD_LOOP_PATH])
{
	RD_CLOSE int control = open_control();
	unsigned int i;
	int r = -EBUSY;

	if (control < 0) {
		r = rd_err(-errno, "cannot open '/dev/loop-control'");
		rd_hint("'modprobe loop' loads the driver of loop devices");
		return r;
	}
	for (i = 0; i < MAX_TRIES && r == -EBUSY; i++)
		r = try_one(control, fd, read_only, path);
	return r < 0 ? rd_err(r, "cannot make a loop device") : r;
}

int rd_loop_is_over(const char *number, const struct stat *file)
{
	/* Set, because memcheck does not know what this ioctl writes. */
	struct loop_info64 info = { 0 };
	char path[RD_LOOP_PATH];
	int r = rd_block_node(path, sizeof(path), number);

	if (r)
		return r;
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* ENOTTY comes from a device that is no loop device. */
	if (ioctl(fd, LOOP_GET_STATUS64, &info))
		return errno == ENOTTY || errno == ENXIO ? 0 : -errno;
	/* A device may have more than one node. */
	if (S_ISBLK(file->st_mode))
		return info.lo_rdevice == file->st_rdev;
	return info.lo_device == file->st_dev && info.lo_inode == file->st_ino;
}

int rd_loop_grow(const char *number)
{
	char path[RD_LOOP_PATH];
	int r = rd_block_node(path, sizeof(path), number);

	if (r || strncmp(number, "7:", 2))
		return r;
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 || ioctl(fd, LOOP_SET_CAPACITY) ? -errno : 0;
}

bool rd_loop_find(const struct stat *file, char path[RD_LOOP_PATH])
{
	RD_DIR DIR *blocks = opendir("/sys/dev/block");
	struct dirent *entry;
	char name[300];
	bool found = false;

	while (blocks && !found && (entry = readdir(blocks))) {
		snprintf(name, sizeof(name), "/sys/dev/block/%s/loop", entry->d_name);
		found = !access(name, F_OK) && rd_loop_is_over(entry->d_name, file) > 0 &&
			!rd_block_node(path, RD_LOOP_PATH, entry->d_name);
	}
	return found;
}
