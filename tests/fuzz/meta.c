// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's metadata device, as revdedup-meta reads it: a small one that is
 * right, of which bytes are changed, and perhaps a superblock made right again.
 * tests/unit/fuzz.c says what must be in the answer; here it is only to end.
 */
#include "../../userspace/meta_check.h"
#include "../unit/image.h"
#include "fuzz.h"

static struct image image;
static u8 *pristine;

static void ignore(struct rd_check *check, const struct rd_finding *finding)
{
	(void)check;
	must(finding->what && finding->effect);
}

static void edit(struct fuzz_input *input)
{
	while (input->len >= 4) {
		u64 at = fuzz_take(input, 3) % (image.super.meta_blocks * RDD_BLOCK_SIZE);

		image.blocks[at] = fuzz_take(input, 1);
	}
}

/* Fields of a superblock that no checksum protects any more. */
static void forge(struct fuzz_input *input)
{
	struct rdd_super super = image.super;
	u64 *fields[] = { &super.seq, &super.volume_sectors, &super.meta_blocks,
			  &super.epoch, &super.committed, &super.lost_epoch };
	unsigned int i = fuzz_take(input, 1);

	if (i < ARRAY_SIZE(fields))
		*fields[i] = fuzz_take(input, 1 + i % 8);
	else if (i < 16)
		super.flags = fuzz_take(input, 1);
	else
		return;
	image_put_super(&image, i % 2 ? 0 : image.super.meta_blocks - 1, &super);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct rd_check check = { .report = ignore };
	struct rd_meta_source source;
	struct rd_meta_walk walk;
	struct rdd_range range;
	struct rd_meta meta;
	u64 next = 0;

	memcpy(image.blocks, pristine, image.super.meta_blocks * RDD_BLOCK_SIZE);
	forge(&input);
	edit(&input);
	image_source(&image, &source);
	rd_meta_open(&meta, &source);
	must(rd_meta_advice(&meta));
	if (!meta.r) {
		rd_meta_walk_init(&walk, &meta, RD_META_CURRENT);
		while (rd_meta_walk_next(&walk, &range)) {
			must(range.len && range.first >= next);
			next = range.first + range.len;
			must(next <= meta.nr_segs);
		}
	}
	if (!meta.r || rd_meta_is_damaged(&meta))
		rd_meta_check(&meta, &check);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rdd_super super;
	size_t bytes;

	(void)argc;
	(void)argv;
	image_default_super(&super);
	image_init(&image, &super);
	image_mark(&image, super.epoch, 1, 3);
	bytes = image.super.meta_blocks * RDD_BLOCK_SIZE;
	pristine = malloc(bytes);
	must(pristine);
	memcpy(pristine, image.blocks, bytes);
	fuzz_seed("\1\0\0\7", 4);
	fuzz_seed("\377\0\20\1\1\0\40\2\2", 9);
	return 0;
}
