// SPDX-License-Identifier: GPL-2.0
/*
 * The on-disk format: layout and superblock. The tests state what they expect a
 * second time, naively (area by area, bit by bit, byte offsets as numbers), so
 * that only a mistake made twice goes unseen.
 *
 * Also built in user space under sanitizers, see tests/unit/.
 */
#include <kunit/test.h>
#include <linux/crc32c.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "../format.h"
#include "naive.h"

#define TIB_SECTORS	(2048ULL * 1024 * 1024)
#define MAX_SECTORS	(DMR_MAX_SEGS * DMR_SEG_SECTORS)

static void crc_vector(struct kunit *test)
{
	/* The check value of the CRC catalogues, and of RFC 3720. */
	KUNIT_EXPECT_EQ(test, ~naive_crc(~0U, "123456789", 9), 0xe3069283);
	KUNIT_EXPECT_EQ(test, ~crc32c(~0U, "123456789", 9), 0xe3069283);
	KUNIT_EXPECT_EQ(test, crc32c(0, "123456789", 9),
			naive_crc(0, "123456789", 9));
	KUNIT_EXPECT_EQ(test, crc32c(5, "", 0), 5);
}

/* Layout */

static const struct geometry {
	const char *name;
	u64 sectors;
	u64 segs;
} geometries[] = {
	{ "one sector", 1, 1 },
	{ "a segment less a sector", DMR_SEG_SECTORS - 1, 1 },
	{ "a segment", DMR_SEG_SECTORS, 1 },
	{ "a segment and a sector", DMR_SEG_SECTORS + 1, 2 },
	{ "words of one block", 512ULL << 12, 512 },
	{ "words of one block and one", 513ULL << 12, 513 },
	{ "a group less a segment", 32255ULL << 12, 32255 },
	{ "a group less a sector", (32256ULL << 12) - 1, 32256 },
	{ "a group", 32256ULL << 12, 32256 },
	{ "a group and a sector", (32256ULL << 12) + 1, 32257 },
	{ "three groups and a bit", 100000ULL << 12, 100000 },
	{ "2 TiB less a segment", 2 * TIB_SECTORS - 4096, 1048575 },
	{ "2 TiB less a sector", 2 * TIB_SECTORS - 1, 1048576 },
	{ "2 TiB", 2 * TIB_SECTORS, 1048576 },
	{ "2 TiB and a sector", 2 * TIB_SECTORS + 1, 1048577 },
	{ "2 TiB and a segment", 2 * TIB_SECTORS + 4096, 1048577 },
	{ "16 TiB less a segment", 16 * TIB_SECTORS - 4096, 8388607 },
	{ "16 TiB less a sector", 16 * TIB_SECTORS - 1, 8388608 },
	{ "16 TiB", 16 * TIB_SECTORS, 8388608 },
	{ "16 TiB and a sector", 16 * TIB_SECTORS + 1, 8388609 },
	{ "16 TiB and a segment", 16 * TIB_SECTORS + 4096, 8388609 },
	{ "largest less a segment", MAX_SECTORS - 4096, 4294967295ULL },
	{ "largest less a sector", MAX_SECTORS - 1, 4294967296ULL },
	{ "largest", MAX_SECTORS, 4294967296ULL },
};

static void geometry_desc(const struct geometry *geometry, char *desc)
{
	strscpy(desc, geometry->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(geometry, geometries, geometry_desc);

static void segments_of_volume(struct kunit *test)
{
	const struct geometry *geometry = test->param_value;

	KUNIT_EXPECT_EQ(test, dmr_nr_segs(geometry->sectors), geometry->segs);
}

static void segments_beyond_largest(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, dmr_nr_segs(0), 0);
	KUNIT_EXPECT_EQ(test, dmr_nr_segs(MAX_SECTORS + 1), DMR_MAX_SEGS + 1);
	KUNIT_EXPECT_EQ(test, dmr_nr_segs(MAX_SECTORS + 4096), DMR_MAX_SEGS + 1);
	KUNIT_EXPECT_EQ(test, dmr_nr_segs(U64_MAX), 1ULL << 52);
}

/* The words and pages of one group from @seg on, which must begin at @block. */
static u64 walk_table(struct kunit *test, u64 seg, u64 here, u64 block)
{
	static const u32 probes[] = { 0, 1, 511, 512, 513, 16383, 32254, 32255 };
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (probes[i] >= here)
			break;
		KUNIT_ASSERT_EQ(test, dmr_word_block(seg + probes[i]),
				block + probes[i] / 512);
		KUNIT_ASSERT_EQ(test, dmr_page_block(seg + probes[i]),
				block + 63 + probes[i]);
	}
	KUNIT_ASSERT_EQ(test, dmr_word_block(seg + here - 1),
			block + (here - 1) / 512);
	KUNIT_ASSERT_EQ(test, dmr_page_block(seg + here - 1),
			block + 63 + here - 1);
	return block + 63 + here;
}

