// SPDX-License-Identifier: GPL-2.0
/* Tables of partitions, and the free space of file systems; real ones: tests/cli/pool-trim.bats. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fs/freespace.h"
#include "disk_image.h"

#define SECTORS		16384
#define SIZE		(SECTORS * IMAGE_SECTOR)
#define MAX_RANGES	64

static u8 *image;
static u64 fails_at;		/* a read of this byte fails */
static struct rd_fs_disk disk;

static int read_image(void *ctx, void *buf, size_t len, u64 offset)
{
	(void)ctx;
	assert_true(offset <= disk.size && len <= disk.size - offset);
	if (fails_at >= offset && fails_at < offset + len)
		return -ENODEV;
	memcpy(buf, image + offset, len);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	image = calloc(1, SIZE);
	disk = (struct rd_fs_disk){ .read = read_image, .size = SIZE };
	fails_at = U64_MAX;
	return image ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(image);
	return 0;
}

/* --- partitions */

/* Fail unless these are the partitions: number, first sector, sectors; no sectors at the end. */
static void check_parts(const u32 *wanted)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int i, nr = 77;
	int r = rd_fs_partitions(&disk, parts, &nr);

	if (r)
		fail_msg("%d", r);
	for (i = 0; wanted[3 * i + 2]; i++) {
		assert_true(i < nr);
		assert_int_equal(parts[i].number, wanted[3 * i]);
		assert_int_equal(parts[i].offset, wanted[3 * i + 1] * 512ULL);
		assert_int_equal(parts[i].size, wanted[3 * i + 2] * 512ULL);
	}
	assert_int_equal(nr, i);
}

static void check_damaged(void)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int nr = 77;

	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), -EUCLEAN);
	assert_int_equal(nr, 0);
}

static const u32 all_of_it[] = { 0, 0, SECTORS, 0, 0, 0 };

static void test_no_table(void **state)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int nr;

	(void)state;
	check_parts(all_of_it);
	/* An MBR without entries, and a boot sector of FAT. */
	image_mbr(image, 0, 0, 0, 0);
	check_parts(all_of_it);
	image_mbr(image, 1, 0x83, 100, 100);
	memset(image + 446, 'x', 5);
	check_parts(all_of_it);
	/* Too small for a sector. */
	disk.size = 511;
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), 0);
	assert_int_equal(nr, 1);
	assert_int_equal(parts[0].size, 511);
	disk.size = 0;
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), 0);
	assert_int_equal(parts[0].size, 0);
}

static void test_mbr(void **state)
{
	static const u32 wanted[] = { 2, 64, 1000, 4, 2000, 500, 0, 0, 0 };
	static const u32 cut[] = { 2, 64, 1000, 4, 2000, 100, 0, 0, 0 };

	(void)state;
	image_mbr(image, 1, 0x83, 64, 1000);
	image_mbr(image, 3, 0x07, 2000, 500);
	image[446 + 16] = 0x80;
	check_parts(wanted);
	/* The disk ends in the middle of the last one, and before it. */
	disk.size = 2100 * 512;
	check_parts(cut);
	disk.size = 2000 * 512;
	check_damaged();
	/* They overlap. */
	disk.size = SIZE;
	image_mbr(image, 0, 0x83, 1063, 10);
	check_damaged();
	image_mbr(image, 0, 0x83, 1064, 10);
	image_mbr(image, 2, 0x83, 1, U32_MAX);
	check_damaged();
}

static void test_logical(void **state)
{
	static const u32 wanted[] = { 1, 64, 100, 5, 1063, 100, 6, 1263, 30, 7, 1363, 40, 0, 0, 0 };
	u8 *first = image + 1000 * 512, *second = image + 1200 * 512, *third = image + 1300 * 512;

	(void)state;
	image_mbr(image, 0, 0x83, 64, 100);
	image_mbr(image, 1, 0x0f, 1000, 5000);
	image_mbr(first, 0, 0x83, 63, 100);
	image_mbr(first, 1, 0x05, 200, 200);
	image_mbr(second, 0, 0x83, 63, 30);
	image_mbr(second, 1, 0x85, 300, 200);
	image_mbr(third, 0, 0x83, 63, 40);
	check_parts(wanted);
	/* A circle of two, of one, and of empty ones. */
	image_mbr(third, 1, 0x05, 200, 200);
	check_damaged();
	image_mbr(third, 1, 0x05, 300, 200);
	check_damaged();
	image_mbr(third, 0, 0, 0, 0);
	check_damaged();
	/* One that has no signature, and one behind the disk. */
	image_mbr(third, 1, 0x05, 400, 200);
	check_damaged();
	image_mbr(third, 1, 0x05, U32_MAX, 200);
	check_damaged();
	image_mbr(third, 1, 0, 0, 0);
	image_mbr(second, 0, 0x83, U32_MAX, 30);
	check_damaged();
}

