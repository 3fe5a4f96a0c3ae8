// SPDX-License-Identifier: GPL-2.0
/* Which file system a partition has; see freespace.h. */
#include <errno.h>

#include "volume.h"

#define MAGIC_MAX	10

/*
 * Bytes by which a kind is known. The first one that is there counts. mke2fs overwrites the bytes
 * of those before ext4, and may leave what a swap space had.
 */
static const struct kind {
	const char *name;
	u32 offset;
	u32 len;
	const char *magic;
	int (*free_space)(struct rd_fs_volume *volume);	/* NULL: it is not looked into */
} kinds[] = {
	{ "XFS",	0,	4,	"XFSB",			rd_xfs_free_space },
	{ "LUKS",	0,	6,	"LUKS\xba\xbe",		NULL },
	{ "LVM",	536,	8,	"LVM2 001",		NULL },
	{ "ext4",	1080,	2,	"\x53\xef",		rd_ext4_free_space },
	{ "btrfs",	65600,	8,	"_BHRfS_M",		NULL },
	{ "RAID",	4096,	4,	"\xfc\x4e\x2b\xa9",	NULL },
	{ "swap",	4086,	10,	"SWAPSPACE2",		NULL },
	{ "F2FS",	1024,	4,	"\x10\x20\xf5\xf2",	NULL },
	{ "NTFS",	3,	8,	"NTFS    ",		NULL },
	{ "exFAT",	3,	8,	"EXFAT   ",		NULL },
	{ "FAT",	82,	8,	"FAT32   ",		NULL },
	{ "FAT",	54,	5,	"FAT16",		NULL },
	{ "FAT",	54,	5,	"FAT12",		NULL },
};

int rd_fs_read(const struct rd_fs_volume *volume, void *buf, size_t len, u64 offset)
{
	u64 size = volume->part.size;

	if (offset > size || len > size - offset)
		return -EUCLEAN;
	return volume->disk->read(volume->disk->ctx, buf, len, volume->part.offset + offset);
}

int rd_fs_tell(const struct rd_fs_volume *volume, u64 offset, u64 len)
{
	u64 size = volume->part.size;

	if (offset > size || len > size - offset)
		return -EUCLEAN;
	return volume->take(volume->ctx, volume->part.offset + offset, len);
}

/* Find the kind: 1, 0 if it is none of these, or -errno. */
static int find_kind(const struct rd_fs_volume *volume, const struct kind **ret)
{
	u8 bytes[MAGIC_MAX];
	unsigned int i;
	int r;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		r = rd_fs_read(volume, bytes, kinds[i].len, kinds[i].offset);
		/* The partition is too short for it. */
		if (r == -EUCLEAN)
			continue;
		if (r)
			return r;
		*ret = &kinds[i];
		if (!memcmp(bytes, kinds[i].magic, kinds[i].len))
			return 1;
	}
	return 0;
}

int rd_fs_free_space(const struct rd_fs_disk *disk, const struct rd_fs_part *part,
		     struct rd_fs_found *ret, rd_fs_free_fn *take, void *ctx)
{
	struct rd_fs_volume volume = {
		.disk = disk, .part = *part, .found = ret, .take = take, .ctx = ctx,
	};
	const struct kind *kind = NULL;
	int r;

	*ret = (struct rd_fs_found){ .state = RD_FS_UNKNOWN };
	r = find_kind(&volume, &kind);
	if (r <= 0)
		return r;
	ret->kind = kind->name;
	ret->state = RD_FS_OTHER;
	if (!kind->free_space)
		return 0;
	r = kind->free_space(&volume);
	if (r == -EOPNOTSUPP)
		return 0;
	ret->state = r == -EUCLEAN ? RD_FS_DAMAGED : RD_FS_READ;
	return r == -EUCLEAN ? 0 : r;
}
