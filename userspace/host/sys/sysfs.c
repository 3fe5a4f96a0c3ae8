// SPDX-License-Identifier: GPL-2.0
/* Read files of sysfs, which have one line each. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sysfs.h"

void rd_sysfs_line(const char *file, char *ret, size_t size)
{
	RD_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[len > 0 ? len : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}
