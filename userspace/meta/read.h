/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read a metadata device without the kernel, and say what a target would do with it.
 * These functions do not write, allocate or print, and keep no file descriptor.
 *
 * The decisions are those of kernel/format.c, super.c and meta.c. kernel/format.h
 * describes the format.
 */
#ifndef RD_META_READ_H
#define RD_META_READ_H

#include <linux/types.h>

#include "kernel/format.h"
#include "kernel/ranges.h"

/* Where blocks are read from. */
struct rd_meta_source {
	/* Read block @block into @buf, DMR_BLOCK_SIZE bytes: 0 or -errno. */
	int (*read)(void *ctx, u64 block, void *buf);
	void *ctx;
	u64 nr_blocks;		/* whole blocks that the device has */
};

/*
 * Open a device or an image for reading, past the page cache if possible. Returns an fd
 * or -errno; -ENOTBLK: it is neither. *@ret_in_use (may be NULL): it is a block device
 * that is claimed, so its content may change while it is read.
 */
int rd_meta_open_path(const char *path, bool *ret_in_use);

/* Make @source read from @fd, which stays open as long as @source is used; 0 or -errno. */
int rd_meta_source_fd(struct rd_meta_source *source, int fd);

/* A copy of the superblock as the device has it. */
struct rd_meta_raw {
	bool is_known;		/* the block was read, and the fields below are valid */
	bool rest_is_zero;	/* the bytes of the block behind the superblock */
	struct dmr_super_disk disk;
};

struct rd_meta {
	const struct rd_meta_source *source;
	struct dmr_super_copy a;
	struct dmr_super_copy b;
	struct rd_meta_raw raw_a;
	struct rd_meta_raw raw_b;
	bool other_life;	/* copy B is of an earlier format of the device */

	/*
	 * 0: the state is known, and everything below is valid. Else one of the errors
	 * of dmr_super_decide(). -ENOSPC also means: too small for any metadata.
	 */
	int r;
	const char *why;	/* a sentence, where r is not 0 */

	/* The state that a target would use; its seq may leap, see format.h. */
	struct dmr_super super;
	char chosen;		/* the copy that it comes from, 'A' or 'B' */
	u32 seed;
	u64 nr_segs;
	u64 nr_groups;
	/* Why a target refuses a state that is known, or NULL. */
	const char *refused;
};

/* Read both superblocks and decide as a target does. Returns @meta->r. */
int rd_meta_open(struct rd_meta *meta, const struct rd_meta_source *source);

/* Return one or two sentences: what to do about @meta->r or @meta->refused. */
const char *rd_meta_advice(const struct rd_meta *meta);

enum rd_bits_state {
	RD_BITS_GOOD,		/* of the epoch asked for */
	RD_BITS_OLDER,		/* of an older epoch: nothing is dirty */
	RD_BITS_DAMAGED,	/* everything is dirty */
	RD_BITS_COMING,		/* of an epoch that has not begun: the same */
	RD_BITS_UNREADABLE,	/* the same */
};

struct rd_meta_bits {
	u64 block;
	enum rd_bits_state state;
	int r;			/* of the read */
	u64 epoch;		/* that the block names; GOOD, OLDER and COMING */
	u64 first;		/* segment */
	unsigned int nr_segs;	/* in this group */
	unsigned int nr_dirty;
	u64 bits[DMR_BITS_LONGS];	/* zero beyond nr_segs */
};

/*
 * Read the bits of @epoch in @group, as a target does. @epoch is one of the two epochs
 * that have a bitmap: the current one or the one before.
 */
void rd_meta_read_bits(const struct rd_meta *meta, u64 group, u64 epoch,
		       struct rd_meta_bits *bits);

enum rd_meta_set {
	RD_META_CURRENT,
	RD_META_FROZEN,		/* empty if no checkpoint is pending */
};

/* A walk over the segments that a target would call dirty. */
struct rd_meta_walk {
	const struct rd_meta *meta;
	enum rd_meta_set set;
	u64 next;		/* segment */
	u64 loaded;		/* the group that bits is of; U64_MAX: none */
	struct rd_meta_bits bits;
};

void rd_meta_walk_init(struct rd_meta_walk *walk, const struct rd_meta *meta,
		       enum rd_meta_set set);

/* Step to the next range, as long as possible. False at the end. */
bool rd_meta_walk_next(struct rd_meta_walk *walk, struct dmr_range *range);

#endif
