// SPDX-License-Identifier: GPL-2.0
/* What is mounted on this host: see proc_pid_mountinfo(5). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "block.h"
#include "mounts.h"

/* \040 is a blank, and so on. */
static void unescape(char *text)
{
	char *to = text;
	unsigned int c;

	for (; *text; text++) {
		if (*text == '\\' && sscanf(text, "\\%3o", &c) == 1) {
			*to++ = c;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static bool parse(const char *line, struct rd_mount *ret)
{
	const char *dash = strstr(line, " - ");
	char source[PATH_MAX], options[8] = "";
	unsigned int ma, mi;
	struct stat st;

	if (!dash || sscanf(line, "%*u %*u %u:%u %*s %4095s", &ma, &mi, ret->where) != 3)
		return false;
	unescape(ret->where);
	ret->number = makedev(ma, mi);
	ret->device = ret->number;
	sscanf(dash, " - %*s %*s %7[^,\n]", options);
	ret->is_read_only = !strcmp(options, "ro");
	/* btrfs has a number of its own: what it was mounted from is the device. */
	if (!ma && sscanf(dash, " - %*s %4095s", source) == 1) {
		unescape(source);
		if (source[0] == '/' && !stat(source, &st) && S_ISBLK(st.st_mode))
			ret->device = st.st_rdev;
	}
	return true;
}

FILE *rd_mounts_open(void)
{
	return fopen("/proc/self/mountinfo", "re");
}

bool rd_mounts_next(FILE *mounts, struct rd_mount *ret)
{
	char line[3 * PATH_MAX];

	while (fgets(line, sizeof(line), mounts))
		if (parse(line, ret))
			return true;
	return false;
}

bool rd_is_mounted(dev_t device, bool writable, char *where)
{
	FILE *mounts = rd_mounts_open();
	struct rd_mount mount;
	bool found = false;

	while (mounts && !found && rd_mounts_next(mounts, &mount))
		found = !(writable && mount.is_read_only) &&
			rd_device_lies_on(mount.device, device);
	if (found)
		memcpy(where, mount.where, sizeof(mount.where));
	if (mounts)
		fclose(mounts);
	return found;
}

bool rd_path_is_mounted(const char *path, char *where)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode) &&
		rd_is_mounted(st.st_rdev, false, where);
}

int rd_mounted_at(const char *dir, dev_t *ret)
{
	RD_FREE char *path = realpath(dir, NULL);
	FILE *mounts = rd_mounts_open();
	struct rd_mount mount;
	int r = -ENODEV;

	/* Of several, the last one covers the others. */
	while (mounts && path && rd_mounts_next(mounts, &mount))
		if (!strcmp(mount.where, path)) {
			*ret = mount.device;
			r = 0;
		}
	if (mounts)
		fclose(mounts);
	return r;
}
