// SPDX-License-Identifier: GPL-2.0
/* Whether a source is written while it is read. */
#include <errno.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "source.h"

/* 0 where the kernel does not count. */
static u64 count_sectors(dev_t device)
{
	unsigned long long written = 0, discarded = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(device), minor(device));
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* Sectors, for a flush without any may count as a write as well. */
	if (fscanf(file, "%*u %*u %*u %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %llu",
		   &written, &discarded) < 1)
		written = 0;
	fclose(file);
	return written + discarded;
}

int rd_source_look(int fd, struct rd_source *ret)
{
	/*
	 * What was written before through the page cache is not to count as written now; and
	 * what is stored to a page that is mapped is seen only once that is clean.
	 */
	if (fsync(fd) && errno != EROFS && errno != EINVAL)
		return -errno;
	if (fstat(fd, &ret->st))
		return -errno;
	ret->sectors = S_ISBLK(ret->st.st_mode) ? count_sectors(ret->st.st_rdev) : 0;
	return 0;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool rd_source_was_cut(const struct rd_source *before, const struct rd_source *after)
{
	return S_ISREG(before->st.st_mode) && after->st.st_size < before->st.st_size;
}

bool rd_source_has_changed(const struct rd_source *before, const struct rd_source *after)
{
	/* Times of a device's node say nothing about what it holds. */
	if (S_ISBLK(before->st.st_mode))
		return before->sectors != after->sectors;
	/* st_ctim: who sets st_mtim back cannot set that. */
	return before->st.st_size != after->st.st_size ||
		!is_same_time(&before->st.st_mtim, &after->st.st_mtim) ||
		!is_same_time(&before->st.st_ctim, &after->st.st_ctim);
}