/* Area after area, as the drawing in format.h has it. */
static void walk_layout(struct kunit *test, u64 nr_segs, u32 flags)
{
	u64 block = 1, groups = 0, seg = 0;

	while (seg < nr_segs) {
		u64 here = nr_segs - seg < 32256 ? nr_segs - seg : 32256;

		KUNIT_ASSERT_EQ(test, dmr_bits_block(groups, 0, flags), block);
		KUNIT_ASSERT_EQ(test, dmr_bits_block(groups, 1, flags), block + 1);
		block += 2;
		if (flags & DMR_FLAG_TABLE)
			block = walk_table(test, seg, here, block);
		seg += here;
		groups++;
	}
	KUNIT_EXPECT_EQ(test, dmr_nr_groups(nr_segs), groups);
	KUNIT_EXPECT_EQ(test, dmr_meta_blocks_needed(nr_segs, flags), block + 1);
}

static void layout_with_table(struct kunit *test)
{
	const struct geometry *geometry = test->param_value;

	walk_layout(test, geometry->segs, DMR_FLAG_TABLE);
}

static void layout_without_table(struct kunit *test)
{
	const struct geometry *geometry = test->param_value;

	/* All the other flags, to see that only the one counts. */
	walk_layout(test, geometry->segs, DMR_FLAGS_ALL & ~DMR_FLAG_TABLE);
}

static void bits_block_parity(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, dmr_bits_block(0, 0, 0), 1);
	KUNIT_EXPECT_EQ(test, dmr_bits_block(0, 7, 0), 2);
	KUNIT_EXPECT_EQ(test, dmr_bits_block(0, U64_MAX, 0), 2);
	KUNIT_EXPECT_EQ(test, dmr_bits_block(1, U64_MAX - 1, 0), 3);
	KUNIT_EXPECT_EQ(test, dmr_bits_block(1, 2, DMR_FLAG_TABLE), 32322);
}

static void claim(struct kunit *test, u8 *owned, u64 nr_blocks, u64 block)
{
	KUNIT_ASSERT_LT(test, block, nr_blocks);
	KUNIT_ASSERT_EQ(test, owned[block], 0);
	owned[block] = 1;
}

/* Nothing overlaps, nothing is left over, and nothing moves when it grows. */
static void no_overlap(struct kunit *test)
{
	const u64 nr_segs = 2 * 32256 + 700;
	u64 nr_blocks = dmr_meta_blocks_needed(nr_segs, DMR_FLAG_TABLE);
	u8 *owned = kunit_kzalloc(test, nr_blocks, GFP_KERNEL);
	u64 group, seg;

	KUNIT_ASSERT_NOT_NULL(test, owned);
	claim(test, owned, nr_blocks, 0);
	claim(test, owned, nr_blocks, nr_blocks - 1);
	for (group = 0; group < dmr_nr_groups(nr_segs); group++) {
		claim(test, owned, nr_blocks,
		      dmr_bits_block(group, 4, DMR_FLAG_TABLE));
		claim(test, owned, nr_blocks,
		      dmr_bits_block(group, 5, DMR_FLAG_TABLE));
	}
	/* The last group has all its blocks of words. */
	for (seg = 0; seg < 3 * 32256; seg += 512)
		claim(test, owned, nr_blocks, dmr_word_block(seg));
	for (seg = 0; seg < nr_segs; seg++)
		claim(test, owned, nr_blocks, dmr_page_block(seg));
	KUNIT_EXPECT_FALSE(test, memchr_inv(owned, 1, nr_blocks));
}