/* A chain of more than there may be. */
static void test_many_logical(void **state)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int i, nr;

	(void)state;
	image_mbr(image, 0, 0x05, 10, 8000);
	for (i = 0; i < RD_FS_PARTS; i++) {
		image_mbr(image + (10 + 2 * i) * 512, 0, 0x83, 1, 1);
		if (i + 1 < RD_FS_PARTS)
			image_mbr(image + (10 + 2 * i) * 512, 1, 0x05, 2 * i + 2, 1);
	}
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), 0);
	assert_int_equal(nr, RD_FS_PARTS);
	assert_int_equal(parts[nr - 1].number, 5 + RD_FS_PARTS - 1);
	image_mbr(image, 1, 0x83, 9000, 10);
	check_damaged();
}

static void test_gpt(void **state)
{
	static const u32 wanted[] = { 1, 2048, 1000, 128, 5000, 1, 0, 0, 0 };
	u8 *header = image + 512;

	(void)state;
	image_gpt(image, 512, 0, 2048, 3047);
	image_gpt(image, 512, 127, 5000, 5000);
	check_parts(wanted);
	/* The copy at the end. */
	memcpy(image + SIZE - 512, header, 512);
	memset(header, 0, 512);
	check_parts(wanted);
	memset(image + SIZE - 512, 0, 512);
	check_damaged();
	/* Wrong numbers. */
	image_gpt(image, 512, 0, 2048, 3047);
	check_parts(wanted);
	put_le32(header + 80, 1025);
	check_damaged();
	put_le32(header + 80, 128);
	put_le32(header + 84, 127);
	check_damaged();
	put_le32(header + 84, 128);
	put_le32(header + 76, 0x80000000);
	check_damaged();
	put_le32(header + 76, 0);
	put_le32(header + 72, SECTORS - 1);
	check_damaged();
	put_le32(header + 72, 2);
	image_gpt(image, 512, 1, 5000, 5010);
	check_damaged();
	image_gpt(image, 512, 1, 6000, 5999);
	check_damaged();
	image_gpt(image, 512, 1, 0, U64_MAX);
	check_damaged();
	image_gpt(image, 512, 1, SECTORS, SECTORS);
	check_damaged();
}

static void test_gpt_of_4096(void **state)
{
	static const u32 wanted[] = { 3, 800, 400, 0, 0, 0 };

	(void)state;
	image_gpt(image, 4096, 2, 100, 149);
	check_parts(wanted);
}

static void test_unreadable(void **state)
{
	struct rd_fs_part parts[RD_FS_PARTS];
	unsigned int nr;

	(void)state;
	fails_at = 0;
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), -ENODEV);
	image_gpt(image, 512, 0, 2048, 3047);
	fails_at = 512;
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), -ENODEV);
	fails_at = 1024 + 300;
	assert_int_equal(rd_fs_partitions(&disk, parts, &nr), -ENODEV);
}

/* --- file systems */

/* The partition begins in the middle of one of our blocks. */
#define START	(63 * 512)

struct ranges {
	unsigned int nr;
	u64 start[MAX_RANGES], end[MAX_RANGES];
};

static int take(void *ctx, u64 offset, u64 len)
{
	struct ranges *ranges = ctx;

	assert_true(len && ranges->nr < MAX_RANGES);
	ranges->start[ranges->nr] = offset - START;
	ranges->end[ranges->nr++] = offset - START + len;
	return 0;
}

static int stop(void *ctx, u64 offset, u64 len)
{
	(void)ctx;
	(void)offset;
	(void)len;
	return -EINTR;
}

static int find(u64 size, struct rd_fs_found *found, struct ranges *ranges)
{
	const struct rd_fs_part part = { .number = 1, .offset = START, .size = size };

	ranges->nr = 0;
	return rd_fs_free_space(&disk, &part, found, take, ranges);
}

static void check_state(u64 size, enum rd_fs_state wanted, const char *kind)
{
	struct rd_fs_found found;
	struct ranges ranges;

	assert_int_equal(find(size, &found, &ranges), 0);
	assert_int_equal(found.state, wanted);
	if (kind)
		assert_string_equal(found.kind, kind);
	else
		assert_null(found.kind);
}

