// SPDX-License-Identifier: GPL-2.0
/* Block devices as such. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "block.h"

/* Who looks at a new device, as udev does, is done by then. */
#define LOOKS		20
#define LOOK_MS		50
/* A device on a file on a device on a file. */
#define MAX_DEPTH	32

int rd_block_sectors(const char *path, u64 *ret_sectors)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t bytes;

	if (fd < 0)
		return rd_err(-errno, "cannot open '%s'", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		return rd_err(-errno, "'%s' is no block device", path);
	*ret_sectors = bytes / 512;
	return 0;
}

/* Of a file in sysfs; "" where there is none. */
static void read_line(const char *file, char *ret, size_t size)
{
	RD_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[len > 0 ? len : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

void rd_block_dm(dev_t device, const char *what, char ret[RD_DM_NAME_MAX])
{
	char file[64];

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/dm/%s", major(device), minor(device),
		 what);
	read_line(file, ret, RD_DM_NAME_MAX);
}

const char *rd_block_number(char text[32], const char *path)
{
	struct stat st = { 0 };

	stat(path, &st);
	snprintf(text, 32, "%u:%u", major(st.st_rdev), minor(st.st_rdev));
	return text;
}

/* NULL: there are none. */
static DIR *open_holders(const char *path, char dir[64])
{
	char number[32];

	snprintf(dir, 64, "/sys/dev/block/%s/holders", rd_block_number(number, path));
	return opendir(dir);
}

/* Devices of ours that lie on it. */
static int count_ours(const char *path)
{
	char dir[64], uuid[RD_DM_NAME_MAX], file[400];
	DIR *holders = open_holders(path, dir);
	struct dirent *entry;
	int nr = 0;

	while (holders && (entry = readdir(holders))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dm/uuid", dir, entry->d_name);
		read_line(file, uuid, sizeof(uuid));
		nr += !strncmp(uuid, RD_DM_UUID, strlen(RD_DM_UUID));
	}
	if (holders)
		closedir(holders);
	return nr;
}

/* Devices that lie on it, for people; "" where there are none. */
static void list_holders(const char *path, char *text, size_t size)
{
	char dir[64], name[280], file[400];
	struct dirent *entry;
	size_t at = 0;
	DIR *holders = open_holders(path, dir);

	text[0] = '\0';
	while (holders && (entry = readdir(holders))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dm/name", dir, entry->d_name);
		read_line(file, name, sizeof(name));
		at += snprintf(text + at, size - at, "%s%s", at ? ", " : "",
			       name[0] ? name : entry->d_name);
		if (at >= size)
			break;
	}
	if (holders)
		closedir(holders);
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
	return rd_err(-EBUSY, "'%s' is mounted, or a program has it for itself", path);
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

	/* To open a fifo is to wait for somebody. */
	if (stat(path, &st) || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* --- what lies on what */

/* @what: a block device, or a file. */
static bool device_lies_on(dev_t top, const struct stat *what, unsigned int depth);

/* What the file system of @path was mounted from, whose number is none of a device. */
static bool find_source(const char *path, struct stat *ret)
{
	char line[8192], source[4096];
	unsigned long long id;
	struct statx stx;
	bool found = false;
	FILE *mounts;

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) || !(stx.stx_mask & STATX_MNT_ID))
		return false;
	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		const char *dash = strstr(line, " - ");

		if (!dash || sscanf(line, "%llu", &id) != 1 || id != stx.stx_mnt_id)
			continue;
		found = sscanf(dash, " - %*s %4095s", source) == 1 && !stat(source, ret) &&
			S_ISBLK(ret->st_mode);
	}
	if (mounts)
		fclose(mounts);
	return found;
}

