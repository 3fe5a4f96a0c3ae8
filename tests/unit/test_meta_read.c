// SPDX-License-Identifier: GPL-2.0
/*
 * The view that a target would have of metadata devices, good ones and evil ones. The rule
 * behind every test: right, or lost, or refused; never too little.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <linux/kernel.h>

#include "meta/check.h"
#include "meta_image.h"

/* An image with three dirty ranges in the current epoch, one in that before. */
struct fixture {
	struct image image;
	struct rd_meta_source source;
	struct rd_meta meta;
};

static void set_up_super(struct fixture *f, const struct dmr_super *super)
{
	image_init(&f->image, super);
	image_mark(&f->image, super->epoch - 1, 500, 1);
	image_mark(&f->image, super->epoch, 0, 2);
	image_mark(&f->image, super->epoch, 60, 10);
	image_mark(&f->image, super->epoch, 999, 1);
}

static void set_up(struct fixture *f, u32 more_flags)
{
	struct dmr_super super;

	image_default_super(&super);
	super.flags |= more_flags;
	if (more_flags & DMR_FLAG_FROZEN)
		super.committed--;
	if (more_flags & DMR_FLAG_LOST)
		super.lost_epoch = super.epoch;
	set_up_super(f, &super);
}

static int open_image(struct fixture *f)
{
	image_source(&f->image, &f->source);
	return rd_meta_open(&f->meta, &f->source);
}

static void tear_down(struct fixture *f)
{
	image_free(&f->image);
}

static void expect_ranges(struct fixture *f, enum rd_meta_set set,
			  const struct dmr_range *wanted)
{
	struct rd_meta_walk walk;
	struct dmr_range range;

	rd_meta_walk_init(&walk, &f->meta, set);
	for (; wanted->len; wanted++) {
		assert_true(rd_meta_walk_next(&walk, &range));
		assert_int_equal(range.first, wanted->first);
		assert_int_equal(range.len, wanted->len);
	}
	assert_false(rd_meta_walk_next(&walk, &range));
	assert_false(rd_meta_walk_next(&walk, &range));
}

#define RANGE(from, nr) { .first = (from), .len = (nr) }

static const struct dmr_range current[] = {
	RANGE(0, 2), RANGE(60, 10), RANGE(999, 1), RANGE(0, 0)
};

static const struct dmr_range frozen[] = { RANGE(500, 1), RANGE(0, 0) };
static const struct dmr_range all[] = { RANGE(0, 1000), RANGE(0, 0) };
static const struct dmr_range none[] = { RANGE(0, 0) };

static void expect_lost(struct fixture *f, char chosen)
{
	assert_int_equal(f->meta.r, 0);
	assert_int_equal(f->meta.chosen, chosen);
	assert_true(f->meta.super.flags & DMR_FLAG_LOST);
	expect_ranges(f, RD_META_CURRENT, all);
}

/* A check that only counts. */
static void ignore(struct rd_check *check, const struct rd_finding *finding)
{
	(void)check;
	assert_non_null(finding->what);
	assert_non_null(finding->effect);
}

static u64 count_findings(struct fixture *f, enum rd_severity severity)
{
	struct rd_check check = { .report = ignore };

	rd_meta_check(&f->meta, &check);
	return check.nr[severity];
}

static void good(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(f.meta.chosen, 'A');
	assert_int_equal(f.meta.nr_segs, 1000);
	assert_int_equal(f.meta.super.version_nr, 3);
	assert_false(f.meta.super.flags & DMR_FLAG_LOST);
	expect_ranges(&f, RD_META_CURRENT, current);
	expect_ranges(&f, RD_META_FROZEN, none);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	assert_int_equal(count_findings(&f, RD_NOTE), 0);
	tear_down(&f);
}

static void with_frozen_set(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, DMR_FLAG_FROZEN);
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, current);
	expect_ranges(&f, RD_META_FROZEN, frozen);
	tear_down(&f);
}

static void with_lost_mark(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, DMR_FLAG_LOST | DMR_FLAG_FROZEN);
	assert_int_equal(open_image(&f), 0);
	expect_lost(&f, 'A');
	expect_ranges(&f, RD_META_FROZEN, frozen);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	assert_int_equal(count_findings(&f, RD_NOTE), 2);
	tear_down(&f);
}

