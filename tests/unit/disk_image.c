// SPDX-License-Identifier: GPL-2.0
/* Small disks for tests: see disk_image.h. */
#include <endian.h>
#include <string.h>

#include "disk_image.h"

void put_le16(u8 *at, u16 value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
}

void put_le32(u8 *at, u32 value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

void put_be16(u8 *at, u16 value)
{
	value = htobe16(value);
	memcpy(at, &value, sizeof(value));
}

void put_be32(u8 *at, u32 value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

/* --- tables */

void image_mbr(u8 *sector, unsigned int i, u8 type, u32 first, u32 nr)
{
	u8 *entry = sector + 446 + 16 * i;

	entry[4] = type;
	put_le32(entry + 8, first);
	put_le32(entry + 12, nr);
	sector[510] = 0x55;
	sector[511] = 0xaa;
}

void image_gpt(u8 *disk, unsigned int sector, unsigned int i, u64 first, u64 last)
{
	u8 *header = disk + sector, *entry = disk + 2 * sector + 128 * i;

	image_mbr(disk, 0, 0xee, 1, 0xffffffff);
	memcpy(header, "EFI PART", 8);
	put_le32(header + 72, 2);
	put_le32(header + 80, 128);
	put_le32(header + 84, 128);
	memset(entry, 0x77, 16);
	put_le32(entry + 32, first);
	put_le32(entry + 36, first >> 32);
	put_le32(entry + 40, last);
	put_le32(entry + 44, last >> 32);
}

/* --- ext4 */

static void set_bits(u8 *bitmap, unsigned int first, unsigned int end, bool is_used)
{
	for (; first < end; first++) {
		bitmap[first / 8] &= ~(1 << first % 8);
		bitmap[first / 8] |= is_used << first % 8;
	}
}

void image_ext4(u8 *part)
{
	u8 *super = part + 1024, *desc = part + 2048;

	put_le32(super + 4, IMAGE_EXT4_BLOCKS);
	put_le32(super + 20, 1);
	put_le32(super + 32, 1024);
	put_le32(super + 36, 1024);
	put_le32(super + 40, 64);
	put_le16(super + 56, 0xef53);
	put_le16(super + 88, 128);
	put_le32(super + 96, 0x202);		/* flex_bg, file types */
	put_le32(super + 100, 0x11);		/* sparse_super, checksums of descriptors */
	/* Block 3 and 4 are bitmaps, and block 2053 is one of the third group that is unwritten. */
	put_le32(desc, 3);
	put_le32(desc + 32, 4);
	put_le32(desc + 64, 2053);
	put_le32(desc + 68, 2054);
	put_le32(desc + 72, 2060);
	put_le16(desc + 64 + 18, 2);
	memset(part + 3 * 1024, 0xff, 2 * 1024);
	set_bits(part + 3 * 1024, 99, 199, false);
	set_bits(part + 3 * 1024, 999, 1024, false);
	set_bits(part + 4 * 1024, 0, 75, false);
}

/* --- XFS */

static void make_node(u8 *block, u16 level, u16 nr, u32 right)
{
	memcpy(block, "ABTB", 4);
	put_be16(block + 4, level);
	put_be16(block + 6, nr);
	put_be32(block + 8, U32_MAX);
	put_be32(block + 12, right);
}

static void put_extent(u8 *block, unsigned int i, u32 first, u32 len)
{
	put_be32(block + 16 + 8 * i, first);
	put_be32(block + 20 + 8 * i, len);
}

static void make_group(u8 *group, u32 number, u32 len, u32 root, u32 levels)
{
	u8 *agf = group + 512;

	memcpy(agf, "XAGF", 4);
	put_be32(agf + 4, 1);
	put_be32(agf + 8, number);
	put_be32(agf + 12, len);
	put_be32(agf + 16, root);
	put_be32(agf + 28, levels);
}

void image_xfs(u8 *part)
{
	u8 *root = part + 12 * 512, *leaf = part + IMAGE_XFS_LEAF * 512;
	u8 *second = part + 1000 * 512;
	unsigned int i;

	memcpy(part, "XFSB", 4);
	put_be32(part + 4, 512);
	put_be32(part + 12, IMAGE_XFS_BLOCKS);
	put_be32(part + 84, 1000);
	put_be32(part + 88, 2);
	put_be16(part + 100, 0xb4b4);
	put_be16(part + 102, 512);
	make_group(part, 0, 1000, 12, 2);
	make_node(root, 1, 2, U32_MAX);
	put_extent(root, 0, 100, 1);
	put_extent(root, 1, 500, 100);
	/* Behind the room for 41 keys. */
	put_be32(root + 16 + 41 * 8, IMAGE_XFS_LEAF);
	put_be32(root + 20 + 41 * 8, IMAGE_XFS_LEAF_2);
	make_node(leaf, 0, 40, IMAGE_XFS_LEAF_2);
	for (i = 0; i < 40; i++)
		put_extent(leaf, i, 100 + 2 * i, 1);
	leaf = part + IMAGE_XFS_LEAF_2 * 512;
	make_node(leaf, 0, 1, U32_MAX);
	put_extent(leaf, 0, 500, 100);
	make_group(second, 1, 500, 4, 1);
	make_node(second + 4 * 512, 0, 1, U32_MAX);
	put_extent(second + 4 * 512, 0, 20, 480);
}