/* Fail unless these are the ranges: first and end, in blocks of @unit. */
static void check_ranges(u64 size, unsigned int unit, const u32 *wanted, unsigned int nr)
{
	struct rd_fs_found found;
	struct ranges ranges;
	unsigned int i;

	assert_int_equal(find(size, &found, &ranges), 0);
	assert_int_equal(found.state, RD_FS_READ);
	for (i = 0; i < nr && i < ranges.nr; i++)
		if (ranges.start[i] != wanted[2 * i] * (u64)unit ||
		    ranges.end[i] != wanted[2 * i + 1] * (u64)unit)
			fail_msg("%llu to %llu, not %u to %u", ranges.start[i] / unit,
				 ranges.end[i] / unit, wanted[2 * i], wanted[2 * i + 1]);
	assert_int_equal(ranges.nr, nr);
}

static void test_kinds(void **state)
{
	static const struct {
		u32 offset;
		const char *magic, *name;
	} kinds[] = {
		{ 0, "LUKS\xba\xbe", "LUKS" }, { 536, "LVM2 001", "LVM" },
		{ 65600, "_BHRfS_M", "btrfs" }, { 4086, "SWAPSPACE2", "swap" },
		{ 3, "NTFS    ", "NTFS" }, { 82, "FAT32   ", "FAT" },
	};
	unsigned int i;

	(void)state;
	check_state(1 << 20, RD_FS_UNKNOWN, NULL);
	check_state(0, RD_FS_UNKNOWN, NULL);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		memset(image, 0, SIZE);
		memcpy(image + START + kinds[i].offset, kinds[i].magic, strlen(kinds[i].magic));
		check_state(1 << 20, RD_FS_OTHER, kinds[i].name);
		check_state(kinds[i].offset + strlen(kinds[i].magic) - 1, RD_FS_UNKNOWN, NULL);
	}
}

#define EXT4_SIZE	(IMAGE_EXT4_BLOCKS * 1024)

static void test_ext4(void **state)
{
	/* The third group: two bitmaps, and 8 blocks of inodes, which begin at 2060. */
	static const u32 wanted[] = {
		100, 200, 1000, 1025, 1025, 1100,
		2049, 2053, 2055, 2060, 2068, 2561,
	};
	struct rd_fs_found found;
	struct ranges ranges;

	(void)state;
	image_ext4(image + START);
	check_ranges(EXT4_SIZE, 1024, wanted, 6);
	assert_int_equal(find(EXT4_SIZE, &found, &ranges), 0);
	assert_false(found.has_journal);
	put_le32(image + START + 1024 + 96, 0x206);
	assert_int_equal(find(EXT4_SIZE, &found, &ranges), 0);
	assert_true(found.has_journal);
}

/* A superblock with another number at @at. */
static void check_super(unsigned int at, u32 value, enum rd_fs_state wanted)
{
	memset(image, 0, SIZE);
	image_ext4(image + START);
	put_le32(image + START + 1024 + at, value);
	check_state(EXT4_SIZE, wanted, "ext4");
}

static void test_ext4_damaged(void **state)
{
	(void)state;
	image_ext4(image + START);
	check_state(EXT4_SIZE, RD_FS_READ, "ext4");
	/* Cut off. */
	check_state(EXT4_SIZE - 1, RD_FS_DAMAGED, "ext4");
	check_state(1500, RD_FS_DAMAGED, "ext4");
	check_super(4, 0, RD_FS_DAMAGED);
	check_super(4, U32_MAX, RD_FS_DAMAGED);
	check_super(20, 2, RD_FS_DAMAGED);
	check_super(24, 7, RD_FS_DAMAGED);
	check_super(24, U32_MAX, RD_FS_DAMAGED);
	check_super(32, 0, RD_FS_DAMAGED);
	check_super(32, 8, RD_FS_DAMAGED);
	check_super(32, 8193, RD_FS_DAMAGED);
	check_super(96, 0x80000, RD_FS_OTHER);
	check_super(96, 8, RD_FS_OTHER);
	/* 64bit, with descriptors of no size. */
	check_super(96, 0x282, RD_FS_DAMAGED);
	/* More tables of inodes than the group has blocks. */
	check_super(40, U32_MAX, RD_FS_READ);
	/* A bitmap outside. */
	image_ext4(image + START);
	put_le32(image + START + 2048, IMAGE_EXT4_BLOCKS);
	check_state(EXT4_SIZE, RD_FS_DAMAGED, "ext4");
}

