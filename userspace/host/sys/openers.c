// SPDX-License-Identifier: GPL-2.0
/* Find the processes that have a file open: the kernel tells that in /proc alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "openers.h"

/* A device is one whatever path names it. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode))
		return S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool has_open(const char *pid, const struct stat *file)
{
	const struct dirent *entry;
	bool found = false;
	char path[300];
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.' && !fstatat(dirfd(dir), entry->d_name, &st, 0) &&
			is_same(file, &st);
	closedir(dir);
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

void rd_openers(int fd, struct rd_buffer *ret)
{
	const struct dirent *entry;
	struct rd_opener opener;
	struct stat file;
	DIR *dir;

	if (fstat(fd, &file))
		return;
	dir = opendir("/proc");
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		opener.pid = atoi(entry->d_name);
		if (opener.pid <= 0 || opener.pid == getpid() || !has_open(entry->d_name, &file))
			continue;
		read_command(entry->d_name, opener.command);
		rd_buffer_put(ret, &opener, sizeof(opener));
	}
	closedir(dir);
}
