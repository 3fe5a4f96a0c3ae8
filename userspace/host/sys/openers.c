// SPDX-License-Identifier: GPL-2.0
/* Find the processes that have a file open: the kernel tells that in /proc alone. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "openers.h"

/* Do not ask a server for it: one that does not answer would stop this command as well. */
static bool stat_of(int dir, const char *name, int flags, struct statx *ret)
{
	return !statx(dir, name, flags | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, ret);
}

/* A device is one whatever path names it. */
static bool is_same(const struct statx *a, const struct statx *b)
{
	if (S_ISBLK(a->stx_mode))
		return S_ISBLK(b->stx_mode) && a->stx_rdev_major == b->stx_rdev_major &&
			a->stx_rdev_minor == b->stx_rdev_minor;
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
		a->stx_dev_minor == b->stx_dev_minor;
}

static bool has_open(const char *pid, const struct statx *file)
{
	const struct dirent *entry;
	bool found = false;
	char path[300];
	struct statx st;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	RD_DIR DIR *dir = opendir(path);

	while (dir && !found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.' && stat_of(dirfd(dir), entry->d_name, 0, &st) &&
			is_same(file, &st);
	return found;
}

/* Arguments end with a zero each. Print nothing that could change a terminal. */
static void read_command(const char *pid, char *text)
{
	RD_CLOSE int fd = -1;
	char path[300];
	ssize_t i, len;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, RD_OPENER_TEXT - 1);
	len = len < 0 ? 0 : len;
	while (len && !text[len - 1])
		len--;
	text[len] = '\0';
	for (i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			text[i] = text[i] ? '?' : ' ';
}

static pid_t parent_of(const char *pid)
{
	char path[300];
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
		parent = 0;
	if (file)
		fclose(file);
	return parent;
}

/* Has another opener forked it, without starting another program? */
static bool is_part(const struct rd_opener *opener, const char *pid, const struct statx *file)
{
	struct rd_opener parent = { .pid = parent_of(pid) };
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)parent.pid);
	if (parent.pid <= 0 || parent.pid == getpid() || !has_open(text, file))
		return false;
	read_command(text, parent.command);
	return !strcmp(parent.command, opener->command);
}

void rd_openers(const char *path, struct rd_buffer *ret)
{
	RD_DIR DIR *dir = opendir("/proc");
	const struct dirent *entry;
	struct rd_opener opener;
	struct statx file;

	if (!dir || !stat_of(AT_FDCWD, path, 0, &file))
		return;
	while ((entry = readdir(dir))) {
		opener.pid = atoi(entry->d_name);
		if (opener.pid <= 0 || opener.pid == getpid() || !has_open(entry->d_name, &file))
			continue;
		read_command(entry->d_name, opener.command);
		if (is_part(&opener, entry->d_name, &file))
			continue;
		rd_buffer_put(ret, &opener, sizeof(opener));
	}
}