static void words_share_blocks_by_512(struct kunit *test)
{
	u64 seg;

	for (seg = 1; seg < 32256; seg++)
		KUNIT_ASSERT_EQ(test, dmr_word_block(seg) - dmr_word_block(seg - 1),
				seg % 512 == 0);
}

/* Superblock */

static void fill_super(struct dmr_super *super)
{
	int i;

	memset(super, 0, sizeof(*super));
	for (i = 0; i < DMR_UUID_SIZE; i++) {
		super->meta_uuid[i] = 0x10 + i;
		super->volume_uuid[i] = 0x30 + i;
		super->pool_uuid[i] = 0x50 + i;
	}
	super->compat = 0x01020304;
	super->compat_ro = 0x05060708;
	super->incompat = DMR_INCOMPAT_ALL;
	super->flags = DMR_FLAG_FROZEN | DMR_FLAG_LINEAR_OK;
	super->seq = 0x1122334455667788;
	super->volume_sectors = 1000 * 4096 + 8;
	super->meta_blocks = 4099;
	super->epoch = 0x99;
	super->committed = 0x97;
	super->version_nr = 0xa1a2a3a4a5a6a7a8;
	super->lost_epoch = 0x98;
}

/* Byte offsets are the format: these numbers never change. */
static const struct field {
	const char *name;
	u16 offset;
	u16 bytes;
	u64 value;
} super_fields[] = {
	{ "version", 4, 4, 1 },
	{ "magic", 8, 8, 0x7075646564766572 },		/* revdedup */
	{ "magic, end", 16, 8, 0x1a0a0d6174656d2d },	/* -meta, CR LF SUB */
	{ "meta_uuid", 24, 8, 0x1716151413121110 },
	{ "meta_uuid, end", 32, 8, 0x1f1e1d1c1b1a1918 },
	{ "volume_uuid", 40, 8, 0x3736353433323130 },
	{ "volume_uuid, end", 48, 8, 0x3f3e3d3c3b3a3938 },
	{ "pool_uuid", 56, 8, 0x5756555453525150 },
	{ "pool_uuid, end", 64, 8, 0x5f5e5d5c5b5a5958 },
	{ "compat", 72, 4, 0x01020304 },
	{ "compat_ro", 76, 4, 0x05060708 },
	{ "incompat", 80, 4, 1 },
	{ "flags", 84, 4, 5 },
	{ "seq", 88, 8, 0x1122334455667788 },
	{ "volume_sectors", 96, 8, 4096008 },
	{ "meta_blocks", 104, 8, 4099 },
	{ "epoch", 112, 8, 0x99 },
	{ "committed", 120, 8, 0x97 },
	{ "version_nr", 128, 8, 0xa1a2a3a4a5a6a7a8 },
	{ "lost_epoch", 136, 8, 0x98 },
};

static void super_offsets(struct kunit *test)
{
	struct dmr_super_disk disk;
	const u8 *bytes = (const u8 *)&disk;
	struct dmr_super super;
	int i;

	memset(&disk, 0xee, sizeof(disk));
	fill_super(&super);
	super.incompat = DMR_INCOMPAT_PACK;
	dmr_super_pack(&super, 0, &disk);
	for (i = 0; i < ARRAY_SIZE(super_fields); i++)
		KUNIT_EXPECT_EQ_MSG(test, super_fields[i].value,
				    get_le(bytes + super_fields[i].offset,
					   super_fields[i].bytes),
				    "%s", super_fields[i].name);
	KUNIT_EXPECT_FALSE(test, memchr_inv(bytes + 144, 0, 368));
	KUNIT_EXPECT_EQ(test, get_le(bytes, 4),
			naive_block_csum(~0U, 0, bytes, 512));

	dmr_super_pack(&super, 4098, &disk);
	KUNIT_EXPECT_EQ(test, get_le(bytes, 4),
			naive_block_csum(~0U, 4098, bytes, 512));
}