/* The block of a new epoch still has the bits of two epochs ago. */
static void after_checkpoint(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	super = f.image.super;
	super.epoch++;
	super.seq++;
	super.flags |= DMR_FLAG_FROZEN;
	image_put_super(&f.image, 0, &super);
	image_put_super(&f.image, 15, &super);
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, none);
	expect_ranges(&f, RD_META_FROZEN, current);
	tear_down(&f);
}

/* Power cut between the two copies, in either order of age. */
static void copies_of_two_ages(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	super = f.image.super;
	super.seq += 5;
	super.version_nr = 4;
	image_put_super(&f.image, 0, &super);
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(f.meta.chosen, 'A');
	assert_int_equal(f.meta.super.version_nr, 4);
	assert_int_equal(count_findings(&f, RD_NOTE), 1);

	image_put_super(&f.image, 0, &f.image.super);
	image_put_super(&f.image, 15, &super);
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(f.meta.chosen, 'B');
	assert_int_equal(f.meta.super.version_nr, 4);
	expect_ranges(&f, RD_META_CURRENT, current);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	tear_down(&f);
}

static void copy_from_another_life(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	super = f.image.super;
	super.meta_uuid[3] ^= 0x40;
	super.seq = 1000000;
	super.epoch = 500;
	super.committed = 500;
	image_put_super(&f.image, 15, &super);
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(f.meta.super.epoch, 7);
	assert_true(f.meta.other_life);
	expect_lost(&f, 'A');
	assert_int_equal(count_findings(&f, RD_DAMAGE), 1);
	tear_down(&f);
}

static void swapped_copies(void **state)
{
	u8 block[DMR_BLOCK_SIZE];
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	memcpy(block, image_block(&f.image, 0), sizeof(block));
	memcpy(image_block(&f.image, 0), image_block(&f.image, 15), sizeof(block));
	memcpy(image_block(&f.image, 15), block, sizeof(block));
	assert_int_equal(open_image(&f), -EBADMSG);
	assert_true(rd_meta_is_damaged(&f.meta));
	assert_int_equal(count_findings(&f, RD_DAMAGE), 3);
	tear_down(&f);
}

/* Every bit of a copy, and some of what follows it in its block. */
static void flip_each_bit(u64 block)
{
	char other = block ? 'A' : 'B';
	struct fixture f;
	unsigned int bit;
	u8 *bytes;

	set_up(&f, 0);
	bytes = image_block(&f.image, block);
	for (bit = 0; bit < 8 * DMR_BLOCK_SIZE; bit++) {
		unsigned int byte = bit / 8;

		if (byte > sizeof(struct dmr_super_disk) && bit % 99)
			continue;

		bytes[byte] ^= 1 << bit % 8;
		open_image(&f);
		if (byte >= sizeof(struct dmr_super_disk)) {
			assert_int_equal(f.meta.r, 0);
			expect_ranges(&f, RD_META_CURRENT, current);
			assert_int_equal(count_findings(&f, RD_DAMAGE), 1);
		} else if (!block && byte >= 8 && byte < 24) {
			/* Without a magic in front it may be anybody's. */
			assert_int_equal(f.meta.r, -EMEDIUMTYPE);
			assert_true(rd_meta_is_damaged(&f.meta));
		} else {
			expect_lost(&f, other);
			assert_int_equal(count_findings(&f, RD_DAMAGE), 1);
		}
		bytes[byte] ^= 1 << bit % 8;
	}
	tear_down(&f);
}

static void flips_in_copy_a(void **state)
{
	(void)state;
	flip_each_bit(0);
}

static void flips_in_copy_b(void **state)
{
	(void)state;
	flip_each_bit(15);
}

static void damaged_bitmap(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, DMR_FLAG_FROZEN);
	((u8 *)image_block(&f.image, dmr_bits_block(0, 7, 0)))[100] ^= 1;
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, all);
	expect_ranges(&f, RD_META_FROZEN, frozen);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 1);

	((u8 *)image_block(&f.image, dmr_bits_block(0, 6, 0)))[4000] ^= 1;
	expect_ranges(&f, RD_META_FROZEN, all);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 2);
	tear_down(&f);
}