#define XFS_SIZE	(IMAGE_XFS_BLOCKS * 512)

static void test_xfs(void **state)
{
	u32 wanted[84];
	unsigned int i;

	(void)state;
	for (i = 0; i < 40; i++) {
		wanted[2 * i] = 100 + 2 * i;
		wanted[2 * i + 1] = 101 + 2 * i;
	}
	memcpy(wanted + 80, (u32 []){ 500, 600, 1020, 1500 }, 16);
	image_xfs(image + START);
	check_ranges(XFS_SIZE, 512, wanted, 42);
}

/* The image with another number at @at. */
static void check_xfs(unsigned int at, u32 value, enum rd_fs_state wanted)
{
	memset(image, 0, SIZE);
	image_xfs(image + START);
	put_be32(image + START + at, value);
	check_state(XFS_SIZE, wanted, "XFS");
}

static void test_xfs_damaged(void **state)
{
	const unsigned int agf = 512, root = 12 * 512, leaf = IMAGE_XFS_LEAF * 512;
	const unsigned int second = IMAGE_XFS_LEAF_2 * 512;

	(void)state;
	image_xfs(image + START);
	check_state(XFS_SIZE - 1, RD_FS_DAMAGED, "XFS");
	check_state(100, RD_FS_DAMAGED, "XFS");
	check_xfs(4, 0, RD_FS_DAMAGED);
	check_xfs(4, 131072, RD_FS_DAMAGED);
	check_xfs(8, 1, RD_FS_DAMAGED);
	check_xfs(84, 63, RD_FS_DAMAGED);
	check_xfs(88, 0, RD_FS_DAMAGED);
	check_xfs(88, 3, RD_FS_DAMAGED);
	/* Version 3, and a feature of version 5. */
	check_xfs(100, 0xb4b30200, RD_FS_OTHER);
	memset(image, 0, SIZE);
	image_xfs(image + START);
	put_be16(image + START + 100, 0xb4b5);
	put_be32(image + START + 216, 0x8000);
	check_state(XFS_SIZE, RD_FS_OTHER, "XFS");
	check_xfs(agf, 0, RD_FS_DAMAGED);
	check_xfs(agf + 8, 1, RD_FS_DAMAGED);
	check_xfs(agf + 16, 1000, RD_FS_DAMAGED);
	check_xfs(agf + 28, 0, RD_FS_DAMAGED);
	check_xfs(agf + 28, 10, RD_FS_DAMAGED);
	check_xfs(agf + 28, 1, RD_FS_DAMAGED);
	/* A root that is its own child, has no child, or one outside. */
	check_xfs(root + 16 + 41 * 8, 12, RD_FS_DAMAGED);
	check_xfs(root + 4, 1 << 16, RD_FS_DAMAGED);
	check_xfs(root + 4, 1 << 16 | 42, RD_FS_DAMAGED);
	check_xfs(root + 16 + 41 * 8, 1000, RD_FS_DAMAGED);
	/* Circles of leaves, an empty one, extents that overlap, go back, and end outside. */
	check_xfs(leaf + 12, IMAGE_XFS_LEAF, RD_FS_DAMAGED);
	check_xfs(second + 12, IMAGE_XFS_LEAF, RD_FS_DAMAGED);
	check_xfs(second + 4, 0, RD_FS_DAMAGED);
	check_xfs(leaf + 20, 3, RD_FS_DAMAGED);
	check_xfs(second + 16, 178, RD_FS_DAMAGED);
	check_xfs(second + 20, 501, RD_FS_DAMAGED);
	check_xfs(second + 20, U32_MAX, RD_FS_DAMAGED);
	check_xfs(second + 20, 0, RD_FS_DAMAGED);
	check_xfs(second + 20, 500, RD_FS_READ);
}

static void test_errors(void **state)
{
	const struct rd_fs_part part = { .offset = START, .size = XFS_SIZE };
	struct rd_fs_found found;
	struct ranges ranges;

	(void)state;
	image_xfs(image + START);
	assert_int_equal(rd_fs_free_space(&disk, &part, &found, stop, NULL), -EINTR);
	fails_at = START + IMAGE_XFS_LEAF_2 * 512;
	assert_int_equal(find(XFS_SIZE, &found, &ranges), -ENODEV);
	fails_at = START;
	assert_int_equal(find(XFS_SIZE, &found, &ranges), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_table, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mbr, setup, teardown),
		cmocka_unit_test_setup_teardown(test_logical, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_logical, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gpt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gpt_of_4096, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ext4, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ext4_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_xfs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_xfs_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
