// SPDX-License-Identifier: GPL-2.0
/* Leave out the first member of a tar: see guest_tar.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "guest_tar.h"

/* Where they are in a block, and how long. */
#define SIZE_AT		124
#define SIZE_LEN	12
#define TYPE_AT		156
/* What describes a member is not longer. */
#define SIZE_LIMIT	(16 << 20)

static int write_all(const struct rd_guest_tar *tar, const u8 *data, size_t len)
{
	while (len) {
		ssize_t nr = write(tar->out, data, len);

		if (nr < 0 && errno == EINTR && !*tar->stop)
			continue;
		if (nr < 0 && (errno == EINTR || errno == EPIPE))
			return -errno;
		if (nr < 0)
			return rd_err(-errno, "cannot write the tar");
		data += nr;
		len -= nr;
	}
	return 0;
}

/* A block that describes a member, or says that more about it follows. */
static int take_block(struct rd_guest_tar *tar)
{
	char size[SIZE_LEN + 1] = "", type = tar->block[TYPE_AT];

	memcpy(size, tar->block + SIZE_AT, SIZE_LEN);
	tar->skip = strtoull(size, NULL, 8);
	tar->len = 0;
	if (type == '5' && !strcmp((char *)tar->block, "./")) {
		tar->passes = true;
		return 0;
	}
	if ((type != 'x' && type != 'g') || tar->skip > SIZE_LIMIT) {
		rd_err(0, "the guest's files do not come as a tar");
		return -EBADMSG;
	}
	tar->skip = rd_round_up(tar->skip, RD_TAR_BLOCK);
	return 0;
}

int rd_guest_tar_put(struct rd_guest_tar *tar, const u8 *data, size_t len)
{
	int r = 0;

	while (len && !tar->passes && !r) {
		size_t nr = rd_min(len, tar->skip ? tar->skip : RD_TAR_BLOCK - tar->len);

		if (tar->skip) {
			tar->skip -= nr;
		} else {
			memcpy(tar->block + tar->len, data, nr);
			tar->len += nr;
			if (tar->len == RD_TAR_BLOCK)
				r = take_block(tar);
		}
		data += nr;
		len -= nr;
	}
	return r ? r : write_all(tar, data, len);
}
