// SPDX-License-Identifier: GPL-2.0
/*
 * Heads of packs: what they say, and that nothing which they say is trusted.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "naive.h"
#include "../pack_format.h"

#define ALL	(512 * 4096ULL)

/* Heads are static here: KASAN makes them too large for a stack. */

/* A pack of 512 slots, each third group without blocks, the lengths all different. */
static void fill_head(struct dmr_pack_head *head)
{
	unsigned int i;

	memset(head, 0, sizeof(*head));
	for (i = 0; i < DMR_UUID_SIZE; i++)
		head->uuid[i] = 0x10 + i;
	head->frame = 0x0102030405060708ULL;
	for (i = 0; i < DMR_PACK_GROUPS; i++) {
		if (i % 3 == 2)
			continue;
		/* A hole in each. */
		head->slots[i / 4] |= 0xfff7ULL << i % 4 * 16;
		head->groups[i].codec = DMR_CODEC_ZSTD;
		head->groups[i].len = 1000 + i;
		head->groups[i].sum = 0xf0e0d0c0b0a09080ULL + i;
	}
}

/* Put a number at a byte offset of a head, and make its checksum good. */
static void put(struct dmr_pack_disk *disk, unsigned int offset, u64 value, unsigned int bytes)
{
	put_le((u8 *)disk + offset, value, bytes);
	put_le((u8 *)disk + 8, 0, 4);
	put_le((u8 *)disk + 8, ~naive_crc(~0U, (u8 *)disk, sizeof(*disk)), 4);
}

static void head_offsets(struct kunit *test)
{
	static struct dmr_pack_head head;
	struct dmr_pack_disk disk, same;

	fill_head(&head);
	dmr_pack_head_pack(&head, &disk);
	same = disk;
	put((void *)&same, 12, 0, 4);
	KUNIT_EXPECT_EQ(test, memcmp(&same, &disk, sizeof(disk)), 0);
	KUNIT_EXPECT_EQ(test, memcmp(&disk, "RDPACK1", 8), 0);
	put(&same, 16, 0x10, 1);
	put(&same, 32, 0x0102030405060708ULL, 8);
	put(&same, 64, 0x0000fff7fff7ULL | 0xfff7ULL << 48, 8);
	put(&same, 128, 1000 | 1 << 24, 4);
	put(&same, 132, 0xf0e0d0c0b0a09080ULL, 8);
	put(&same, 128 + 31 * 12, 1031 | 1 << 24, 4);
	KUNIT_EXPECT_EQ(test, memcmp(&same, &disk, sizeof(disk)), 0);
}

static void head_round_trip(struct kunit *test)
{
	static struct dmr_pack_head head, got;
	struct dmr_pack_disk disk;
	struct dmr_pack_group group;

	fill_head(&head);
	dmr_pack_head_pack(&head, &disk);
	KUNIT_ASSERT_EQ(test, dmr_pack_head_unpack(&disk, ALL, &got), 0);
	KUNIT_EXPECT_EQ(test, memcmp(got.uuid, head.uuid, sizeof(head.uuid)), 0);
	KUNIT_EXPECT_EQ(test, got.frame, head.frame);
	dmr_pack_group(&got, 4, &group);
	KUNIT_EXPECT_EQ(test, group.offset, 512 + 1000 + 1001 + 1003);
	KUNIT_EXPECT_EQ(test, group.len, 1004);
	KUNIT_EXPECT_EQ(test, group.sum, 0xf0e0d0c0b0a09084ULL);
	KUNIT_EXPECT_EQ(test, group.codec, DMR_CODEC_ZSTD);
	KUNIT_EXPECT_EQ(test, group.slots, 0xfff7);
	KUNIT_EXPECT_EQ(test, dmr_group_blocks(&group), 15);
	KUNIT_EXPECT_EQ(test, dmr_group_block_at(&group, 64 + 2), 2);
	KUNIT_EXPECT_EQ(test, dmr_group_block_at(&group, 64 + 4), 3);
	KUNIT_EXPECT_EQ(test, dmr_group_block_at(&group, 64 + 15), 14);
	KUNIT_EXPECT_TRUE(test, dmr_group_has(&group, 64, 3));
	KUNIT_EXPECT_FALSE(test, dmr_group_has(&group, 64, 4));
	KUNIT_EXPECT_FALSE(test, dmr_group_has(&group, 64 + 3, 1));
	KUNIT_EXPECT_TRUE(test, dmr_group_has(&group, 64 + 4, 12));
	KUNIT_EXPECT_FALSE(test, dmr_group_has(&group, 64 + 4, 13));
	dmr_pack_group(&got, 5, &group);
	KUNIT_EXPECT_EQ(test, group.len, 0);
	KUNIT_EXPECT_FALSE(test, dmr_group_has(&group, 80, 1));
}