static void expect_same_super(struct kunit *test, const struct dmr_super *got,
			      const struct dmr_super *wanted)
{
	KUNIT_EXPECT_FALSE(test, memcmp(got->meta_uuid, wanted->meta_uuid, 16));
	KUNIT_EXPECT_FALSE(test, memcmp(got->volume_uuid, wanted->volume_uuid, 16));
	KUNIT_EXPECT_FALSE(test, memcmp(got->pool_uuid, wanted->pool_uuid, 16));
	KUNIT_EXPECT_EQ(test, got->compat, wanted->compat);
	KUNIT_EXPECT_EQ(test, got->compat_ro, wanted->compat_ro);
	KUNIT_EXPECT_EQ(test, got->incompat, wanted->incompat);
	KUNIT_EXPECT_EQ(test, got->flags, wanted->flags);
	KUNIT_EXPECT_EQ(test, got->seq, wanted->seq);
	KUNIT_EXPECT_EQ(test, got->volume_sectors, wanted->volume_sectors);
	KUNIT_EXPECT_EQ(test, got->meta_blocks, wanted->meta_blocks);
	KUNIT_EXPECT_EQ(test, got->epoch, wanted->epoch);
	KUNIT_EXPECT_EQ(test, got->committed, wanted->committed);
	KUNIT_EXPECT_EQ(test, got->version_nr, wanted->version_nr);
	KUNIT_EXPECT_EQ(test, got->lost_epoch, wanted->lost_epoch);
}

static void super_round_trip(struct kunit *test)
{
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;

	fill_super(&super);
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), 0);
	expect_same_super(test, &got, &super);

	memset(&got, 0, sizeof(got));
	dmr_super_pack(&super, 4098, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 4098, &got, &why), 0);
	expect_same_super(test, &got, &super);
	KUNIT_EXPECT_NULL(test, why);
}

/* Each geometry, in the smallest device that holds it, and in one too small. */
static void super_geometry(struct kunit *test)
{
	const struct geometry *geometry = test->param_value;
	u32 flags = DMR_FLAG_TABLE | DMR_FLAG_LINEAR_OK;
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;

	fill_super(&super);
	super.flags = flags;
	super.volume_sectors = geometry->sectors;
	super.meta_blocks = dmr_meta_blocks_needed(geometry->segs, flags);
	dmr_super_pack(&super, super.meta_blocks - 1, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, super.meta_blocks - 1,
					       &got, &why), 0);
	expect_same_super(test, &got, &super);

	super.meta_blocks--;
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -EBADMSG);
}

static int flipped_super_error(unsigned int bit)
{
	unsigned int byte = bit / 8;
	bool is_magic = byte >= 8 && byte < 24;

	return is_magic ? -ENODATA : -EBADMSG;
}

static void super_bit_flips(struct kunit *test)
{
	static const u64 places[] = { 0, 4098 };
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why;
	unsigned int bit, i;

	fill_super(&super);
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		dmr_super_pack(&super, places[i], &disk);
		for (bit = 0; bit < 8 * sizeof(disk); bit++) {
			why = NULL;
			flip(&disk, bit);
			KUNIT_ASSERT_EQ_MSG(test,
					    dmr_super_unpack(&disk, places[i],
							     &got, &why),
					    flipped_super_error(bit),
					    "bit %u", bit);
			KUNIT_ASSERT_NOT_NULL(test, why);
			flip(&disk, bit);
		}
	}
}

static void super_in_wrong_place(struct kunit *test)
{
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;

	fill_super(&super);
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 4098, &got, &why), -EBADMSG);
	KUNIT_EXPECT_STREQ(test, why, "the superblock is damaged (checksum)");
	dmr_super_pack(&super, 4098, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -EBADMSG);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 4097, &got, &why), -EBADMSG);

	/* Made for this block, but its own size says another one. */
	dmr_super_pack(&super, 4097, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 4097, &got, &why), -EBADMSG);
	KUNIT_EXPECT_STREQ(test, why,
			   "the superblock is damaged (values that contradict each other)");
}

#define WHY_ZERO	"the superblock is all zeros"
#define WHY_FOREIGN	"not a revdedup metadata device (no magic), and not zeroed for one"
#define WHY_VERSION	"the metadata's format version is not supported"
#define WHY_CSUM	"the superblock is damaged (checksum)"
#define WHY_INCOMPAT	"the metadata uses a feature that is not supported (incompat)"
#define WHY_SANE	"the superblock is damaged (values that contradict each other)"

