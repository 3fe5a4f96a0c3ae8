// SPDX-License-Identifier: GPL-2.0
/*
 * Free blocks of ext2, ext3 and ext4: see freespace.h. Numbers are little endian.
 *
 *	superblock, at 1024	4, 336	number of blocks, low and high
 *				20	first block
 *				24, 28	log2 of the sizes of a block and a cluster, less 10
 *				32, 36	blocks and clusters of a group
 *				40, 88	inodes of a group, size of one
 *				92, 96, 100	features: compatible, incompatible, read-only
 *				206	blocks for more descriptors behind those of a group
 *				254	size of a descriptor
 *				260	first group of descriptors that is a meta group
 *				588	the two groups with a superblock, of sparse_super2
 *	descriptor of a group	0, 32	block of the bitmap of blocks, low and high
 *				4, 36	the same of inodes
 *				8, 40	first block of the table of inodes
 *				18	flags
 *
 * A bit of the bitmap is a block or, with bigalloc, a cluster. A group whose flags say that the
 * bitmap was never written has only the blocks that its place in the file system implies.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "volume.h"

#define SUPER			1024
#define SUPER_SIZE		1024

#define COMPAT_SPARSE_SUPER2	0x0200
#define INCOMPAT_RECOVER	0x0004
#define INCOMPAT_META_BG	0x0010
#define INCOMPAT_64BIT		0x0080
#define INCOMPAT_FLEX_BG	0x0200
/* What does not move bitmaps and descriptors; a journal of its own, 8, is no file system. */
#define INCOMPAT_KNOWN		0x3f7d6
#define RO_COMPAT_SPARSE_SUPER	0x0001
#define RO_COMPAT_GDT_CSUM	0x0010
#define RO_COMPAT_BIGALLOC	0x0200
#define RO_COMPAT_METADATA_CSUM	0x0400
#define FLAG_BLOCK_UNINIT	0x0002

/* The fewest that mke2fs makes; it bounds what is read of a disk. */
#define MIN_GROUP		256

struct ext4 {
	const struct rd_fs_volume *volume;
	u64 nr_blocks, first_block;
	u32 block_size;
	unsigned int cluster_shift;	/* from blocks to clusters */
	u32 clusters;			/* of a group */
	u64 blocks;			/* of a group */
	u64 groups;
	u32 compat, incompat, ro_compat;
	u32 desc_size, descs;		/* of a block */
	u32 first_meta_bg, reserved;
	u64 inode_blocks;		/* of a group */
	u32 backups[2];
	u8 *bitmap;
	u8 *desc_block;
	u64 desc_block_nr;		/* which one that is; U64_MAX: none */
};

/* --- the superblock */

static void read_features(struct ext4 *fs, const u8 *super)
{
	fs->compat = rd_le32(super + 92);
	fs->incompat = rd_le32(super + 96);
	fs->ro_compat = rd_le32(super + 100);
	fs->first_meta_bg = fs->incompat & INCOMPAT_META_BG ? rd_le32(super + 260) : U32_MAX;
	fs->reserved = rd_le16(super + 206);
	fs->backups[0] = rd_le32(super + 588);
	fs->backups[1] = rd_le32(super + 592);
	fs->volume->found->has_journal = fs->incompat & INCOMPAT_RECOVER;
}

static int read_sizes(struct ext4 *fs, const u8 *super)
{
	u32 log_block = rd_le32(super + 24), log_cluster = rd_le32(super + 28);
	u64 inode_bytes = (u64)rd_le32(super + 40) * rd_le16(super + 88);

	if (!(fs->ro_compat & RO_COMPAT_BIGALLOC))
		log_cluster = log_block;
	if (log_block > 6 || log_cluster < log_block || log_cluster - log_block > 16)
		return -EUCLEAN;
	fs->block_size = 1024U << log_block;
	fs->cluster_shift = log_cluster - log_block;
	fs->nr_blocks = rd_le32(super + 4);
	if (fs->incompat & INCOMPAT_64BIT)
		fs->nr_blocks |= (u64)rd_le32(super + 336) << 32;
	fs->first_block = rd_le32(super + 20);
	fs->blocks = rd_le32(super + 32);
	fs->clusters = fs->ro_compat & RO_COMPAT_BIGALLOC ? rd_le32(super + 36) : fs->blocks;
	fs->inode_blocks = (inode_bytes + fs->block_size - 1) / fs->block_size;
	fs->desc_size = fs->incompat & INCOMPAT_64BIT ? rd_le16(super + 254) : 32;
	return 0;
}

