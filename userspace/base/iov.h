/* SPDX-License-Identifier: GPL-2.0 */
/* Vectors of buffers. */
#ifndef RD_IOV_H
#define RD_IOV_H

#include <sys/uio.h>

/* Step over @bytes of the *@nr vectors at *@iov, which change. */
static inline void rd_iov_step(struct iovec **iov, unsigned int *nr, size_t bytes)
{
	while (*nr && bytes >= (*iov)->iov_len) {
		bytes -= (*iov)->iov_len;
		(*iov)++;
		(*nr)--;
	}
	if (bytes) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + bytes;
		(*iov)->iov_len -= bytes;
	}
}

#endif
