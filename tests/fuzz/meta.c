// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's metadata device, as revdedup-meta reads it: a small one that is
 * right, with a table, of which bytes are changed, and perhaps a superblock made
 * right again.
 * tests/unit/fuzz.c says what must be in the answer; here it is only to end.
 */
#include "../unit/meta_image.h"
#include "meta/check.h"
#include "meta/table_read.h"
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
		u64 at = fuzz_take(input, 3) % (image.super.meta_blocks * DMR_BLOCK_SIZE);

		image.blocks[at] = fuzz_take(input, 1);
	}
}

/* Fields of a superblock that no checksum protects any more. */
static void forge(struct fuzz_input *input)
{
	struct dmr_super super = image.super;
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

/* Each block of a small volume in one run; of a forged one, some. */
static void walk_table(const struct rd_meta *meta)
{
	struct rd_table_walk walk;
	struct rd_run run;
	u64 next = 0;

	rd_table_walk_init(&walk, meta, 0, 1 << 16);
	while (rd_table_walk_next(&walk, &run)) {
		must(run.len && run.first == next);
		must(run.state != RD_RUN_KNOWN || run.place.kind != DMR_PAGE);
		next = run.first + run.len;
	}
	must(next == walk.end);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct rd_check check = { .report = ignore };
	struct rd_meta_source source;
	struct rd_meta_walk walk;
	struct dmr_range range;
	struct rd_meta meta;
	u64 next = 0;

	memcpy(image.blocks, pristine, image.super.meta_blocks * DMR_BLOCK_SIZE);
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
		walk_table(&meta);
	}
	if (!meta.r || rd_meta_is_damaged(&meta))
		rd_meta_check(&meta, &check);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct dmr_super super;
	size_t bytes;
	u64 block;

	(void)argc;
	(void)argv;
	image_default_super(&super);
	super.volume_sectors = 4 * DMR_SEG_SECTORS - 100;
	super.meta_blocks = 71;
	super.flags = DMR_FLAG_TABLE;
	image_init(&image, &super);
	image_mark(&image, super.epoch, 1, 3);
	image_put_word(&image, 1, (struct dmr_entry){ DMR_ZERO, 0 });
	image_put_word(&image, 2, (struct dmr_entry){ DMR_POOL, 1000 });
	image_put_word(&image, 3, (struct dmr_entry){ DMR_PAGE, 100 });
	for (block = 3 * DMR_SEG_BLOCKS; block < 4 * DMR_SEG_BLOCKS; block++)
		image_put_entry(&image, block, (struct dmr_entry){ DMR_POOL, block / 3 });
	bytes = image.super.meta_blocks * DMR_BLOCK_SIZE;
	pristine = malloc(bytes);
	must(pristine);
	memcpy(pristine, image.blocks, bytes);
	fuzz_seed("\1\0\0\7", 4);
	fuzz_seed("\377\0\20\1\1\0\40\2\2", 9);
	fuzz_seed("\377\10\60\0\1\7\60\0\2", 9);
	return 0;
}
