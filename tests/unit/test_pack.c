// SPDX-License-Identifier: GPL-2.0
/* Packs: what was packed is what is decoded, and what was damaged is seen. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pool/data/pack.h"

#define FRAME	((1ULL << 36) + 7)

static const u8 uuid[16] = "the pool's uuid.";
static u8 data[RD_SEG_SIZE], pack[RD_PACK_MAX];
static struct rd_packer *packer;

/* Text compresses; noise does not. */
static void fill(unsigned int first, unsigned int nr, bool noise)
{
	size_t i, end = (size_t)(first + nr) * RD_BLOCK_SIZE;

	for (i = (size_t)first * RD_BLOCK_SIZE; i < end; i++)
		data[i] = noise ? random() : "abcdefgh"[random() % 8];
}

static int set_up(void **state)
{
	(void)state;
	srandom(1);
	packer = rd_packer_new();
	return !packer;
}

static int tear_down(void **state)
{
	(void)state;
	rd_packer_free(packer);
	return 0;
}

static size_t make(struct dmr_pack_head *head, const struct rd_slots *slots)
{
	*head = (struct dmr_pack_head){ .frame = FRAME };
	rd_pack_set_slots(head, slots);
	memcpy(head->uuid, uuid, sizeof(uuid));
	memset(pack, 0xee, sizeof(pack));
	return rd_pack_make(packer, head, data, RD_PACK_LEVEL, pack);
}

static struct rd_slots every(unsigned int nth)
{
	struct rd_slots slots = { 0 };
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i += nth)
		rd_slots_set(&slots, i);
	return slots;
}

/* Read what is in @pack: each block is where the head says, and is what it was. */
static void check_all(size_t len, const struct rd_slots *slots)
{
	u8 blocks[RD_PACK_GROUP_SIZE];
	struct dmr_pack_head head;
	unsigned int i, group, at = RD_PACK_HEAD;

	assert_int_equal(rd_pack_read_head(&head, pack, len, uuid, FRAME), 0);
	assert_memory_equal(head.slots, slots, sizeof(*slots));
	for (group = 0; group < RD_PACK_GROUPS; group++) {
		assert_int_equal(dmr_pack_offset(&head, group), at);
		assert_int_equal(rd_pack_decode(packer, &head, group, pack + at, blocks), 0);
		at += head.groups[group].len;
		for (i = group * RD_PACK_GROUP; i < (group + 1) * RD_PACK_GROUP; i++)
			if (rd_slots_test(slots, i))
				assert_memory_equal(blocks + (size_t)rd_pack_block_at(&head, i) *
						    RD_BLOCK_SIZE,
						    data + (size_t)i * RD_BLOCK_SIZE,
						    RD_BLOCK_SIZE);
	}
	for (; at < len; at++)
		assert_int_equal(pack[at], 0);
}

static void test_round_trip(void **state)
{
	static const unsigned int nths[] = { 1, 2, 3, 15, 16, 17, 100, 500 };
	struct dmr_pack_head head;
	unsigned int i;
	size_t len;

	(void)state;
	fill(0, RD_SEG_BLOCKS, false);
	for (i = 0; i < sizeof(nths) / sizeof(*nths); i++) {
		struct rd_slots slots = every(nths[i]);

		len = make(&head, &slots);
		/* Eight letters are three bits a byte. A few blocks gain nothing by it. */
		if (rd_slots_count(&slots) > 4)
			assert_in_range(len, RD_BLOCK_SIZE, rd_slots_count(&slots) *
					RD_BLOCK_SIZE / 2 + RD_BLOCK_SIZE);
		if (len)
			check_all(len, &slots);
	}
}

/* A group that does not become smaller is as it is, in a pack that does. */
static void test_raw_groups(void **state)
{
	struct rd_slots slots = every(1);
	struct dmr_pack_head head;
	unsigned int group;
	size_t len;

	(void)state;
	fill(0, RD_SEG_BLOCKS, false);
	fill(5 * RD_PACK_GROUP, 4 * RD_PACK_GROUP, true);
	len = make(&head, &slots);
	assert_true(len);
	check_all(len, &slots);
	for (group = 0; group < RD_PACK_GROUPS; group++)
		assert_int_equal(head.groups[group].codec,
				 group >= 5 && group < 9 ? DMR_CODEC_RAW : DMR_CODEC_ZSTD);
}

static void test_noise(void **state)
{
	struct rd_slots slots = every(1), none = { 0 };
	struct dmr_pack_head head;

	(void)state;
	fill(0, RD_SEG_BLOCKS, true);
	assert_int_equal(make(&head, &slots), 0);
	assert_int_equal(make(&head, &none), 0);
	/* One group is not worth a pack. */
	fill(3 * RD_PACK_GROUP, RD_PACK_GROUP, false);
	assert_int_equal(make(&head, &slots), 0);
}