/* A superblock that is behind its bitmaps: both copies were put back, say. */
static void bitmap_of_coming_epoch(void **state)
{
	struct rd_meta_bits bits;
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	image_mark(&f.image, 9, 3, 1);
	image_mark(&f.image, 8, 4, 1);
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, all);
	rd_meta_read_bits(&f.meta, 0, 7, &bits);
	assert_int_equal(bits.state, RD_BITS_COMING);
	assert_int_equal(bits.epoch, 9);
	/* That of epoch 8 stands where the next checkpoint wants none. */
	assert_int_equal(count_findings(&f, RD_DAMAGE), 2);
	tear_down(&f);
}

static void each_block_unreadable(void **state)
{
	struct fixture f;
	u64 block;

	(void)state;
	for (block = 0; block < 16; block++) {
		set_up(&f, DMR_FLAG_FROZEN);
		f.image.unreadable = block;
		assert_int_equal(open_image(&f), 0);
		if (block == 0 || block == 15)
			expect_lost(&f, block ? 'A' : 'B');
		else
			expect_ranges(&f, RD_META_CURRENT,
				      block == 2 ? all : current);
		expect_ranges(&f, RD_META_FROZEN, block == 1 ? all : frozen);
		assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
		assert_int_equal(count_findings(&f, RD_UNREADABLE),
				 block <= 2 || block == 15);
		tear_down(&f);
	}
}

static void unreadable_and_damaged(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	f.image.unreadable = 0;
	((u8 *)image_block(&f.image, 15))[200] ^= 1;
	assert_int_equal(open_image(&f), -EIO);
	f.image.unreadable = 15;
	((u8 *)image_block(&f.image, 0))[200] ^= 1;
	assert_int_equal(open_image(&f), -EBADMSG);
	tear_down(&f);
}

static void truncated_anywhere(void **state)
{
	struct fixture f;
	u64 nr;

	(void)state;
	set_up(&f, 0);
	for (nr = 0; nr < 16; nr++) {
		f.image.nr_blocks = nr;
		assert_int_equal(open_image(&f), -ENOSPC);
		assert_int_equal(rd_meta_is_damaged(&f.meta), nr > 0);
	}
	/* Copy A damaged as well: nobody knows where copy B was. */
	((u8 *)image_block(&f.image, 0))[200] ^= 1;
	for (nr = 4; nr < 16; nr++) {
		f.image.nr_blocks = nr;
		assert_int_equal(open_image(&f), -EBADMSG);
	}
	tear_down(&f);
}

static void grown_device(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	image_default_super(&super);
	super.meta_blocks = 10;
	set_up_super(&f, &super);
	f.image.blocks = realloc(f.image.blocks, 12 * DMR_BLOCK_SIZE);
	assert_non_null(f.image.blocks);
	memset(image_block(&f.image, 10), 0, 2 * DMR_BLOCK_SIZE);
	f.image.nr_blocks = 12;
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(f.meta.b.block, 9);
	expect_ranges(&f, RD_META_CURRENT, current);
	assert_int_equal(count_findings(&f, RD_NOTE), 1);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	tear_down(&f);
}

static void zero_and_foreign(void **state)
{
	u8 copy_b[DMR_BLOCK_SIZE];
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	memcpy(copy_b, image_block(&f.image, 15), sizeof(copy_b));

	/* Only the first block: somebody meant to start afresh, perhaps. */
	memset(image_block(&f.image, 0), 0, DMR_BLOCK_SIZE);
	assert_int_equal(open_image(&f), -EEXIST);
	assert_true(rd_meta_is_damaged(&f.meta));

	memset(image_block(&f.image, 15), 0, DMR_BLOCK_SIZE);
	assert_int_equal(open_image(&f), -ENODATA);
	assert_false(rd_meta_is_damaged(&f.meta));

	/* Anything else at the end is not ours to keep. */
	memset(image_block(&f.image, 15), 'x', DMR_BLOCK_SIZE);
	assert_int_equal(open_image(&f), -ENODATA);
	f.image.unreadable = 15;
	assert_int_equal(open_image(&f), -EEXIST);
	f.image.unreadable = U64_MAX;

	/* One byte anywhere in the first block, and it is not empty. */
	((u8 *)image_block(&f.image, 0))[DMR_BLOCK_SIZE - 1] = 1;
	assert_int_equal(open_image(&f), -EMEDIUMTYPE);
	assert_false(rd_meta_is_damaged(&f.meta));

	memcpy(image_block(&f.image, 15), copy_b, sizeof(copy_b));
	assert_int_equal(open_image(&f), -EMEDIUMTYPE);
	assert_true(rd_meta_is_damaged(&f.meta));
	tear_down(&f);
}

