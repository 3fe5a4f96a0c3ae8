// SPDX-License-Identifier: GPL-2.0
/* Files and block devices past the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "direct.h"

int rd_open_direct(const char *path, int flags, mode_t mode)
{
	struct stat st;
	int fd;

	/* To open a fifo is to wait for somebody. */
	if (!stat(path, &st) && S_ISFIFO(st.st_mode))
		return -ENOTBLK;
	flags |= O_CLOEXEC;
	fd = open(path, flags | O_DIRECT, mode);
	/* tmpfs, for one, has no O_DIRECT. */
	if (fd < 0 && errno == EINVAL) {
		/* A new file is there by now, though: that comes before the refusal. */
		if (flags & O_CREAT)
			flags &= ~O_EXCL;
		fd = open(path, flags, mode);
	}
	return fd < 0 ? -errno : fd;
}

int rd_size_of(int fd, u64 *ret_bytes, bool *ret_is_device)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -ENOTBLK;
	end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return -errno;
	*ret_bytes = end;
	*ret_is_device = S_ISBLK(st.st_mode);
	return 0;
}

int rd_read_direct(int fd, void *buf, size_t len, u64 offset)
{
	size_t have = 0;

	while (have < len) {
		ssize_t r = pread(fd, (u8 *)buf + have, len - have, offset + have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		have += r;
		/* The end of a file need not be that of a sector: what is next is none. */
		if (!r || (offset + have) % 512)
			break;
	}
	memset((u8 *)buf + have, 0, len - have);
	return 0;
}

int rd_write_direct(int fd, const void *buf, size_t len, u64 offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t r = pwrite(fd, (const u8 *)buf + done, len - done, offset + done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -EIO;
		done += r;
	}
	return 0;
}

#define HUGE_PAGE	(2 << 20)

void *rd_alloc_direct(size_t len)
{
	void *data;

	if (posix_memalign(&data, HUGE_PAGE, len))
		return NULL;
	/* Without it everything is as it would be, only slower. */
	madvise(data, len, MADV_HUGEPAGE);
	return data;
}