static void test_damage(void **state)
{
	struct rd_slots slots = every(1);
	u8 blocks[RD_PACK_GROUP_SIZE];
	struct dmr_pack_head head, read;
	unsigned int bit, group;
	size_t len;

	(void)state;
	fill(0, RD_SEG_BLOCKS, false);
	len = make(&head, &slots);
	for (bit = 0; bit < 8 * RD_PACK_HEAD; bit++) {
		pack[bit / 8] ^= 1 << bit % 8;
		assert_int_equal(rd_pack_read_head(&read, pack, len, uuid, FRAME), -EBADMSG);
		pack[bit / 8] ^= 1 << bit % 8;
	}
	assert_int_equal(rd_pack_read_head(&read, pack, len, uuid, FRAME + 1), -EBADMSG);
	assert_int_equal(rd_pack_read_head(&read, pack, len, data, FRAME), -EBADMSG);
	assert_int_equal(rd_pack_read_head(&read, pack, RD_PACK_HEAD - 1, uuid, FRAME), -EBADMSG);
	/* Cut off. */
	assert_int_equal(rd_pack_read_head(&read, pack, len - RD_BLOCK_SIZE, uuid, FRAME),
			 -EBADMSG);
	/* A bit of a group costs that group, and no other. */
	for (bit = 0; bit < 8 * head.groups[2].len; bit += 101) {
		u8 *at = pack + dmr_pack_offset(&head, 2) + bit / 8;

		*at ^= 1 << bit % 8;
		for (group = 1; group < 4; group++)
			assert_int_equal(rd_pack_decode(packer, &head, group, pack +
							dmr_pack_offset(&head, group),
							blocks),
					 group == 2 ? -EBADMSG : 0);
		*at ^= 1 << bit % 8;
	}
	head.groups[0].codec = 2;
	assert_int_equal(rd_pack_decode(packer, &head, 0, pack + RD_PACK_HEAD, blocks),
			 -EOPNOTSUPP);
}

/* Groups that come from elsewhere, behind what is no head. */
static size_t adopt(struct dmr_pack_head *head)
{
	memset(pack, 0xee, RD_PACK_HEAD);
	return rd_pack_adopt(head, pack);
}

static void test_adopt(void **state)
{
	static u8 found[RD_SEG_SIZE], zeros[RD_BLOCK_SIZE];
	struct rd_slots slots = every(3);
	struct dmr_pack_head head, bad;
	unsigned int i;
	size_t len;
	u32 at;

	(void)state;
	fill(0, RD_SEG_BLOCKS, false);
	fill(5 * RD_PACK_GROUP, RD_PACK_GROUP, true);
	len = make(&head, &slots);
	assert_true(len);
	for (i = 0; i < RD_PACK_GROUPS; i++)
		head.groups[i].sum = 0;
	assert_int_equal(adopt(&head), len);
	check_all(len, &slots);
	assert_int_equal(rd_pack_unpack(packer, &head, pack, found), 0);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		assert_memory_equal(found + (size_t)i * RD_BLOCK_SIZE, i % 3 ? zeros :
				    data + (size_t)i * RD_BLOCK_SIZE, RD_BLOCK_SIZE);

	/* Each is refused: a codec, lengths, a block more, what is no frame, and two frames. */
	bad = head;
	bad.groups[0].codec = 2;
	assert_int_equal(adopt(&bad), 0);
	bad = head;
	bad.groups[0].codec = DMR_CODEC_RAW;
	assert_int_equal(adopt(&bad), 0);
	bad = head;
	bad.groups[0].len--;
	assert_int_equal(adopt(&bad), 0);
	bad = head;
	bad.groups[0].len = RD_PACK_GROUP_SIZE + 1;
	assert_int_equal(adopt(&bad), 0);
	bad = head;
	bad.slots[0] |= BIT(1);
	assert_int_equal(adopt(&bad), 0);
	bad = head;
	memset(&bad.slots, 0, sizeof(bad.slots));
	assert_int_equal(adopt(&bad), 0);
	at = dmr_pack_offset(&head, 7);
	bad = head;
	pack[at] ^= 1;
	assert_int_equal(adopt(&bad), 0);
	pack[at] ^= 1;
	/* An empty frame that may be skipped, in front. */
	memmove(pack + at + 8, pack + at, sizeof(pack) - at - 8);
	memcpy(pack + at, "\x50\x2a\x4d\x18\0\0\0", 8);
	bad = head;
	bad.groups[7].len += 8;
	assert_int_equal(adopt(&bad), 0);
}

/* No more than what is worth a pack. */
static void test_adopt_large(void **state)
{
	struct rd_slots slots = every(1);
	struct dmr_pack_head head;
	unsigned int i;

	(void)state;
	memset(&head, 0, sizeof(head));
	rd_pack_set_slots(&head, &slots);
	for (i = 0; i < RD_PACK_GROUPS; i++)
		head.groups[i].len = RD_PACK_GROUP_SIZE;
	assert_int_equal(adopt(&head), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_raw_groups),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_adopt_large),
	};

	return cmocka_run_group_tests_name("pack", tests, set_up, tear_down);
}