static void head_bit_flips(struct kunit *test)
{
	static struct dmr_pack_head head;
	struct dmr_pack_disk disk;
	unsigned int bit;

	fill_head(&head);
	dmr_pack_head_pack(&head, &disk);
	for (bit = 0; bit < 8 * sizeof(disk); bit++) {
		((u8 *)&disk)[bit / 8] ^= 1 << bit % 8;
		KUNIT_EXPECT_EQ_MSG(test, dmr_pack_head_unpack(&disk, ALL, &head), -EBADMSG,
				    "bit %u", bit);
		((u8 *)&disk)[bit / 8] ^= 1 << bit % 8;
	}
	KUNIT_EXPECT_EQ(test, dmr_pack_head_unpack(&disk, ALL, &head), 0);
}

/* A good checksum proves who wrote a head, not that it makes sense. */
static const struct lie {
	const char *name;
	u16 offset;
	u8 bytes;
	u64 value;
	int r;
} lies[] = {
	{ "none", 40, 4, 0, 0 },
	{ "longer than its blocks", 128, 4, 15 * 4096 + 1, -EBADMSG },
	{ "as long as its blocks", 128, 4, 15 * 4096, 0 },
	{ "zstd and as long", 128, 4, 15 * 4096 | 1 << 24, 0 },
	{ "raw and shorter", 128, 4, 15 * 4096 - 1, -EBADMSG },
	{ "blocks and no bytes", 128, 4, 1 << 24, -EBADMSG },
	{ "bytes and no blocks", 128 + 2 * 12, 4, 1 | 1 << 24, -EBADMSG },
	{ "length largest", 128, 4, 0x1ffffff, -EBADMSG },
	{ "of a later program", 128, 4, 1000 | 255U << 24, 0 },
	{ "no slots", 64, 8, 0, -EBADMSG },
};

static void lie_desc(const struct lie *lie, char *desc)
{
	strscpy(desc, lie->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lie, lies, lie_desc);

static void head_lies(struct kunit *test)
{
	const struct lie *lie = test->param_value;
	static struct dmr_pack_head head;
	struct dmr_pack_disk disk;

	fill_head(&head);
	dmr_pack_head_pack(&head, &disk);
	put(&disk, lie->offset, lie->value, lie->bytes);
	KUNIT_EXPECT_EQ(test, dmr_pack_head_unpack(&disk, ALL, &head), lie->r);
}

/* The last group ends within the pack. */
static void head_ends(struct kunit *test)
{
	static struct dmr_pack_head head;
	struct dmr_pack_disk disk;
	u64 len = 512;
	unsigned int i;

	fill_head(&head);
	for (i = 0; i < DMR_PACK_GROUPS; i++)
		len += head.groups[i].len;
	dmr_pack_head_pack(&head, &disk);
	KUNIT_EXPECT_EQ(test, dmr_pack_head_unpack(&disk, len, &head), 0);
	KUNIT_EXPECT_EQ(test, dmr_pack_head_unpack(&disk, len - 1, &head), -EBADMSG);
	KUNIT_EXPECT_EQ(test, dmr_pack_head_unpack(&disk, 0, &head), -EBADMSG);
}

static struct kunit_case packs_cases[] = {
	KUNIT_CASE(head_offsets),
	KUNIT_CASE(head_round_trip),
	KUNIT_CASE(head_bit_flips),
	KUNIT_CASE_PARAM(head_lies, lie_gen_params),
	KUNIT_CASE(head_ends),
	{}
};

static struct kunit_suite packs_suite = {
	.name = "dmr_packs",
	.test_cases = packs_cases,
};

kunit_test_suite(packs_suite);