static bool is_possible(const struct ext4 *fs)
{
	if (fs->nr_blocks > fs->volume->part.size / fs->block_size)
		return false;
	if (fs->first_block > 1 || fs->first_block >= fs->nr_blocks)
		return false;
	if (fs->blocks < MIN_GROUP || fs->clusters > 8 * fs->block_size ||
	    fs->blocks != (u64)fs->clusters << fs->cluster_shift)
		return false;
	return fs->desc_size >= (fs->incompat & INCOMPAT_64BIT ? 64 : 32) &&
		fs->desc_size <= 1024 && !(fs->desc_size & (fs->desc_size - 1));
}

static int read_super(struct ext4 *fs)
{
	u8 super[SUPER_SIZE];
	int r;

	r = rd_fs_read(fs->volume, super, sizeof(super), SUPER);
	if (r)
		return r;
	read_features(fs, super);
	if (fs->incompat & ~INCOMPAT_KNOWN)
		return -EOPNOTSUPP;
	r = read_sizes(fs, super);
	if (r || !is_possible(fs))
		return r ? r : -EUCLEAN;
	fs->descs = fs->block_size / fs->desc_size;
	fs->groups = (fs->nr_blocks - fs->first_block + fs->blocks - 1) / fs->blocks;
	fs->desc_block_nr = U64_MAX;
	return 0;
}

/* --- where things are */

static bool is_power(u64 value, unsigned int base)
{
	while (value % base == 0)
		value /= base;
	return value == 1;
}

/* Does the group begin with a copy of the superblock? */
static bool has_super(const struct ext4 *fs, u64 group)
{
	if (!group)
		return true;
	if (fs->compat & COMPAT_SPARSE_SUPER2)
		return group == fs->backups[0] || group == fs->backups[1];
	if (group == 1 || !(fs->ro_compat & RO_COMPAT_SPARSE_SUPER))
		return true;
	return is_power(group, 3) || is_power(group, 5) || is_power(group, 7);
}

static u64 group_block(const struct ext4 *fs, u64 group)
{
	return fs->first_block + group * fs->blocks;
}

/* Where is block @nr of the descriptors? */
static u64 desc_block(const struct ext4 *fs, u64 nr)
{
	u64 group = nr * fs->descs, super_block = SUPER / fs->block_size;

	if (!(fs->incompat & INCOMPAT_META_BG) || nr < fs->first_meta_bg)
		return super_block + 1 + nr;
	/* In blocks of 1 KiB that are counted from 0, the superblock is in the second one. */
	return group_block(fs, group) + has_super(fs, group) +
		(!group && super_block > fs->first_block);
}

static int read_block(const struct ext4 *fs, void *buf, u64 block)
{
	if (block >= fs->nr_blocks)
		return -EUCLEAN;
	return rd_fs_read(fs->volume, buf, fs->block_size, block * fs->block_size);
}

/* Find the descriptor of @group; *@ret lasts until the next one. */
static int find_desc(struct ext4 *fs, u64 group, const u8 **ret)
{
	u64 nr = group / fs->descs;
	int r = 0;

	if (nr != fs->desc_block_nr) {
		fs->desc_block_nr = U64_MAX;
		r = read_block(fs, fs->desc_block, desc_block(fs, nr));
		if (!r)
			fs->desc_block_nr = nr;
	}
	*ret = fs->desc_block + group % fs->descs * fs->desc_size;
	return r;
}

/* Read the number of a block: its low half is at @at of the descriptor. */
static u64 block_at(const struct ext4 *fs, const u8 *desc, unsigned int at)
{
	return rd_le32(desc + at) |
		(fs->incompat & INCOMPAT_64BIT ? (u64)rd_le32(desc + at + 32) << 32 : 0);
}

