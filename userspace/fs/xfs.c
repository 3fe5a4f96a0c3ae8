// SPDX-License-Identifier: GPL-2.0
/*
 * Free blocks of XFS, versions 4 and 5: see freespace.h. Numbers are big endian.
 *
 *	superblock, at 0	4	size of a block
 *				8	number of blocks
 *				84, 88	blocks of an allocation group, number of groups
 *				100	version, in the low 4 bits
 *				102	size of a sector
 *				126	mkfs has not ended
 *				216	features, incompatible; of version 5
 *	AGF, in sector 1	0	"XAGF", 4 version: 1
 *	of a group		8, 12	number of the group, its blocks
 *				16, 28	root and levels of the tree of free extents, by block
 *	a block of the tree	0	"ABTB", or "AB3B" in version 5
 *				4, 6	level, number of records
 *				12	next block of the level; U32_MAX: none
 *				16, 56	records: those of level 0 are first block and length of an
 *				        extent; in the others as many keys as there is room for,
 *				        and behind these a block each
 *
 * The blocks that the group keeps for the tree itself (AGFL) are not in it, and not told.
 *
 * The records of a tree are in order, so a tree with a circle is found by the first block that
 * comes again. A block but the root is at least half full.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "volume.h"

#define SUPER_SIZE	256
#define AGF_SIZE	64
#define AGF_MAGIC	0x58414746
#define TREE_MAGIC_4	0x41425442
#define TREE_MAGIC_5	0x41423342
#define MIN_GROUP	64
#define MAX_LEVELS	9
#define NO_BLOCK	U32_MAX
/* What does not change groups and trees: file types ... metadata directories. */
#define INCOMPAT_KNOWN	0x1ff

struct xfs {
	const struct rd_fs_volume *volume;
	u64 nr_blocks;
	u32 block_size, sector_size;
	u32 blocks, groups;		/* of a group; of the file system */
	u32 magic;			/* of a block of the tree */
	u32 head;			/* its bytes before the records */
	u8 *block;
};

/* The tree of a group. */
struct tree {
	u64 start;			/* the group's first block */
	u32 len;			/* its blocks */
	u32 root;
	unsigned int level;		/* of the root */
	u32 behind;			/* of what was told: further on there is more */
};

static bool is_size(u32 size, u32 most)
{
	return size >= 512 && size <= most && !(size & (size - 1));
}

static int read_super(struct xfs *fs)
{
	u8 super[SUPER_SIZE];
	unsigned int version;
	int r;

	r = rd_fs_read(fs->volume, super, sizeof(super), 0);
	if (r)
		return r;
	version = rd_be16(super + 100) & 15;
	if (version < 4 || version > 5 || super[126] ||
	    (version == 5 && rd_be32(super + 216) & ~INCOMPAT_KNOWN))
		return -EOPNOTSUPP;
	fs->magic = version == 5 ? TREE_MAGIC_5 : TREE_MAGIC_4;
	fs->head = version == 5 ? 56 : 16;
	fs->block_size = rd_be32(super + 4);
	fs->sector_size = rd_be16(super + 102);
	fs->nr_blocks = rd_be64(super + 8);
	fs->blocks = rd_be32(super + 84);
	fs->groups = rd_be32(super + 88);
	if (!is_size(fs->block_size, RD_FS_BLOCK_MAX) ||
	    !is_size(fs->sector_size, fs->block_size) || fs->blocks < MIN_GROUP || !fs->groups)
		return -EUCLEAN;
	if (fs->nr_blocks > fs->volume->part.size / fs->block_size ||
	    fs->nr_blocks <= (u64)(fs->groups - 1) * fs->blocks ||
	    fs->nr_blocks > (u64)fs->groups * fs->blocks)
		return -EUCLEAN;
	return 0;
}

