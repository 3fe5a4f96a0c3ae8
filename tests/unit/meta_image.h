/* SPDX-License-Identifier: GPL-2.0 */
/* Metadata devices in memory, for tests: made with format.c, then spoilt. */
#ifndef DMR_TEST_IMAGE_H
#define DMR_TEST_IMAGE_H

#include "meta/read.h"

struct image {
	struct dmr_super super;	/* as image_init() was given it */
	u32 seed;
	u64 nr_blocks;		/* may be made smaller */
	u8 *blocks;
	u64 unreadable;		/* this block gives -ENODATA; U64_MAX: none */
};

/*
 * A device of super->meta_blocks: both copies, bitmaps of the current epoch and
 * of the one before without a dirty segment, and with a table all words BASE.
 * Exits where there is no memory.
 */
void image_init(struct image *image, const struct dmr_super *super);
void image_free(struct image *image);

/* What most tests begin with: one group, epoch 7, version 3, no frozen set. */
void image_default_super(struct dmr_super *super);

void *image_block(struct image *image, u64 block);

/* Write a superblock, sane or not, into @block. */
void image_put_super(struct image *image, u64 block,
		     const struct dmr_super *super);

/* Make segments dirty in @epoch, whose bitmap block becomes one of @epoch. */
void image_mark(struct image *image, u64 epoch, u64 first, u64 len);

void image_put_word(struct image *image, u64 seg, struct dmr_entry entry);
/* @block of the volume; the page must be named by a word to mean something. */
void image_put_entry(struct image *image, u64 block, struct dmr_entry entry);

void image_source(struct image *image, struct rd_meta_source *source);

#endif
