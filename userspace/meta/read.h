/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read a metadata device without the kernel, and say what a target would make
 * of it. Nothing here writes, allocates, prints or keeps a file descriptor.
 *
 * The decisions are those of kernel/super.c and kernel/meta.c; the format is
 * described in kernel/format.h.
 */
#ifndef RD_META_READ_H
#define RD_META_READ_H

#include <linux/types.h>

#include "kernel/format.h"
#include "kernel/ranges.h"

/* Where the blocks come from. */
struct rd_meta_source {
	/* Fill @buf, DMR_BLOCK_SIZE bytes, with block @block: 0 or -errno. */
	int (*read)(void *ctx, u64 block, void *buf);
	void *ctx;
	u64 nr_blocks;		/* whole blocks that the device has */
};

/*
 * Open a device or an image to read it past the page cache, where that can be.
 * Returns an fd or -errno, -ENOTBLK for what is neither. *@ret_in_use (may be
 * NULL): a block device that somebody has claimed, so what is read may move.
 */
int rd_meta_open_path(const char *path, bool *ret_in_use);

/* @source over @fd, which must stay open as long as it is used; 0 or -errno. */
int rd_meta_source_fd(struct rd_meta_source *source, int fd);

/* A copy of the superblock as the device has it. */
struct rd_meta_raw {
	bool is_known;		/* the block was read, and what follows holds */
	bool rest_is_zero;	/* what follows the superblock in its block */
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
	 * 0: the state is known, and everything below holds. Else one of the errors
	 * of dmr_super_decide(). -ENOSPC: the device is too small for any metadata, too.
	 */
	int r;
	const char *why;	/* a sentence, where r is not 0 */

	/* What a target takes for the state; its seq may leap, see format.h. */
	struct dmr_super super;
	char chosen;		/* the copy it is from, 'A' or 'B' */
	u32 seed;
	u64 nr_segs;
	u64 nr_groups;
	/* The state is known, and yet a target does not run it: why, or NULL. */
	const char *refused;
};

/* Read both superblocks and decide as a target does. Returns @meta->r. */
int rd_meta_open(struct rd_meta *meta, const struct rd_meta_source *source);

/* What to do about @meta->r, or about @meta->refused: one or two sentences. */
const char *rd_meta_advice(const struct rd_meta *meta);

enum rd_bits_state {
	RD_BITS_GOOD,		/* of the epoch that was asked for */
	RD_BITS_OLDER,		/* of an older one: nothing is dirty */
	RD_BITS_DAMAGED,	/* everything is dirty */
	RD_BITS_COMING,		/* of an epoch that has not come: the same */
	RD_BITS_UNREADABLE,	/* the same */
};

struct rd_meta_bits {
	u64 block;
	enum rd_bits_state state;
	int r;			/* of the read */
	u64 epoch;		/* as the block has it; GOOD, OLDER and COMING */
	u64 first;		/* segment */
	unsigned int nr_segs;	/* in this group */
	unsigned int nr_dirty;
	u64 bits[DMR_BITS_LONGS];	/* none beyond nr_segs */
};

/*
 * The bits of @epoch in @group, as a target takes them. Of the two epochs that
 * have a place, the current one and that before it.
 */
void rd_meta_read_bits(const struct rd_meta *meta, u64 group, u64 epoch,
		       struct rd_meta_bits *bits);

enum rd_meta_set {
	RD_META_CURRENT,
	RD_META_FROZEN,		/* empty if no checkpoint waits */
};

/* Walk over what a target would call dirty. */
struct rd_meta_walk {
	const struct rd_meta *meta;
	enum rd_meta_set set;
	u64 next;		/* segment */
	u64 loaded;		/* group in bits, U64_MAX: none */
	struct rd_meta_bits bits;
};

void rd_meta_walk_init(struct rd_meta_walk *walk, const struct rd_meta *meta,
		       enum rd_meta_set set);

/* The next range, as long as it can be: true. False at the end. */
bool rd_meta_walk_next(struct rd_meta_walk *walk, struct dmr_range *range);

#endif