static void empty_but_unreadable(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, 0);
	memset(f.image.blocks, 0, 16 * DMR_BLOCK_SIZE);
	/* The error of a bad sector has the number of "all zeros". */
	f.image.unreadable = 0;
	assert_int_equal(open_image(&f), -EIO);
	tear_down(&f);
}

static void refused_though_known(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	image_default_super(&super);
	super.meta_blocks = 2000;
	super.flags = DMR_FLAG_TABLE;
	set_up_super(&f, &super);
	assert_int_equal(open_image(&f), 0);
	assert_null(f.meta.refused);
	expect_ranges(&f, RD_META_CURRENT, current);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	assert_int_equal(count_findings(&f, RD_NOTE), 0);
	tear_down(&f);

	super.flags = DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK | DMR_FLAG_INCOMPLETE;
	set_up_super(&f, &super);
	assert_int_equal(open_image(&f), 0);
	assert_non_null(f.meta.refused);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 1);
	tear_down(&f);
}

/* A volume whose last segment has 3 blocks and 4 sectors of one. */
static void table_is_checked(void **state)
{
	struct rd_check check = { .report = ignore };
	struct dmr_super super;
	struct fixture f;
	u64 block;

	(void)state;
	image_default_super(&super);
	super.volume_sectors = 999 * DMR_SEG_SECTORS + 28;
	super.meta_blocks = 2000;
	super.flags = DMR_FLAG_TABLE;
	set_up_super(&f, &super);
	image_put_word(&f.image, 5, (struct dmr_entry){ DMR_POOL, 512 });
	image_put_word(&f.image, 6, (struct dmr_entry){ DMR_ZERO, 0 });
	image_put_word(&f.image, 999, (struct dmr_entry){ DMR_PAGE, 0 });
	for (block = 999 * 512; block < 999 * 512 + 4; block++)
		image_put_entry(&f.image, block, (struct dmr_entry){ DMR_POOL, 7 });
	assert_int_equal(open_image(&f), 0);
	rd_meta_check(&f.meta, &check);
	assert_int_equal(check.nr[RD_DAMAGE], 0);
	assert_int_equal(check.nr_words, 1000);
	assert_int_equal(check.nr_pages, 1);

	/* Entries beyond the end, which are all zeros here, ought to be BASE. */
	assert_int_equal(check.nr[RD_NOTE], 1);
	for (block = 999 * 512 + 4; block < 1000 * 512; block++)
		image_put_entry(&f.image, block, (struct dmr_entry){ DMR_BASE, 0 });
	/* And then the word's hints are those of another page. */
	assert_int_equal(count_findings(&f, RD_NOTE), 1);
	image_put_word(&f.image, 999, (struct dmr_entry){
		DMR_PAGE, dmr_page_hints(508, 0) });
	assert_int_equal(count_findings(&f, RD_NOTE), 0);
	image_put_word(&f.image, 999, (struct dmr_entry){
		DMR_PAGE, dmr_page_hints(508, 1) });
	assert_int_equal(count_findings(&f, RD_NOTE), 1);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);

	/* An entry of all zeros, which the last block does have. */
	memset((u8 *)image_block(&f.image, dmr_page_block(999)) + 24, 0, 8);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 1);
	f.image.unreadable = dmr_page_block(999);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	assert_int_equal(count_findings(&f, RD_UNREADABLE), 1);

	/* A word that runs over the last pool block that an entry can name. */
	image_put_word(&f.image, 7, (struct dmr_entry){
		DMR_POOL, (1ULL << DMR_ENTRY_BLOCK_BITS) - 512 });
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	image_put_word(&f.image, 7, (struct dmr_entry){
		DMR_POOL, (1ULL << DMR_ENTRY_BLOCK_BITS) - 511 });
	assert_int_equal(count_findings(&f, RD_DAMAGE), 1);

	/* With LINEAR_OK the same words mean nothing. */
	super.flags |= DMR_FLAG_LINEAR_OK;
	image_put_super(&f.image, 0, &super);
	image_put_super(&f.image, 1999, &super);
	f.image.unreadable = U64_MAX;
	assert_int_equal(open_image(&f), 0);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	tear_down(&f);
}

