// SPDX-License-Identifier: GPL-2.0
/*
 * A pack: as it is; with the sums of its head and groups made right, so that what is wrong is what
 * zstd is given; and as one that comes from another pool.
 */
#include <xxhash.h>

#include "pool/data/pack.h"
#include "fuzz.h"

static const u8 uuid[16];

static void check_one(struct rd_packer *packer, const u8 *data, size_t len)
{
	struct dmr_pack_head head;
	unsigned int group, i;

	if (rd_pack_read_head(&head, data, len, uuid, 9))
		return;
	for (group = 0; group < RD_PACK_GROUPS; group++) {
		size_t all = (size_t)rd_pack_group_blocks(&head, group) * RD_BLOCK_SIZE;
		u32 at = dmr_pack_offset(&head, group);
		/* So long that a byte too many is seen, before and behind. */
		u8 *blocks = malloc(all + !all);

		must(blocks && at >= RD_PACK_HEAD && at + head.groups[group].len <= len);
		rd_pack_decode(packer, &head, group, data + at, blocks);
		free(blocks);
		for (i = group * RD_PACK_GROUP; i < (group + 1) * RD_PACK_GROUP; i++)
			must(!rd_pack_has(&head, i) ||
			     rd_pack_block_at(&head, i) < all / RD_BLOCK_SIZE);
	}
}

static void make_right(u8 *data, size_t len)
{
	struct dmr_pack_disk disk;
	struct dmr_pack_head head;
	unsigned int i;
	size_t at = sizeof(disk);

	memcpy(&disk, data, sizeof(disk));
	memset(&head, 0, sizeof(head));
	head.frame = 9;
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		head.slots[i] = le64_to_cpu(disk.slots[i]);
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		u32 word = le32_to_cpu(disk.groups[i].len);

		head.groups[i].len = word & 0xffffff;
		head.groups[i].codec = word >> 24;
		if (head.groups[i].len > len - at)
			break;
		head.groups[i].sum = XXH64(data + at, head.groups[i].len, 0);
		at += head.groups[i].len;
	}
	dmr_pack_head_pack(&head, &disk);
	memcpy(data, &disk, sizeof(disk));
}

/* What is adopted is a pack, and its groups are what they were. */
static void adopt(struct rd_packer *packer, u8 *data, size_t size)
{
	static u8 pack[RD_PACK_MAX], segment[RD_SEG_SIZE];
	struct dmr_pack_head head;
	u32 groups, len;

	if (rd_pack_read_head(&head, data, size, uuid, 9))
		return;
	groups = dmr_pack_offset(&head, RD_PACK_GROUPS) - RD_PACK_HEAD;
	memcpy(pack + RD_PACK_HEAD, data + RD_PACK_HEAD, groups);
	len = rd_pack_adopt(&head, pack);
	if (!len)
		return;
	must(len % RD_BLOCK_SIZE == 0 && len <= RD_PACK_MAX);
	must(!rd_pack_read_head(&head, pack, len, uuid, 9));
	must(!memcmp(pack + RD_PACK_HEAD, data + RD_PACK_HEAD, groups));
	rd_pack_unpack(packer, &head, pack, segment);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct rd_packer *packer;
	u8 *copy = malloc(size + !size);

	if (!packer)
		packer = rd_packer_new();
	must(packer && copy);
	memcpy(copy, data, size);
	check_one(packer, copy, size);
	if (size >= RD_PACK_HEAD) {
		make_right(copy, size);
		check_one(packer, copy, size);
		adopt(packer, copy, size);
	}
	free(copy);
	return 0;
}

/* Packs of a few blocks, some of which are noise. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static u8 data[RD_SEG_SIZE], pack[RD_PACK_MAX];
	struct rd_packer *packer = rd_packer_new();
	unsigned int nr, i;
	size_t len;

	(void)argc;
	(void)argv;
	must(packer);
	srandom(1);
	for (nr = 8; nr <= 32; nr += 8) {
		struct dmr_pack_head head = { .frame = 9 };

		for (i = 0; i < nr; i++)
			head.slots[i * 3 / 64] |= BIT_ULL(i * 3 % 64);
		for (i = 0; i < sizeof(data); i++)
			data[i] = i / RD_BLOCK_SIZE % 5 == 3 ? random() : i % 7;
		len = rd_pack_make(packer, &head, data, RD_PACK_LEVEL, pack);
		must(len);
		fuzz_seed(pack, len);
	}
	rd_packer_free(packer);
	return 0;
}