/* One number put at a byte offset of a good superblock, the checksum made good. */
static const struct damage {
	const char *name;
	u16 offset;
	u16 bytes;
	u64 value;
	int r;
	const char *why;
} damages[] = {
	{ "none", 72, 4, 0, 0, NULL },
	{ "version 0", 4, 4, 0, -EOPNOTSUPP, WHY_VERSION },
	{ "version 2", 4, 4, 2, -EOPNOTSUPP, WHY_VERSION },
	{ "version largest", 4, 4, U32_MAX, -EOPNOTSUPP, WHY_VERSION },
	{ "magic in capitals", 8, 1, 'R', -ENODATA, WHY_FOREIGN },
	{ "magic cut", 23, 1, 0, -ENODATA, WHY_FOREIGN },
	{ "compat unknown", 72, 4, U32_MAX, 0, NULL },
	{ "compat_ro unknown", 76, 4, U32_MAX, 0, NULL },
	{ "incompat known", 80, 4, DMR_INCOMPAT_ALL, 0, NULL },
	{ "incompat next", 80, 4, 2, -EOPNOTSUPP, WHY_INCOMPAT },
	{ "incompat next and PACK", 80, 4, 3, -EOPNOTSUPP, WHY_INCOMPAT },
	{ "incompat last", 80, 4, 1U << 31, -EOPNOTSUPP, WHY_INCOMPAT },
	{ "flags unknown", 84, 4, 1U << 7 | 4, -EBADMSG, WHY_SANE },
	{ "flags last", 84, 4, 1U << 31 | 4, -EBADMSG, WHY_SANE },
	{ "flags linear", 84, 4, DMR_FLAG_LINEAR_OK, 0, NULL },
	{ "flags table", 84, 4, DMR_FLAG_TABLE, 0, NULL },
	{ "flags of neither", 84, 4, 0, -EBADMSG, WHY_SANE },
	{ "seq 0", 88, 8, 0, -EBADMSG, WHY_SANE },
	{ "seq largest", 88, 8, DMR_MAX_SEQ - 1, 0, NULL },
	{ "seq without a next", 88, 8, DMR_MAX_SEQ, -EBADMSG, WHY_SANE },
	{ "seq largest number", 88, 8, U64_MAX, -EBADMSG, WHY_SANE },
	{ "no sectors", 96, 8, 0, -EBADMSG, WHY_SANE },
	{ "one sector", 96, 8, 1, 0, NULL },
	{ "most sectors of the device", 96, 8, 2048ULL * 32256 * 4096, 0, NULL },
	{ "a sector more", 96, 8, 2048ULL * 32256 * 4096 + 1, -EBADMSG, WHY_SANE },
	{ "sectors over the largest", 96, 8, MAX_SECTORS + 1, -EBADMSG, WHY_SANE },
	{ "sectors largest number", 96, 8, U64_MAX, -EBADMSG, WHY_SANE },
	{ "no blocks", 104, 8, 0, -EBADMSG, WHY_SANE },
	{ "a block too few", 104, 8, 3, -EBADMSG, WHY_SANE },
	{ "just enough blocks", 104, 8, 4, 0, NULL },
	{ "blocks largest number", 104, 8, U64_MAX, 0, NULL },
	{ "epoch of the commit, frozen", 112, 8, 0x97, -EBADMSG, WHY_SANE },
	{ "epoch before the loss", 112, 8, 0x97, -EBADMSG, WHY_SANE },
	{ "epoch 0", 112, 8, 0, -EBADMSG, WHY_SANE },
	{ "epoch largest", 112, 8, U64_MAX - 1, 0, NULL },
	{ "epoch without a next", 112, 8, U64_MAX, -EBADMSG, WHY_SANE },
	{ "committed is frozen", 120, 8, 0x99, -EBADMSG, WHY_SANE },
	{ "committed to come", 120, 8, 0x9a, -EBADMSG, WHY_SANE },
	{ "committed none", 120, 8, 0, 0, NULL },
	{ "version number 0", 128, 8, 0, 0, NULL },
	{ "version number largest", 128, 8, U64_MAX, 0, NULL },
	{ "lost now", 136, 8, 0x99, 0, NULL },
	{ "lost in an epoch to come", 136, 8, 0x9a, -EBADMSG, WHY_SANE },
};

