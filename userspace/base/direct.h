/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files and block devices, read and written past the page cache where the file system
 * allows it. Address, length and offset of every transfer are aligned to blocks.
 */
#ifndef RD_DIRECT_H
#define RD_DIRECT_H

#include <linux/types.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Open @path with O_CLOEXEC, and with O_DIRECT where the file system has that. */
int rd_open_direct(const char *path, int flags, mode_t mode);

/* Find the size of @fd. -ENOTBLK: it is neither a file nor a block device. */
int rd_size_of(int fd, u64 *ret_bytes, bool *ret_is_device);

/* Read all of @len bytes, with zeros for those beyond the end of the file. */
int rd_read_direct(int fd, void *buf, size_t len, u64 offset);

/* Write all of @len bytes. */
int rd_write_direct(int fd, const void *buf, size_t len, u64 offset);

/* preadv() or pwritev() */
typedef ssize_t rd_transfer_fn(int fd, const struct iovec *iov, int nr, off_t offset);

/*
 * Read or write all of the vectors, IOV_MAX at most, which are used up. -EIO, too,
 * where the file ends before them.
 */
int rd_transfer_direct(int fd, struct iovec *iov, unsigned int nr, u64 offset,
		       rd_transfer_fn *how);

/*
 * Allocate a buffer for transfers, in huge pages where the kernel has any: a transfer
 * to them is one request to the disk, to small pages it is hundreds of pieces.
 */
void *rd_alloc_direct(size_t len);

#endif
