// SPDX-License-Identifier: GPL-2.0
/* The file last-scrub of a pool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../pool/cleanup.h"
#include "../pool/pool.h"
#include "lastscrub.h"

#define NAME	"last-scrub"
#define FORMAT	"versions %llu\nfingerprints %llu\n"

/* Who reads it meanwhile finds the old one, or the new one. */
static int replace(const char *path, char *tmp, u64 versions, u64 fingerprints)
{
	int fd = mkostemp(tmp, O_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (dprintf(fd, FORMAT, versions, fingerprints) < 0)
		r = -errno;
	if (close(fd) && !r)
		r = -errno;
	if (!r && rename(tmp, path))
		r = -errno;
	if (r)
		unlink(tmp);
	return r;
}

void ctl_last_scrub_write(const struct ctl *ctl, u64 versions, u64 fingerprints)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, NAME);
	RD_FREE char *tmp = rd_path_in(ctl->pool->path, NAME ".XXXXXX");
	int r = path && tmp ? replace(path, tmp, versions, fingerprints) : -ENOMEM;

	if (r)
		rd_err(r, "'metrics' will not know of this: cannot write '%s'", path ? path : NAME);
}

bool ctl_last_scrub_read(const struct ctl *ctl, struct ctl_last_scrub *ret)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, NAME);
	bool is_known = false;
	struct stat st;
	FILE *file;

	file = path ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (fscanf(file, FORMAT, &ret->versions, &ret->fingerprints) == 2 &&
	    !fstat(fileno(file), &st)) {
		ret->time = st.st_mtime;
		is_known = true;
	}
	fclose(file);
	return is_known;
}
