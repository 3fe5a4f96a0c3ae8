/* SPDX-License-Identifier: GPL-2.0 */
/* Files and block devices, read and written past the page cache where that can be. */
#ifndef RD_DIRECT_H
#define RD_DIRECT_H

#include <linux/types.h>
#include <sys/types.h>

/* open() with O_CLOEXEC, and with O_DIRECT where the file system has that. */
int rd_open_direct(const char *path, int flags, mode_t mode);

/* -ENOTBLK: neither a file nor a block device. */
int rd_size_of(int fd, u64 *ret_bytes, bool *ret_is_device);

/*
 * Read all of @len bytes, with zeros for what is beyond the end. Address, length
 * and offset are aligned to blocks.
 */
int rd_read_direct(int fd, void *buf, size_t len, u64 offset);

/* Write all of it. */
int rd_write_direct(int fd, const void *buf, size_t len, u64 offset);

/*
 * Memory to read to and write from, in huge pages where there are any: of these
 * the kernel makes one request where of others it makes hundreds of pieces.
 */
void *rd_alloc_direct(size_t len);

#endif