static void damage_desc(const struct damage *damage, char *desc)
{
	strscpy(desc, damage->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(damage, damages, damage_desc);

static void super_damaged(struct kunit *test)
{
	const struct damage *damage = test->param_value;
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;
	u8 *bytes = (u8 *)&disk;

	fill_super(&super);
	dmr_super_pack(&super, 0, &disk);
	put_le(bytes + damage->offset, damage->value, damage->bytes);
	put_le(bytes, naive_block_csum(~0U, 0, bytes, 512), 4);

	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), damage->r);
	KUNIT_EXPECT_STREQ(test, why ?: "", damage->why ?: "");
}

/* Contradictions that take more than one number. */
static void super_contradictions(struct kunit *test)
{
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;

	fill_super(&super);
	super.flags = DMR_FLAG_LINEAR_OK;
	super.committed = super.epoch;
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), 0);
	super.committed++;
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -EBADMSG);

	fill_super(&super);
	super.meta_blocks = U64_MAX;
	super.volume_sectors = MAX_SECTORS;
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), 0);
	super.volume_sectors++;
	dmr_super_pack(&super, 0, &disk);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -EBADMSG);
	KUNIT_EXPECT_STREQ(test, why, WHY_SANE);
}

static void super_nothing_there(struct kunit *test)
{
	struct dmr_super_disk disk;
	struct dmr_super got;
	const char *why = NULL;

	memset(&disk, 0, sizeof(disk));
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -ENODATA);
	KUNIT_EXPECT_STREQ(test, why, WHY_ZERO);

	disk.reserved[sizeof(disk.reserved) - 1] = 1;
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -ENODATA);
	KUNIT_EXPECT_STREQ(test, why, WHY_FOREIGN);

	memset(&disk, 0xff, sizeof(disk));
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -ENODATA);
	KUNIT_EXPECT_STREQ(test, why, WHY_FOREIGN);
}

/* A version with a wrong checksum is damage, not a version. */
static void super_csum_before_version(struct kunit *test)
{
	struct dmr_super_disk disk;
	struct dmr_super super, got;
	const char *why = NULL;

	fill_super(&super);
	dmr_super_pack(&super, 0, &disk);
	disk.version = cpu_to_le32(DMR_FORMAT_VERSION + 1);
	KUNIT_EXPECT_EQ(test, dmr_super_unpack(&disk, 0, &got, &why), -EBADMSG);
	KUNIT_EXPECT_STREQ(test, why, WHY_CSUM);
}

/* What is known of a copy, for the pairs below. */
enum copy { OLD, SAME, NEW, EIO_, ENODATA_, EBADMSG_, EOPNOTSUPP_, NR_COPY };

static int make_copy(enum copy copy, struct dmr_super *super)
{
	static const int errors[NR_COPY] = {
		[EIO_] = -EIO,
		[ENODATA_] = -ENODATA,
		[EBADMSG_] = -EBADMSG,
		[EOPNOTSUPP_] = -EOPNOTSUPP,
	};

	fill_super(super);
	super->seq = copy == OLD ? 10 : copy == SAME ? 11 : 12;
	super->epoch = 0x99 + copy;
	super->lost_epoch = 0;
	/* A copy that was not had must not be looked at. */
	if (errors[copy])
		memset(super, 0xff, sizeof(*super));
	return errors[copy];
}

/*
 * Which copy is the state: 'A' or 'B' unharmed, 'a' or 'b' with the other one
 * missing (lost); or the error of A ('1') or of B ('2').
 */
static const char choices[NR_COPY][NR_COPY + 1] = {
	/*          B: OLD SAME NEW, EIO ENODATA EBADMSG EOPNOTSUPP */
	[OLD]         = "ABBaaa2",
	[SAME]        = "AABaaa2",
	[NEW]         = "AAAaaa2",
	[EIO_]        = "bbb1112",
	[ENODATA_]    = "bbb1112",
	[EBADMSG_]    = "bbb1112",
	[EOPNOTSUPP_] = "1111111",
};

