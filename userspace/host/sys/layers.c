// SPDX-License-Identifier: GPL-2.0
/* Find out which block device or file lies on which. */
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "layers.h"
#include "mounts.h"
#include "sysfs.h"

/* A device on a file on a device on a file, and so on. */
#define MAX_DEPTH	32

/* Read "253:4". */
static bool parse_number(const char *text, dev_t *ret)
{
	unsigned int ma, mi;

	if (sscanf(text, "%u:%u", &ma, &mi) != 2)
		return false;
	*ret = makedev(ma, mi);
	return true;
}

/* The same from a file of sysfs. */
static bool read_number(const char *file, dev_t *ret)
{
	char number[32];

	rd_sysfs_line(file, number, sizeof(number));
	return parse_number(number, ret);
}

/* Does @top lie on @what, a block device or a file? */
static bool device_lies_on(dev_t top, const struct stat *what, unsigned int depth);

/* Does a btrfs lie on @what? It lies on all of its devices, and @source is one of them. */
static bool members_lie_on(dev_t source, const struct stat *what, unsigned int depth)
{
	char number[32], ours[32], of_ours[64];
	dev_t member;
	bool found = false;
	glob_t members;
	size_t i;

	snprintf(ours, sizeof(ours), "%u:%u", major(source), minor(source));
	of_ours[0] = '\0';
	if (glob("/sys/fs/btrfs/*/devices/*/dev", 0, NULL, &members))
		return device_lies_on(source, what, depth);
	for (i = 0; i < members.gl_pathc && !of_ours[0]; i++) {
		rd_sysfs_line(members.gl_pathv[i], number, sizeof(number));
		/* Keep the directory, up to the UUID. */
		if (!strcmp(number, ours))
			snprintf(of_ours, sizeof(of_ours), "%.51s", members.gl_pathv[i]);
	}
	for (i = 0; i < members.gl_pathc && !found && of_ours[0]; i++) {
		if (strncmp(members.gl_pathv[i], of_ours, strlen(of_ours)))
			continue;
		found = read_number(members.gl_pathv[i], &member) &&
			device_lies_on(member, what, depth);
	}
	globfree(&members);
	return found || device_lies_on(source, what, depth);
}

static bool path_lies_on(const char *path, const struct stat *what, unsigned int depth)
{
	struct stat st;
	dev_t source;

	if (stat(path, &st))
		return false;
	if (S_ISREG(what->st_mode) && st.st_dev == what->st_dev && st.st_ino == what->st_ino)
		return true;
	if (S_ISBLK(st.st_mode))
		return device_lies_on(st.st_rdev, what, depth);
	/* The device number of a file on btrfs and the like is no block device. */
	if (!major(st.st_dev) && !rd_mount_source(path, &source))
		return members_lie_on(source, what, depth);
	return device_lies_on(st.st_dev, what, depth);
}

static bool file_of_loop_lies_on(dev_t loop, const struct stat *what, unsigned int depth)
{
	char name[64], path[4096];

	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/loop/backing_file", major(loop),
		 minor(loop));
	rd_sysfs_line(name, path, sizeof(path));
	if (!path[0])
		return false;
	return path_lies_on(path, what, depth);
}

static bool slaves_lie_on(dev_t top, const struct stat *what, unsigned int depth)
{
	char dir[64], file[400];
	dev_t slave;
	struct dirent *entry;
	bool found = false;

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u/slaves", major(top), minor(top));
	RD_DIR DIR *slaves = opendir(dir);

	while (slaves && !found && (entry = readdir(slaves))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dev", dir, entry->d_name);
		found = read_number(file, &slave) && device_lies_on(slave, what, depth);
	}
	return found;
}

/* Does the disk of a partition lie on @what? A partition has no slaves in sysfs. */
static bool disk_lies_on(dev_t part, const struct stat *what, unsigned int depth)
{
	char file[64];
	dev_t disk;

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/partition", major(part), minor(part));
	if (access(file, F_OK))
		return false;
	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/../dev", major(part), minor(part));
	return read_number(file, &disk) && device_lies_on(disk, what, depth);
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

bool rd_share_a_disk(const char *a, const char *b)
{
	struct dirent *entry;
	struct stat sa, sb;
	dev_t device;
	bool found;

	/* Some file systems have no device. */
	found = !stat(a, &sa) && !stat(b, &sb) && !S_ISBLK(sa.st_mode) && !S_ISBLK(sb.st_mode) &&
		sa.st_dev == sb.st_dev;
	RD_DIR DIR *all = opendir("/sys/dev/block");

	while (all && !found && (entry = readdir(all)))
		found = parse_number(entry->d_name, &device) && rd_lies_on(a, device) &&
			rd_lies_on(b, device);
	return found;
}

/* --- mounts */

bool rd_is_mounted(dev_t device, bool writable, char *where)
{
	struct rd_mounts mounts;
	struct rd_mount mount;
	bool found = false;

	if (rd_mounts_open(&mounts))
		return false;
	while (!found && rd_mounts_next(&mounts, &mount))
		found = !(writable && mount.is_read_only) &&
			rd_device_lies_on(mount.device, device);
	if (found)
		memcpy(where, mount.where, sizeof(mount.where));
	rd_mounts_close(&mounts);
	return found;
}

bool rd_path_is_mounted(const char *path, char *where)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode) &&
		rd_is_mounted(st.st_rdev, false, where);
}
