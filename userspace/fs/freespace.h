/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The free space of the file systems on a disk, read-only.
 *
 *	partitions.c	the table: MBR, with logical partitions, in sectors of 512 bytes; GPT, in
 *			sectors of 512 or 4096; or none, and the disk is one file system
 *	freespace.c	which file system a partition has
 *	ext4.c		ext2, ext3, ext4: the bitmaps of blocks
 *	xfs.c		XFS: the tree of free extents of each allocation group
 *
 * A guest has written every byte of the disk, by accident or with intent. So each number is
 * checked before it is used; a place outside of the partition is damage; memory is some blocks of
 * the file system, of 64 KiB at most; nothing calls itself; and how much is read is bounded by the
 * size of the partition, since bitmaps and trees have a least density. What is told can be wrong,
 * but is in the partition.
 *
 * Journals are not replayed: what is free is what the disk says. It differs from what the guest
 * knows by what it had not written back.
 *
 * Written by hand and not over libext2fs, which could read through a callback as well, because
 * that library allocates by numbers of the superblock, has structures for all of a file system
 * where this needs a bit for each block, and is of no use for XFS. libblkid needs a file.
 */
#ifndef RD_FREESPACE_H
#define RD_FREESPACE_H

#include <stdbool.h>

#include "base/units.h"

struct rd_fs_disk {
	/* Read @len bytes at @offset, which end within @size: 0 or -errno. */
	int (*read)(void *ctx, void *buf, size_t len, u64 offset);
	void *ctx;
	u64 size;
};

struct rd_fs_part {
	unsigned int number;	/* as in the name of its device; 0: all of the disk */
	u64 offset, size;	/* in bytes; within the disk */
};

/* A disk with more is one whose table is damaged. */
#define RD_FS_PARTS	128

/*
 * List the partitions of @disk, which do not overlap; one, with number 0, where there is no table.
 * -EUCLEAN: the table is damaged; or what read() returned.
 */
int rd_fs_partitions(const struct rd_fs_disk *disk, struct rd_fs_part parts[RD_FS_PARTS],
		     unsigned int *ret_nr);

enum rd_fs_state {
	RD_FS_READ,		/* what is free was told */
	RD_FS_OTHER,		/* its kind, or one of its features, is not looked into */
	RD_FS_UNKNOWN,		/* nothing that is known begins there */
	RD_FS_DAMAGED,		/* numbers that cannot be, or a place outside of the partition */
};

struct rd_fs_found {
	enum rd_fs_state state;
	const char *kind;	/* "ext4", "LVM"; NULL: none that is known */
	bool has_journal;	/* of ext4: the journal has what the rest has not yet */
};

/* Take a range of bytes of the disk that is free. Not 0: enough. */
typedef int rd_fs_free_fn(void *ctx, u64 offset, u64 len);

/*
 * Find what is on @part, and call @take with each range of it that is free, in ascending order
 * and without overlap. Where the state is not RD_FS_READ, forget what was told. Returns what read()
 * or @take returned if it was not 0.
 */
int rd_fs_free_space(const struct rd_fs_disk *disk, const struct rd_fs_part *part,
		     struct rd_fs_found *ret, rd_fs_free_fn *take, void *ctx);

#endif
