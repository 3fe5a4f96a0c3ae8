/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of this folder share: a partition that is read, and numbers in bytes. */
#ifndef RD_FS_VOLUME_H
#define RD_FS_VOLUME_H

#include <endian.h>
#include <string.h>

#include "freespace.h"

struct rd_fs_volume {
	const struct rd_fs_disk *disk;
	struct rd_fs_part part;
	struct rd_fs_found *found;
	rd_fs_free_fn *take;
	void *ctx;
};

/* No block of a file system is larger. */
#define RD_FS_BLOCK_MAX	65536

/* Read @len bytes at @offset of the partition. -EUCLEAN: they are not all in it. */
int rd_fs_read(const struct rd_fs_volume *volume, void *buf, size_t len, u64 offset);

/* Tell a range of the partition that is free. -EUCLEAN: it is not all in it. */
int rd_fs_tell(const struct rd_fs_volume *volume, u64 offset, u64 len);

/*
 * Tell all that is free. -EUCLEAN: it is damaged; -EOPNOTSUPP: it has a feature that is not
 * known. The magic number is there.
 */
int rd_ext4_free_space(struct rd_fs_volume *volume);
int rd_xfs_free_space(struct rd_fs_volume *volume);

/* --- numbers at @at, of any alignment */

static inline u16 rd_le16(const u8 *at)
{
	u16 value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static inline u32 rd_le32(const u8 *at)
{
	u32 value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static inline u64 rd_le64(const u8 *at)
{
	return rd_le32(at) | (u64)rd_le32(at + 4) << 32;
}

static inline u16 rd_be16(const u8 *at)
{
	u16 value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static inline u32 rd_be32(const u8 *at)
{
	u32 value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static inline u64 rd_be64(const u8 *at)
{
	return (u64)rd_be32(at) << 32 | rd_be32(at + 4);
}

#endif
