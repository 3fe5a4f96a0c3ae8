// SPDX-License-Identifier: GPL-2.0
/*
 * The on-disk format: bitmap blocks and table entries. See format_kunit.c.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "../format.h"
#include "naive.h"

/* Bitmap blocks */

struct bits_test {
	u64 bits[DMR_BITS_LONGS];
	u64 got[DMR_BITS_LONGS];
	struct dmr_bits_disk disk;
};

#define BITS_SEED	0x12345678
#define BITS_BLOCK	77
#define BITS_EPOCH	0x1122334455667788

static struct bits_test *new_bits(struct kunit *test)
{
	struct bits_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	u64 x = 1;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (i = 0; i < DMR_BITS_LONGS; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		t->bits[i] = x;
	}
	memset(&t->disk, 0xee, sizeof(t->disk));
	dmr_bits_pack(BITS_SEED, BITS_BLOCK, BITS_EPOCH, t->bits, &t->disk);
	return t;
}

static void expect_all(struct kunit *test, struct bits_test *t, u8 byte)
{
	KUNIT_EXPECT_FALSE(test, memchr_inv(t->got, byte, sizeof(t->got)));
}

static void bits_offsets(struct kunit *test)
{
	struct bits_test *t = new_bits(test);
	const u8 *bytes = (const u8 *)&t->disk;
	unsigned int seg;

	KUNIT_EXPECT_EQ(test, get_le(bytes, 4),
			naive_block_csum(BITS_SEED, BITS_BLOCK, bytes, 4096));
	KUNIT_EXPECT_EQ(test, get_le(bytes + 4, 4), 0);
	KUNIT_EXPECT_EQ(test, get_le(bytes + 8, 8), BITS_EPOCH);
	KUNIT_EXPECT_FALSE(test, memchr_inv(bytes + 16, 0, 48));
	/* Segment s of the group is bit s % 8 of byte 64 + s / 8. */
	for (seg = 0; seg < DMR_GROUP_SEGS; seg++)
		KUNIT_ASSERT_EQ(test, bytes[64 + seg / 8] >> seg % 8 & 1,
				t->bits[seg / 64] >> seg % 64 & 1);
}

static void bits_round_trip(struct kunit *test)
{
	struct bits_test *t = new_bits(test);

	KUNIT_EXPECT_TRUE(test, dmr_bits_unpack(BITS_SEED, BITS_BLOCK, BITS_EPOCH,
						&t->disk, t->got));
	KUNIT_EXPECT_FALSE(test, memcmp(t->bits, t->got, sizeof(t->bits)));
}

static void bits_of_older_epoch(struct kunit *test)
{
	static const u64 later[] = { BITS_EPOCH + 1, BITS_EPOCH + 2, U64_MAX };
	struct bits_test *t = new_bits(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(later); i++) {
		memset(t->got, 0xee, sizeof(t->got));
		KUNIT_EXPECT_TRUE(test, dmr_bits_unpack(BITS_SEED, BITS_BLOCK,
							later[i], &t->disk, t->got));
		expect_all(test, t, 0);
	}
}

static void bits_of_coming_epoch(struct kunit *test)
{
	static const u64 earlier[] = { 0, 1, BITS_EPOCH - 2, BITS_EPOCH - 1 };
	struct bits_test *t = new_bits(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(earlier); i++) {
		memset(t->got, 0xee, sizeof(t->got));
		KUNIT_EXPECT_FALSE(test, dmr_bits_unpack(BITS_SEED, BITS_BLOCK,
							 earlier[i], &t->disk,
							 t->got));
		expect_all(test, t, 0xff);
	}
}

static void expect_refused(struct kunit *test, struct bits_test *t, u32 seed,
			   u64 block_nr)
{
	memset(t->got, 0, sizeof(t->got));
	KUNIT_EXPECT_FALSE(test, dmr_bits_unpack(seed, block_nr, BITS_EPOCH,
						 &t->disk, t->got));
	expect_all(test, t, 0xff);
}

static void bits_from_elsewhere(struct kunit *test)
{
	struct bits_test *t = new_bits(test);

	expect_refused(test, t, BITS_SEED, BITS_BLOCK - 1);
	expect_refused(test, t, BITS_SEED, BITS_BLOCK | 1ULL << 32);
	expect_refused(test, t, BITS_SEED, BITS_BLOCK | 1ULL << 63);
	expect_refused(test, t, BITS_SEED ^ 1, BITS_BLOCK);
	memset(&t->disk, 0, sizeof(t->disk));
	expect_refused(test, t, BITS_SEED, BITS_BLOCK);
	memset(&t->disk, 0xff, sizeof(t->disk));
	expect_refused(test, t, BITS_SEED, BITS_BLOCK);
}

