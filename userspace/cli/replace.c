// SPDX-License-Identifier: GPL-2.0
/* Replace files as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/plain.h"
#include "cli.h"
#include "replace.h"

#define SUFFIX		".XXXXXX"

FILE *ctl_replace_begin(const char *path, char **ret_tmp)
{
	int fd;

	/* The name must not end in .prom: the node exporter reads all such files. */
	if (asprintf(ret_tmp, "%s" SUFFIX, path) < 0) {
		*ret_tmp = NULL;
		errno = ENOMEM;
		return NULL;
	}
	fd = mkostemp(*ret_tmp, O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

FILE *ctl_replace_named(const char *path, char **ret_tmp)
{
	RD_FREE char *file = realpath(path, NULL);
	struct stat st;

	*ret_tmp = NULL;
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return fopen(path, "we");
	return ctl_replace_begin(file ? : path, ret_tmp);
}

int ctl_replace_end(FILE *out, const char *tmp, mode_t mode)
{
	RD_FREE char *path = tmp ? strndup(tmp, strlen(tmp) - strlen(SUFFIX)) : NULL;
	int r = fflush(out) || ferror(out) ? -errno : 0;

	if (!r && tmp && (fchmod(fileno(out), mode) || fsync(fileno(out))))
		r = -errno;
	if (fclose(out) && !r)
		r = -errno;
	if (!r && tmp && (!path || rename(tmp, path)))
		r = path ? -errno : -ENOMEM;
	if (r && tmp)
		unlink(tmp);
	return r;
}

FILE *ctl_read_in(const char *pool, const char *name)
{
	RD_FREE char *path = rd_path_in(pool, name);
	int fd = path ? rd_open_plain(path, O_RDONLY, 0) : -ENOMEM;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (!file && fd >= 0)
		close(fd);
	return file;
}
