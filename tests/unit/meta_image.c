// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "meta_image.h"

void *image_block(struct image *image, u64 block)
{
	return image->blocks + (block << DMR_BLOCK_SHIFT);
}

void image_put_super(struct image *image, u64 block,
		     const struct dmr_super *super)
{
	dmr_super_pack(super, block, image_block(image, block));
}

static void put_bits(struct image *image, u64 group, u64 slot, u64 epoch,
		     const u64 *bits)
{
	u64 block = dmr_bits_block(group, slot, image->super.flags);

	dmr_bits_pack(image->seed, block, epoch, bits, image_block(image, block));
}

/* As the kernel does it: in epoch 0 the odd place has epoch 0, too. */
static void init_bits(struct image *image)
{
	static const u64 none[DMR_BITS_LONGS];
	u64 groups = dmr_nr_groups(dmr_nr_segs(image->super.volume_sectors));
	u64 epoch = image->super.epoch, group;

	for (group = 0; group < groups; group++) {
		put_bits(image, group, epoch, epoch, none);
		put_bits(image, group, epoch + 1, epoch ? epoch - 1 : 0, none);
	}
}

static void init_words(struct image *image)
{
	u64 nr_segs = dmr_nr_segs(image->super.volume_sectors), seg;

	for (seg = 0; seg < nr_segs; seg++)
		image_put_word(image, seg, (struct dmr_entry){ DMR_BASE, 0 });
}

void image_init(struct image *image, const struct dmr_super *super)
{
	image->super = *super;
	image->seed = dmr_seed(super->meta_uuid);
	image->nr_blocks = super->meta_blocks;
	image->blocks = calloc(image->nr_blocks, DMR_BLOCK_SIZE);
	image->unreadable = U64_MAX;
	if (!image->blocks)
		abort();
	image_put_super(image, 0, super);
	image_put_super(image, super->meta_blocks - 1, super);
	init_bits(image);
	if (super->flags & DMR_FLAG_TABLE)
		init_words(image);
}

void image_free(struct image *image)
{
	free(image->blocks);
}

void image_default_super(struct dmr_super *super)
{
	int i;

	memset(super, 0, sizeof(*super));
	for (i = 0; i < DMR_UUID_SIZE; i++) {
		super->meta_uuid[i] = 0x10 + i;
		super->volume_uuid[i] = 0x20 + i;
	}
	super->flags = DMR_FLAG_LINEAR_OK;
	super->seq = 42;
	super->volume_sectors = 1000 * DMR_SEG_SECTORS;
	super->meta_blocks = 16;
	super->epoch = 7;
	super->committed = 7;
	super->version_nr = 3;
}

/* As far as the group goes; returns how many. */
static u64 mark_in_group(struct image *image, u64 epoch, u64 first, u64 len)
{
	u64 group = first / DMR_GROUP_SEGS, seg = first % DMR_GROUP_SEGS;
	u64 block = dmr_bits_block(group, epoch, image->super.flags);
	u64 bits[DMR_BITS_LONGS], done;

	dmr_bits_unpack(image->seed, block, epoch, image_block(image, block),
			bits);
	for (done = 0; done < len && seg < DMR_GROUP_SEGS; done++, seg++)
		bits[seg / 64] |= 1ULL << seg % 64;
	put_bits(image, group, epoch, epoch, bits);
	return done;
}

void image_mark(struct image *image, u64 epoch, u64 first, u64 len)
{
	while (len) {
		u64 done = mark_in_group(image, epoch, first, len);

		first += done;
		len -= done;
	}
}

static void put_entry(struct image *image, u64 block, bool word, u64 index,
		      struct dmr_entry entry)
{
	__le64 *entries = image_block(image, block);

	entries[index % DMR_SEG_BLOCKS] =
		cpu_to_le64(dmr_entry_pack(image->seed, word, index, entry));
}

void image_put_word(struct image *image, u64 seg, struct dmr_entry entry)
{
	put_entry(image, dmr_word_block(seg), true, seg, entry);
}

void image_put_entry(struct image *image, u64 block, struct dmr_entry entry)
{
	put_entry(image, dmr_page_block(block / DMR_SEG_BLOCKS), false, block,
		  entry);
}

static int read_block(void *ctx, u64 block, void *buf)
{
	struct image *image = ctx;

	if (block == image->unreadable)
		return -ENODATA;
	if (block >= image->nr_blocks)
		return -EIO;
	memcpy(buf, image_block(image, block), DMR_BLOCK_SIZE);
	return 0;
}

void image_source(struct image *image, struct rd_meta_source *source)
{
	source->read = read_block;
	source->ctx = image;
	source->nr_blocks = image->nr_blocks;
}
