// SPDX-License-Identifier: GPL-2.0
/* Replace files as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/plain.h"
#include "cli.h"
#include "replace.h"

FILE *ctl_replace_begin(const char *path, char **ret_tmp)
{
	int fd;

	/* The name must not end in .prom: the node exporter reads all such files. */
	if (asprintf(ret_tmp, "%s.XXXXXX", path) < 0) {
		*ret_tmp = NULL;
		errno = ENOMEM;
		return NULL;
	}
	fd = mkostemp(*ret_tmp, O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

int ctl_replace_end(FILE *out, const char *tmp, const char *path, mode_t mode)
{
	int r = fflush(out) || ferror(out) || fchmod(fileno(out), mode) ? -errno : 0;

	if (fclose(out) && !r)
		r = -errno;
	if (!r && rename(tmp, path))
		r = -errno;
	if (r)
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