static int read_group(const struct xfs *fs, u32 group, struct tree *ret)
{
	u8 agf[AGF_SIZE];
	u32 levels;
	int r;

	ret->start = (u64)group * fs->blocks;
	ret->len = rd_min(fs->blocks, fs->nr_blocks - ret->start);
	r = rd_fs_read(fs->volume, agf, sizeof(agf), ret->start * fs->block_size + fs->sector_size);
	if (r)
		return r;
	ret->root = rd_be32(agf + 16);
	levels = rd_be32(agf + 28);
	if (rd_be32(agf) != AGF_MAGIC || rd_be32(agf + 4) != 1 || rd_be32(agf + 8) != group ||
	    rd_be32(agf + 12) != ret->len || !levels || levels > MAX_LEVELS)
		return -EUCLEAN;
	ret->level = levels - 1;
	ret->behind = 0;
	return 0;
}

static u32 max_records(const struct xfs *fs, unsigned int level)
{
	return (fs->block_size - fs->head) / (level ? 12 : 8);
}

/* Read a block of the tree into fs->block, which must be of @level. */
static int read_node(const struct xfs *fs, const struct tree *tree, u32 block,
		     unsigned int level, unsigned int *ret_nr)
{
	int r;

	if (block >= tree->len)
		return -EUCLEAN;
	r = rd_fs_read(fs->volume, fs->block, fs->block_size,
		       (tree->start + block) * fs->block_size);
	if (r)
		return r;
	*ret_nr = rd_be16(fs->block + 6);
	if (rd_be32(fs->block) != fs->magic || rd_be16(fs->block + 4) != level ||
	    *ret_nr > max_records(fs, level))
		return -EUCLEAN;
	return 0;
}

/* Read the first leaf. */
static int find_leaf(const struct xfs *fs, const struct tree *tree, unsigned int *ret_nr)
{
	unsigned int level = tree->level;
	u32 block = tree->root;
	int r;

	r = read_node(fs, tree, block, level, ret_nr);
	while (!r && level) {
		if (!*ret_nr)
			return -EUCLEAN;
		block = rd_be32(fs->block + fs->head + 8 * max_records(fs, level));
		r = read_node(fs, tree, block, --level, ret_nr);
	}
	return r;
}

static int tell_leaf(const struct xfs *fs, struct tree *tree, unsigned int nr)
{
	const u8 *at = fs->block + fs->head;
	int r = 0;

	for (; nr && !r; nr--, at += 8) {
		u32 first = rd_be32(at), len = rd_be32(at + 4);

		if (first < tree->behind || first >= tree->len || !len || len > tree->len - first)
			return -EUCLEAN;
		tree->behind = first + len;
		r = rd_fs_tell(fs->volume, (tree->start + first) * fs->block_size,
			       (u64)len * fs->block_size);
	}
	return r;
}

static int tell_group(struct xfs *fs, u32 group)
{
	struct tree tree;
	unsigned int nr;
	u32 next, left;
	int r;

	r = read_group(fs, group, &tree);
	if (!r)
		r = find_leaf(fs, &tree, &nr);
	if (r)
		return r;
	/* An extent has a block, and one that is used behind it; twice that does no harm. */
	for (left = tree.len / max_records(fs, 0) * 2 + 2; left; left--) {
		next = rd_be32(fs->block + 12);
		r = tell_leaf(fs, &tree, nr);
		if (r || next == NO_BLOCK)
			return r;
		r = read_node(fs, &tree, next, 0, &nr);
		if (r || !nr)
			return r ? r : -EUCLEAN;
	}
	return -EUCLEAN;
}

int rd_xfs_free_space(struct rd_fs_volume *volume)
{
	RD_FREE u8 *block = NULL;
	struct xfs fs = { .volume = volume };
	u32 group;
	int r;

	r = read_super(&fs);
	if (r)
		return r;
	block = malloc(fs.block_size);
	if (!block)
		return -ENOMEM;
	fs.block = block;
	for (group = 0; group < fs.groups && !r; group++)
		r = tell_group(&fs, group);
	return r;
}