static void bits_bit_flips(struct kunit *test)
{
	struct bits_test *t = new_bits(test);
	unsigned int bit;

	for (bit = 0; bit < 8 * sizeof(t->disk); bit++) {
		flip(&t->disk, bit);
		t->got[bit % DMR_BITS_LONGS] = 0;
		KUNIT_ASSERT_FALSE_MSG(test,
				       dmr_bits_unpack(BITS_SEED, BITS_BLOCK,
						       BITS_EPOCH, &t->disk,
						       t->got),
				       "bit %u", bit);
		KUNIT_ASSERT_EQ(test, t->got[bit % DMR_BITS_LONGS], U64_MAX);
		flip(&t->disk, bit);
	}
}

static void seed_is_of_uuid(struct kunit *test)
{
	u8 uuid[DMR_UUID_SIZE] = "0123456789abcdef";
	u32 seed = dmr_seed(uuid);

	KUNIT_EXPECT_EQ(test, seed, naive_crc(~0U, uuid, 16));
	uuid[15] ^= 1;
	KUNIT_EXPECT_NE(test, seed, dmr_seed(uuid));
}

static void zero_is_zero(struct kunit *test)
{
	u8 buf[64];
	int i;

	memset(buf, 0, sizeof(buf));
	for (i = 0; i < sizeof(buf); i++) {
		KUNIT_EXPECT_TRUE(test, dmr_is_zero(buf, sizeof(buf)));
		buf[i] = 0x80;
		KUNIT_EXPECT_FALSE(test, dmr_is_zero(buf, sizeof(buf)));
		KUNIT_EXPECT_TRUE(test, dmr_is_zero(buf, i));
		buf[i] = 0;
	}
	KUNIT_EXPECT_TRUE(test, dmr_is_zero(buf, 0));
}

/* Table entries */

#define MAX_POOL_BLOCK	((1ULL << DMR_ENTRY_BLOCK_BITS) - 1)

static const struct entry_case {
	const char *name;
	bool word;
	struct dmr_entry entry;
	bool valid;
	u64 body;		/* of PACK: the bits as format.h draws them */
} entry_cases[] = {
	{ "word BASE", true, { DMR_BASE, 0 }, true },
	{ "word ZERO", true, { DMR_ZERO, 0 }, true },
	{ "word POOL first", true, { DMR_POOL, 0 }, true },
	{ "word POOL last", true, { DMR_POOL, MAX_POOL_BLOCK }, true },
	{ "word PAGE", true, { DMR_PAGE, 0 }, true },
	{ "word BASE with a block", true, { DMR_BASE, 1 }, false },
	{ "word ZERO with a block", true, { DMR_ZERO, MAX_POOL_BLOCK }, false },
	{ "word PAGE with hints", true, { DMR_PAGE, 512 }, true },
	{ "word PAGE with both hints", true, { DMR_PAGE, 500 | 12 << 10 }, true },
	{ "word PAGE with too many BASE", true, { DMR_PAGE, 513 }, false },
	{ "word PAGE with too many of both", true, { DMR_PAGE, 500 | 13 << 10 }, false },
	{ "word PAGE with a block", true, { DMR_PAGE, 1 << 20 }, false },
	{ "page BASE", false, { DMR_BASE, 0 }, true },
	{ "page ZERO", false, { DMR_ZERO, 0 }, true },
	{ "page POOL first", false, { DMR_POOL, 0 }, true },
	{ "page POOL second", false, { DMR_POOL, 1 }, true },
	{ "page POOL last", false, { DMR_POOL, MAX_POOL_BLOCK }, true },
	{ "page BASE with a block", false, { DMR_BASE, 512 }, false },
	{ "page ZERO with a block", false, { DMR_ZERO, 1 }, false },
	/* It has the bits of this one. */
	{ "page PACK first", false, { DMR_PACK, 0 }, true, 0 },
	{ "page PACK slot", false, { DMR_PACK, 511 }, true, 0x7fc },
	{ "page PACK head", false, { DMR_PACK, 512 }, true, 0x800 },
	{ "page PACK last", false, { DMR_PACK, MAX_POOL_BLOCK }, true, 0xfffffffffffc },
	{ "word PACK first", true, { DMR_PACK, 0 }, true, 0x800000000000 },
	{ "word PACK head", true, { DMR_PACK, 512 }, true, 0x800000000400 },
	{ "word PACK last", true, { DMR_PACK, MAX_POOL_BLOCK - 511 }, true, 0xfffffffffc00 },
};