static void choose_pair(struct kunit *test, enum copy ca, enum copy cb)
{
	char choice = choices[ca][cb];
	struct dmr_super a, b, got;
	int ra = make_copy(ca, &a), rb = make_copy(cb, &b);
	struct dmr_super *wanted = choice == 'A' || choice == 'a' ? &a : &b;
	int r = dmr_super_choose(&a, ra, &b, rb, &got);

	if (choice == '1' || choice == '2') {
		KUNIT_EXPECT_EQ_MSG(test, r, choice == '1' ? ra : rb,
				    "pair %d %d", ca, cb);
		return;
	}
	KUNIT_EXPECT_EQ_MSG(test, r, 0, "pair %d %d", ca, cb);
	if (choice == 'a' || choice == 'b') {
		wanted->flags |= DMR_FLAG_LOST;
		wanted->lost_epoch = wanted->epoch;
		wanted->seq += BIT_ULL(32);
	}
	expect_same_super(test, &got, wanted);
}

static void choose_all_pairs(struct kunit *test)
{
	int a, b;

	for (a = 0; a < NR_COPY; a++)
		for (b = 0; b < NR_COPY; b++)
			choose_pair(test, a, b);
}

/* A copy B from an earlier life of the device, however great its number. */
static void choose_other_life(struct kunit *test)
{
	struct dmr_super a, b, got;

	make_copy(OLD, &a);
	make_copy(NEW, &b);
	b.meta_uuid[15] ^= 1;
	KUNIT_EXPECT_EQ(test, dmr_super_choose(&a, 0, &b, 0, &got), 0);
	a.flags |= DMR_FLAG_LOST;
	a.lost_epoch = a.epoch;
	a.seq += BIT_ULL(32);
	expect_same_super(test, &got, &a);
}

/*
 * Copy A, the newer one, is unreadable when the device is loaded and cannot be
 * written either; what is written then to copy B alone must win over copy A
 * when that can be read again.
 */
static void choose_after_return(struct kunit *test)
{
	struct dmr_super a, b, got;

	make_copy(NEW, &a);
	make_copy(OLD, &b);
	KUNIT_EXPECT_EQ(test, dmr_super_choose(&a, -EIO, &b, 0, &got), 0);
	b = got;
	b.seq++;
	b.version_nr = 4711;
	KUNIT_EXPECT_EQ(test, dmr_super_choose(&a, 0, &b, 0, &got), 0);
	KUNIT_EXPECT_EQ(test, got.version_nr, 4711);
}

/* Where a loss is on record already, an older one does not replace a newer. */
static void choose_keeps_lost(struct kunit *test)
{
	struct dmr_super a, b, got;

	make_copy(NEW, &a);
	make_copy(OLD, &b);
	a.flags |= DMR_FLAG_LOST;
	a.lost_epoch = 3;
	KUNIT_EXPECT_EQ(test, dmr_super_choose(&a, 0, &b, 0, &got), 0);
	KUNIT_EXPECT_EQ(test, got.lost_epoch, 3);
	KUNIT_EXPECT_EQ(test, dmr_super_choose(&a, 0, &b, -EIO, &got), 0);
	KUNIT_EXPECT_EQ(test, got.lost_epoch, a.epoch);
}

static struct kunit_case format_cases[] = {
	KUNIT_CASE(crc_vector),
	KUNIT_CASE_PARAM(segments_of_volume, geometry_gen_params),
	KUNIT_CASE(segments_beyond_largest),
	KUNIT_CASE_PARAM(layout_with_table, geometry_gen_params),
	KUNIT_CASE_PARAM(layout_without_table, geometry_gen_params),
	KUNIT_CASE(bits_block_parity),
	KUNIT_CASE(no_overlap),
	KUNIT_CASE(words_share_blocks_by_512),
	KUNIT_CASE(super_offsets),
	KUNIT_CASE(super_round_trip),
	KUNIT_CASE_PARAM(super_geometry, geometry_gen_params),
	KUNIT_CASE(super_bit_flips),
	KUNIT_CASE(super_in_wrong_place),
	KUNIT_CASE_PARAM(super_damaged, damage_gen_params),
	KUNIT_CASE(super_contradictions),
	KUNIT_CASE(super_nothing_there),
	KUNIT_CASE(super_csum_before_version),
	KUNIT_CASE(choose_all_pairs),
	KUNIT_CASE(choose_other_life),
	KUNIT_CASE(choose_after_return),
	KUNIT_CASE(choose_keeps_lost),
	{}
};

static struct kunit_suite format_suite = {
	.name = "dmr_format",
	.test_cases = format_cases,
};

kunit_test_suite(format_suite);