static void first_epoch(void **state)
{
	struct dmr_super super;
	struct fixture f;

	(void)state;
	image_default_super(&super);
	super.epoch = 0;
	super.committed = 0;
	image_init(&f.image, &super);
	image_mark(&f.image, 0, 0, 1000);
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, all);
	assert_int_equal(count_findings(&f, RD_DAMAGE), 0);
	tear_down(&f);
}

/* Sizes around the ends of words and groups, against a plain array of bools. */
static void walk_against_array(u64 nr_segs)
{
	bool *dirty = calloc(nr_segs, sizeof(*dirty));
	struct dmr_range range = RANGE(0, 0);
	struct rd_meta_walk walk;
	struct dmr_super super;
	u64 seg, run, end = 0;
	struct fixture f;

	assert_non_null(dirty);
	image_default_super(&super);
	super.volume_sectors = nr_segs * DMR_SEG_SECTORS;
	super.meta_blocks = 40;
	image_init(&f.image, &super);
	for (seg = 0; seg < nr_segs; seg += run) {
		run = 1 + rand() % (rand() % 8 ? 70 : 20000);
		if (run > nr_segs - seg)
			run = nr_segs - seg;
		if (rand() % 2)
			continue;
		image_mark(&f.image, 7, seg, run);
		memset(dirty + seg, true, run);
	}
	/* Bits beyond the end mean nothing. */
	image_mark(&f.image, 7, nr_segs, nr_segs % DMR_GROUP_SEGS ? 1 : 0);

	assert_int_equal(open_image(&f), 0);
	rd_meta_walk_init(&walk, &f.meta, RD_META_CURRENT);
	while (rd_meta_walk_next(&walk, &range)) {
		for (seg = end; seg < range.first; seg++)
			assert_false(dirty[seg]);
		end = range.first + range.len;
		assert_true(end <= nr_segs);
		for (seg = range.first; seg < end; seg++)
			assert_true(dirty[seg]);
		/* As long as it can be. */
		assert_true(end == nr_segs || !dirty[end]);
	}
	for (seg = end; seg < nr_segs; seg++)
		assert_false(dirty[seg]);
	free(dirty);
	tear_down(&f);
}

static void bits_beyond_the_end(void **state)
{
	static const struct dmr_range whole[] = { RANGE(0, 999), RANGE(0, 0) };
	struct dmr_super super;
	struct rd_meta_bits bits;
	struct fixture f;

	(void)state;
	image_default_super(&super);
	super.volume_sectors = 999 * DMR_SEG_SECTORS;
	image_init(&f.image, &super);
	image_mark(&f.image, 7, 0, 2000);
	assert_int_equal(open_image(&f), 0);
	expect_ranges(&f, RD_META_CURRENT, whole);
	rd_meta_read_bits(&f.meta, 0, 7, &bits);
	assert_int_equal(bits.nr_dirty, 999);
	tear_down(&f);
}

static void walk_sizes(void **state)
{
	static const u64 sizes[] = {
		1, 2, 63, 64, 65, 127, 128, 129, 1000, 32255, 32256, 32257,
		32319, 32320, 64512, 64513, 100000,
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		walk_against_array(sizes[i]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),
		cmocka_unit_test(with_frozen_set),
		cmocka_unit_test(with_lost_mark),
		cmocka_unit_test(after_checkpoint),
		cmocka_unit_test(copies_of_two_ages),
		cmocka_unit_test(copy_from_another_life),
		cmocka_unit_test(swapped_copies),
		cmocka_unit_test(flips_in_copy_a),
		cmocka_unit_test(flips_in_copy_b),
		cmocka_unit_test(damaged_bitmap),
		cmocka_unit_test(bitmap_of_coming_epoch),
		cmocka_unit_test(each_block_unreadable),
		cmocka_unit_test(unreadable_and_damaged),
		cmocka_unit_test(truncated_anywhere),
		cmocka_unit_test(grown_device),
		cmocka_unit_test(zero_and_foreign),
		cmocka_unit_test(empty_but_unreadable),
		cmocka_unit_test(refused_though_known),
		cmocka_unit_test(table_is_checked),
		cmocka_unit_test(first_epoch),
		cmocka_unit_test(bits_beyond_the_end),
		cmocka_unit_test(walk_sizes),
	};

	return cmocka_run_group_tests_name("meta_read", tests, NULL, NULL);
}
