// SPDX-License-Identifier: GPL-2.0
/* Read all of a file or pipe, as text; see read_text.h. */
#include <errno.h>
#include <unistd.h>

#include "read_text.h"

#define PART	65536

int rd_read_text(int fd, size_t max, struct rd_buffer *ret)
{
	ssize_t len = 1;

	while (len) {
		u8 *to = rd_buffer_grow(ret, PART);

		if (!to)
			return -ENOMEM;
		len = read(fd, to, PART);
		ret->len -= PART - (len > 0 ? len : 0);
		if (len < 0 && errno != EINTR)
			return -errno;
		if (ret->len > max)
			return -EFBIG;
	}
	return rd_buffer_put_u8(ret, '\0');
}
