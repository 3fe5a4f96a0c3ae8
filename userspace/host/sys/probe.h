/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a block device or file holds, by libblkid. It reads the device itself: neither
 * its cache nor udev's is asked or written.
 */
#ifndef RD_PROBE_H
#define RD_PROBE_H

#define RD_FS_TYPE_MAX	32

struct rd_content {
	char type[RD_FS_TYPE_MAX];	/* "ext4"; "" where there is nothing that is known */
	char table[RD_FS_TYPE_MAX];	/* of partitions: "gpt", "" */
};

/* "ext4", "gpt", or "" where there is nothing that is known. */
static inline const char *rd_content_text(const struct rd_content *content)
{
	return content->type[0] ? content->type : content->table;
}

int rd_probe(const char *path, struct rd_content *ret);

#endif
