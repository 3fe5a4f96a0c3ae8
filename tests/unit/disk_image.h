/* SPDX-License-Identifier: GPL-2.0 */
/* Small disks for tests: tables of partitions, and what tells free space of ext4 and XFS. */
#ifndef DISK_IMAGE_H
#define DISK_IMAGE_H

#include "base/units.h"

#define IMAGE_SECTOR	512

void put_le16(u8 *at, u16 value);
void put_le32(u8 *at, u32 value);
void put_be16(u8 *at, u16 value);
void put_be32(u8 *at, u32 value);

/* Make the sector one of an MBR, and set entry @i of it. */
void image_mbr(u8 *sector, unsigned int i, u8 type, u32 first, u32 nr);

/* Set entry @i of a GPT at the beginning of @disk, in sectors of @sector bytes. */
void image_gpt(u8 *disk, unsigned int sector, unsigned int i, u64 first, u64 last);

/*
 * ext4 with blocks of 1 KiB: two groups of 1024 blocks, and a third one of 512. Free are blocks
 * 100 to 199 and 1000 to 1099; all of the third group but what an unwritten bitmap implies.
 */
#define IMAGE_EXT4_BLOCKS	2561
void image_ext4(u8 *part);

/*
 * XFS with blocks of 512 bytes, version 4: groups of 1000 and 500 blocks. The tree of the first
 * has two leaves, with blocks 100, 102, ... 178 and 500 to 599; that of the second has 20 to 499.
 */
#define IMAGE_XFS_BLOCKS	1500
#define IMAGE_XFS_LEAF		13	/* blocks of the first leaf, and of the second */
#define IMAGE_XFS_LEAF_2	14
void image_xfs(u8 *part);

#endif
