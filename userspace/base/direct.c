// SPDX-License-Identifier: GPL-2.0
/* Files and block devices past the page cache; see direct.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "direct.h"
#include "iov.h"

int rd_open_direct(const char *path, int flags, mode_t mode)
{
	struct stat st;
	int fd;

	/* The open of a fifo waits for a process at its other end. */
	if (!stat(path, &st) && S_ISFIFO(st.st_mode))
		return -ENOTBLK;
	flags |= O_CLOEXEC;
	fd = open(path, flags | O_DIRECT, mode);
	/* tmpfs, for one, has no O_DIRECT. */
	if (fd < 0 && errno == EINVAL) {
		/* By now a new file exists: the kernel makes it before it refuses. */
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

/* Returns 0 with no vectors left, 1 where the file ends before them, or -errno. */
static int transfer(int fd, struct iovec **iov, unsigned int *nr, u64 offset,
		    rd_transfer_fn *how)
{
	/* Empty vectors are no end of the file. */
	rd_iov_step(iov, nr, 0);
	while (*nr) {
		ssize_t n = how(fd, *iov, *nr, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		offset += n;
		rd_iov_step(iov, nr, n);
		/* After the end of a file in the middle of a sector nothing can be read. */
		if (!n || (*nr && how == preadv && offset % 512))
			return 1;
	}
	return 0;
}

int rd_transfer_direct(int fd, struct iovec *iov, unsigned int nr, u64 offset,
		       rd_transfer_fn *how)
{
	int r = transfer(fd, &iov, &nr, offset, how);

	return r > 0 ? -EIO : r;
}

int rd_read_direct(int fd, void *buf, size_t len, u64 offset)
{
	struct iovec vector = { .iov_base = buf, .iov_len = len }, *iov = &vector;
	unsigned int nr = 1;
	int r = transfer(fd, &iov, &nr, offset, preadv);

	if (r <= 0)
		return r;
	memset(iov->iov_base, 0, iov->iov_len);
	return 0;
}

int rd_write_direct(int fd, const void *buf, size_t len, u64 offset)
{
	struct iovec vector = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

	return rd_transfer_direct(fd, &vector, 1, offset, pwritev);
}

#define HUGE_PAGE	(2 << 20)

void *rd_alloc_direct(size_t len)
{
	void *data;

	if (posix_memalign(&data, HUGE_PAGE, len))
		return NULL;
	/* A failure costs speed only. */
	madvise(data, len, MADV_HUGEPAGE);
	return data;
}