/* A btrfs lies on all of its devices: @source is one of them. */
static bool members_lie_on(dev_t source, const struct stat *what, unsigned int depth)
{
	char number[32], ours[32], of_ours[64];
	unsigned int ma, mi;
	bool found = false;
	glob_t members;
	size_t i;

	snprintf(ours, sizeof(ours), "%u:%u", major(source), minor(source));
	of_ours[0] = '\0';
	if (glob("/sys/fs/btrfs/*/devices/*/dev", 0, NULL, &members))
		return device_lies_on(source, what, depth);
	for (i = 0; i < members.gl_pathc && !of_ours[0]; i++) {
		read_line(members.gl_pathv[i], number, sizeof(number));
		/* The directory, as far as the UUID. */
		if (!strcmp(number, ours))
			snprintf(of_ours, sizeof(of_ours), "%.51s", members.gl_pathv[i]);
	}
	for (i = 0; i < members.gl_pathc && !found && of_ours[0]; i++) {
		if (strncmp(members.gl_pathv[i], of_ours, strlen(of_ours)))
			continue;
		read_line(members.gl_pathv[i], number, sizeof(number));
		if (sscanf(number, "%u:%u", &ma, &mi) == 2)
			found = device_lies_on(makedev(ma, mi), what, depth);
	}
	globfree(&members);
	return found || device_lies_on(source, what, depth);
}

static bool path_lies_on(const char *path, const struct stat *what, unsigned int depth)
{
	struct stat st, source;

	if (stat(path, &st))
		return false;
	if (S_ISREG(what->st_mode) && st.st_dev == what->st_dev && st.st_ino == what->st_ino)
		return true;
	if (S_ISBLK(st.st_mode))
		return device_lies_on(st.st_rdev, what, depth);
	if (!major(st.st_dev) && find_source(path, &source))
		return members_lie_on(source.st_rdev, what, depth);
	return device_lies_on(st.st_dev, what, depth);
}

static bool file_of_loop_lies_on(dev_t loop, const struct stat *what, unsigned int depth)
{
	char name[64], path[4096];

	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/loop/backing_file", major(loop),
		 minor(loop));
	read_line(name, path, sizeof(path));
	if (!path[0])
		return false;
	return path_lies_on(path, what, depth);
}

static bool slaves_lie_on(dev_t top, const struct stat *what, unsigned int depth)
{
	char dir[64], file[400], number[32];
	unsigned int ma, mi;
	struct dirent *entry;
	bool found = false;
	DIR *slaves;

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u/slaves", major(top), minor(top));
	slaves = opendir(dir);
	while (slaves && !found && (entry = readdir(slaves))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dev", dir, entry->d_name);
		read_line(file, number, sizeof(number));
		if (sscanf(number, "%u:%u", &ma, &mi) == 2)
			found = device_lies_on(makedev(ma, mi), what, depth);
	}
	if (slaves)
		closedir(slaves);
	return found;
}

/* A partition has no slaves: the disk is the directory above. */
static bool disk_lies_on(dev_t part, const struct stat *what, unsigned int depth)
{
	char file[64], number[32];
	unsigned int ma, mi;

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/partition", major(part), minor(part));
	if (access(file, F_OK))
		return false;
	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/../dev", major(part), minor(part));
	read_line(file, number, sizeof(number));
	return sscanf(number, "%u:%u", &ma, &mi) == 2 &&
		device_lies_on(makedev(ma, mi), what, depth);
}

static bool device_lies_on(dev_t top, const struct stat *what, unsigned int depth)
{
	if (S_ISBLK(what->st_mode) && top == what->st_rdev)
		return true;
	if (depth >= MAX_DEPTH)
		return false;
	return slaves_lie_on(top, what, depth + 1) || disk_lies_on(top, what, depth + 1) ||
		file_of_loop_lies_on(top, what, depth + 1);
}

bool rd_lies_on(const char *path, dev_t device)
{
	const struct stat what = { .st_mode = S_IFBLK, .st_rdev = device };

	return path_lies_on(path, &what, 0);
}

bool rd_lies_on_that(const char *path, const struct stat *what)
{
	return path_lies_on(path, what, 0);
}

bool rd_device_lies_on(dev_t top, dev_t device)
{
	const struct stat what = { .st_mode = S_IFBLK, .st_rdev = device };

	return device_lies_on(top, &what, 0);
}