/* --- a group */

/* The superblock and descriptors that the group begins with, in blocks. */
static u64 count_base(const struct ext4 *fs, u64 group)
{
	u64 all = (fs->groups + fs->descs - 1) / fs->descs;
	u64 in_meta = group % fs->descs;

	if (fs->incompat & INCOMPAT_META_BG && group / fs->descs >= fs->first_meta_bg)
		return has_super(fs, group) +
			(in_meta <= 1 || in_meta == fs->descs - 1);
	return has_super(fs, group) ? 1 + rd_min(all, fs->first_meta_bg) + fs->reserved : 0;
}

/* Set the bits of @nr blocks from @block on, as far as they are in the group. */
static void set_bits(struct ext4 *fs, u64 group, u64 block, u64 nr)
{
	u64 start = group_block(fs, group), i;

	/* With flex_bg they may be in another group, which has a bitmap then. */
	if (block < start || block >= start + fs->blocks || !nr)
		return;
	nr = rd_min(nr, start + fs->blocks - block);
	for (i = (block - start) >> fs->cluster_shift;
	     i <= (block - start + nr - 1) >> fs->cluster_shift; i++)
		fs->bitmap[i / 8] |= 1 << i % 8;
}

static void make_bitmap(struct ext4 *fs, u64 group, const u8 *desc)
{
	memset(fs->bitmap, 0, fs->block_size);
	set_bits(fs, group, group_block(fs, group), count_base(fs, group));
	set_bits(fs, group, block_at(fs, desc, 0), 1);
	set_bits(fs, group, block_at(fs, desc, 4), 1);
	set_bits(fs, group, block_at(fs, desc, 8), fs->inode_blocks);
}

static int get_bitmap(struct ext4 *fs, u64 group)
{
	const u8 *desc;
	int r;

	r = find_desc(fs, group, &desc);
	if (r)
		return r;
	if (!(fs->ro_compat & (RO_COMPAT_GDT_CSUM | RO_COMPAT_METADATA_CSUM)) ||
	    !(rd_le16(desc + 18) & FLAG_BLOCK_UNINIT))
		return read_block(fs, fs->bitmap, block_at(fs, desc, 0));
	make_bitmap(fs, group, desc);
	return 0;
}

static bool is_used(const struct ext4 *fs, u64 bit)
{
	return fs->bitmap[bit / 8] & 1 << bit % 8;
}

static int tell_group(struct ext4 *fs, u64 group)
{
	u64 start = group_block(fs, group);
	u64 nr = rd_min(fs->blocks, fs->nr_blocks - start);
	u64 bits = (nr + (1ULL << fs->cluster_shift) - 1) >> fs->cluster_shift;
	u64 bit, end, last;
	int r;

	r = get_bitmap(fs, group);
	for (bit = 0; bit < bits && !r; bit = end) {
		for (end = bit + 1; end < bits && is_used(fs, end) == is_used(fs, bit);)
			end++;
		/* The last cluster may be cut off. */
		last = rd_min(end << fs->cluster_shift, nr);
		if (!is_used(fs, bit))
			r = rd_fs_tell(fs->volume,
				       (start + (bit << fs->cluster_shift)) * fs->block_size,
				       (last - (bit << fs->cluster_shift)) * fs->block_size);
	}
	return r;
}

int rd_ext4_free_space(struct rd_fs_volume *volume)
{
	RD_FREE u8 *bitmap = NULL, *desc_block = NULL;
	struct ext4 fs = { .volume = volume };
	u64 group;
	int r;

	r = read_super(&fs);
	if (r)
		return r;
	bitmap = malloc(fs.block_size);
	desc_block = malloc(fs.block_size);
	if (!bitmap || !desc_block)
		return -ENOMEM;
	fs.bitmap = bitmap;
	fs.desc_block = desc_block;
	for (group = 0; group < fs.groups && !r; group++)
		r = tell_group(&fs, group);
	return r;
}
