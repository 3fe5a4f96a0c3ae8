// SPDX-License-Identifier: GPL-2.0
/* Formats of files that have a disk in them; see container.h. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "container.h"

struct magic {
	const char *format;
	unsigned int at, len;
	const char *bytes;
};

#define MAGIC(format, at, bytes)	{ format, at, sizeof(bytes) - 1, bytes }

/*
 * libblkid knows none of them. A fixed image of VirtualPC ("vpc") is a raw disk with a block
 * behind it, and LUKS may be what a guest has on its disk: neither is here.
 */
static const struct magic magics[] = {
	MAGIC("qcow2", 0, "QFI\xfb\0\0\0\2"),
	MAGIC("qcow2", 0, "QFI\xfb\0\0\0\3"),
	MAGIC("qcow", 0, "QFI\xfb\0\0\0\1"),
	MAGIC("qed", 0, "QED\0"),
	MAGIC("vmdk", 0, "KDMV"),
	MAGIC("vmdk", 0, "COWD"),
	MAGIC("vmdk", 0, "# Disk DescriptorFile"),
	MAGIC("vdi", 64, "\x7f\x10\xda\xbe"),
	MAGIC("vhdx", 0, "vhdxfile"),
	MAGIC("vpc", 0, "conectix"),
	MAGIC("parallels", 0, "WithoutFreeSpace"),
	MAGIC("parallels", 0, "WithouFreSpacExt"),
};

const char *rd_container_format(const char *path)
{
	RD_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char start[512] = "";
	unsigned int i;

	if (fd < 0 || pread(fd, start, sizeof(start), 0) <= 0)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(magics); i++)
		if (!memcmp(start + magics[i].at, magics[i].bytes, magics[i].len))
			return magics[i].format;
	return NULL;
}