static void entry_desc(const struct entry_case *entry, char *desc)
{
	strscpy(desc, entry->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(entry, entry_cases, entry_desc);

static const u64 entry_indices[] = {
	0, 1, 511, 512, U32_MAX, 1ULL << 32, (1ULL << 41) - 1,
};

#define ENTRY_SEED	0xcafe0123

static void entry_round_trip(struct kunit *test)
{
	const struct entry_case *c = test->param_value;
	struct dmr_entry got;
	int i;

	for (i = 0; i < ARRAY_SIZE(entry_indices); i++) {
		u64 value = dmr_entry_pack(ENTRY_SEED, c->word, entry_indices[i],
					   c->entry);

		/* The bits as format.h draws them, and a check that is not 0. */
		KUNIT_EXPECT_EQ(test, value << 16 >> 16,
				c->entry.kind == DMR_PACK ? c->body :
				(u64)c->entry.kind | c->entry.block << 2);
		KUNIT_EXPECT_NE(test, value >> 48, 0);
		KUNIT_EXPECT_EQ(test, c->valid,
				dmr_entry_unpack(ENTRY_SEED, c->word,
						 entry_indices[i], value, &got));
		if (!c->valid)
			continue;
		KUNIT_EXPECT_EQ(test, got.kind, c->entry.kind);
		KUNIT_EXPECT_EQ(test, got.block, c->entry.block);
	}
}

static void entry_bit_flips(struct kunit *test)
{
	const struct entry_case *c = test->param_value;
	struct dmr_entry got;
	int i, bit;

	for (i = 0; i < ARRAY_SIZE(entry_indices); i++) {
		u64 value = dmr_entry_pack(ENTRY_SEED, c->word, entry_indices[i],
					   c->entry);

		for (bit = 0; bit < 64; bit++)
			KUNIT_EXPECT_FALSE_MSG(test,
					       dmr_entry_unpack(ENTRY_SEED, c->word,
								entry_indices[i],
								value ^ 1ULL << bit,
								&got),
					       "bit %d", bit);
	}
}

/* An entry that came to stand in another place, or is of another device. */
static void entry_elsewhere(struct kunit *test)
{
	const struct entry_case *c = test->param_value;
	const u64 index = 0x123456;
	u64 value = dmr_entry_pack(ENTRY_SEED, c->word, index, c->entry);
	struct dmr_entry got;
	int bit;

	KUNIT_EXPECT_FALSE(test, dmr_entry_unpack(ENTRY_SEED, !c->word, index,
						  value, &got));
	for (bit = 0; bit < 64; bit++)
		KUNIT_EXPECT_FALSE_MSG(test,
				       dmr_entry_unpack(ENTRY_SEED, c->word,
							index ^ 1ULL << bit,
							value, &got),
				       "index bit %d", bit);
	for (bit = 0; bit < 32; bit++)
		KUNIT_EXPECT_FALSE_MSG(test,
				       dmr_entry_unpack(ENTRY_SEED ^ 1U << bit,
							c->word, index, value,
							&got),
				       "seed bit %d", bit);
}

static void entry_check_is_of_everything(struct kunit *test)
{
	struct dmr_entry entry = { DMR_POOL, 0x123456789abc & MAX_POOL_BLOCK };
	u64 value = dmr_entry_pack(ENTRY_SEED, true, 42, entry);
	u8 key[24] = { 0 };
	u32 crc;

	put_le(key, value << 16 >> 16, 8);
	put_le(key + 8, 42, 8);
	put_le(key + 16, 1, 8);
	crc = naive_crc(ENTRY_SEED, key, sizeof(key));
	KUNIT_EXPECT_EQ(test, value >> 48, (crc ^ crc >> 16) & 0xffff);
}

/* A whole segment begins with slot 0, and no place has bits that mean nothing. */
static void word_pack_is_whole(struct kunit *test)
{
	static const struct dmr_entry place = { DMR_PACK, 512 * 7 };
	u64 value = dmr_entry_pack(ENTRY_SEED, true, 3, place);
	struct dmr_entry got;
	unsigned int bit;

	for (bit = 2; bit < 10; bit++) {
		u64 body = (value << 16 >> 16) | 1ULL << bit;
		u64 check, right = 0;

		/* One of them is the right check. */
		for (check = 1; check < 1 << 16; check++)
			right += dmr_entry_unpack(ENTRY_SEED, true, 3, body | check << 48, &got);
		KUNIT_EXPECT_EQ(test, right, 0);
	}
}

static void pack_runs(struct kunit *test)
{
	const struct dmr_entry place = dmr_pack_entry(7, 509), pool = { DMR_POOL, 509 };

	KUNIT_EXPECT_TRUE(test, dmr_entry_goes_on(place, 2, dmr_pack_entry(7, 511)));
	KUNIT_EXPECT_FALSE(test, dmr_entry_goes_on(place, 2, dmr_pack_entry(7, 510)));
	/* The pack behind it, if there is one, is another. */
	KUNIT_EXPECT_TRUE(test, dmr_entry_equal(dmr_entry_plus(place, 3), dmr_pack_entry(8, 0)));
	KUNIT_EXPECT_FALSE(test, dmr_entry_goes_on(place, 3, dmr_pack_entry(8, 0)));
	KUNIT_EXPECT_TRUE(test, dmr_entry_goes_on(pool, 3, dmr_entry_plus(pool, 3)));
	KUNIT_EXPECT_EQ(test, dmr_entry_pool_block(place), 7);
	KUNIT_EXPECT_EQ(test, dmr_entry_pool_block(pool), 509);
}

/* Neither all zeros nor all ones is an entry, wherever it stands. */
static void entry_all_zeros(struct kunit *test)
{
	struct dmr_entry got;
	u64 index;
	u32 seed;

	for (seed = 0; seed < 200; seed++) {
		for (index = 0; index < 2000; index++) {
			KUNIT_ASSERT_FALSE(test, dmr_entry_unpack(seed, true, index,
								  0, &got));
			KUNIT_ASSERT_FALSE(test, dmr_entry_unpack(seed, false, index,
								  0, &got));
		}
	}
}

/* Of the 65536 checks that a body could have, one is right. */
static void entry_one_check(struct kunit *test)
{
	struct dmr_entry entry = { DMR_POOL, 4711 }, got;
	u64 body = dmr_entry_pack(ENTRY_SEED, false, 9, entry) << 16 >> 16;
	unsigned int right = 0;
	u64 check;

	for (check = 0; check < 65536; check++)
		right += dmr_entry_unpack(ENTRY_SEED, false, 9,
					  body | check << 48, &got);
	KUNIT_EXPECT_EQ(test, right, 1);
}

/* Wherever a page write is torn, each entry is the old or the new one. */
static void entry_torn_page(struct kunit *test)
{
	static const struct dmr_entry old = { DMR_BASE, 0 };
	unsigned int tear, i;
	struct dmr_entry got;
	u64 value;

	for (tear = 0; tear <= 512; tear += 8) {
		for (i = 0; i < 512; i++) {
			struct dmr_entry entry = { DMR_POOL, 1000 + i };

			if (i >= tear)
				entry = old;
			value = dmr_entry_pack(ENTRY_SEED, false, i, entry);
			KUNIT_ASSERT_TRUE(test, dmr_entry_unpack(ENTRY_SEED, false,
								 i, value, &got));
			KUNIT_ASSERT_EQ(test, got.kind, i < tear ? DMR_POOL : DMR_BASE);
			KUNIT_ASSERT_EQ(test, got.block, i < tear ? 1000 + i : 0);
		}
	}
}

static struct kunit_case blocks_cases[] = {
	KUNIT_CASE(bits_offsets),
	KUNIT_CASE(bits_round_trip),
	KUNIT_CASE(bits_of_older_epoch),
	KUNIT_CASE(bits_of_coming_epoch),
	KUNIT_CASE(bits_from_elsewhere),
	KUNIT_CASE(bits_bit_flips),
	KUNIT_CASE(seed_is_of_uuid),
	KUNIT_CASE(zero_is_zero),
	KUNIT_CASE_PARAM(entry_round_trip, entry_gen_params),
	KUNIT_CASE_PARAM(entry_bit_flips, entry_gen_params),
	KUNIT_CASE_PARAM(entry_elsewhere, entry_gen_params),
	KUNIT_CASE(entry_check_is_of_everything),
	KUNIT_CASE(word_pack_is_whole),
	KUNIT_CASE(pack_runs),
	KUNIT_CASE(entry_all_zeros),
	KUNIT_CASE(entry_one_check),
	KUNIT_CASE(entry_torn_page),
	{}
};

static struct kunit_suite blocks_suite = {
	.name = "dmr_blocks",
	.test_cases = blocks_cases,
};

kunit_test_suite(blocks_suite);
