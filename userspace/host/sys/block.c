// SPDX-License-Identifier: GPL-2.0
/* Ask about block devices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "block.h"
#include "sysfs.h"

/* After that time udev, which opens a new device for a moment, has closed it. */
#define LOOKS		20
#define LOOK_MS		50

int rd_block_sectors(const char *path, u64 *ret_sectors)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t bytes;

	if (fd < 0)
		return rd_err(-errno, "cannot open '%s'", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		return rd_err(-errno, "'%s' is not a block device", path);
	*ret_sectors = bytes / 512;
	return 0;
}

void rd_block_dm(dev_t device, const char *what, char ret[RD_DM_NAME_MAX])
{
	char file[64];

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/dm/%s", major(device), minor(device),
		 what);
	rd_sysfs_line(file, ret, RD_DM_NAME_MAX);
}

int rd_block_node(char *path, size_t size, const char *number)
{
	char file[64], target[PATH_MAX];
	const char *name;
	ssize_t len;

	/* It leads to the directory of the device, which has the name of its node. */
	snprintf(file, sizeof(file), "/sys/dev/block/%s", number);
	len = readlink(file, target, sizeof(target) - 1);
	if (len < 0)
		return -errno;
	target[len] = '\0';
	name = strrchr(target, '/');
	snprintf(path, size, "/dev/%.200s", name ? name + 1 : target);
	return 0;
}

int rd_block_path(char path[PATH_MAX], const char *number)
{
	int r = rd_block_node(path, PATH_MAX, number);

	return r ? rd_err(r, "there is no block device %s", number) : 0;
}

const char *rd_block_number(char text[32], const char *path)
{
	struct stat st = { 0 };

	stat(path, &st);
	snprintf(text, 32, "%u:%u", major(st.st_rdev), minor(st.st_rdev));
	return text;
}

/* Open the directory of the device's holders. NULL: it has none. */
static DIR *open_holders(const char *path, char dir[64])
{
	char number[32];

	snprintf(dir, 64, "/sys/dev/block/%s/holders", rd_block_number(number, path));
	return opendir(dir);
}

/* Count the devices of revdedup that lie on it. */
static int count_ours(const char *path)
{
	RD_DIR DIR *holders = NULL;
	char dir[64], uuid[RD_DM_NAME_MAX], file[400];
	struct dirent *entry;
	int nr = 0;

	holders = open_holders(path, dir);
	while (holders && (entry = readdir(holders))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dm/uuid", dir, entry->d_name);
		rd_sysfs_line(file, uuid, sizeof(uuid));
		nr += !strncmp(uuid, RD_DM_UUID, strlen(RD_DM_UUID));
	}
	return nr;
}

/* Print the names of the devices that lie on it; "" if there are none. */
static void list_holders(const char *path, char *text, size_t size)
{
	RD_DIR DIR *holders = NULL;
	char dir[64], name[280], file[400];
	struct dirent *entry;
	size_t at = 0;

	holders = open_holders(path, dir);
	text[0] = '\0';
	while (holders && (entry = readdir(holders))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dm/name", dir, entry->d_name);
		rd_sysfs_line(file, name, sizeof(name));
		at += snprintf(text + at, size - at, "%s%s", at ? ", " : "",
			       name[0] ? name : entry->d_name);
		if (at >= size)
			break;
	}
}

bool rd_block_has_holders(const char *path)
{
	char names[64];

	list_holders(path, names, sizeof(names));
	return names[0];
}

int rd_block_is_free(const char *path)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	char holders[256];

	if (fd >= 0)
		return 0;
	if (errno != EBUSY)
		return rd_err(-errno, "cannot open '%s'", path);
	list_holders(path, holders, sizeof(holders));
	if (holders[0])
		return rd_err(-EBUSY, "'%s' is used by the device %s", path, holders);
	return rd_err(-EBUSY, "'%s' is mounted, or a program has opened it exclusively", path);
}

bool rd_block_is_open(const char *path)
{
	struct timespec nap = { .tv_nsec = LOOK_MS * 1000000L };
	char name[RD_DM_NAME_MAX];
	struct rd_dm_info info;
	struct stat st;
	unsigned int i;

	if (stat(path, &st))
		return false;
	rd_block_dm(st.st_rdev, "name", name);
	if (!name[0])
		return rd_file_is_locked(path);
	for (i = 0; i < LOOKS; i++) {
		if (i)
			nanosleep(&nap, NULL);
		if (rd_dm_info(name, &info) || info.open_count <= count_ours(path))
			return false;
	}
	return true;
}

bool rd_file_is_locked(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	RD_CLOSE int fd = -1;
	struct stat st;

	/* Opening a fifo would wait for its other end. */
	if (stat(path, &st) || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}
