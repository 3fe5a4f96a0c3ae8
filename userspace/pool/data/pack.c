// SPDX-License-Identifier: GPL-2.0
/* Packs by libzstd. */
#include <errno.h>
#include <linux/crc32c.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <zstd.h>

#include "pack.h"

#define MAGIC		"RDPACK1"
#define LEN_BITS	24

struct group_disk {
	__le32 len;
	__le32 sum[2];		/* 8 bytes that are not aligned */
};

struct head_disk {
	u8 magic[8];
	__le32 crc;
	u8 zeros[4];
	u8 uuid[16];
	__le64 frame;
	u8 more_zeros[24];
	__le64 slots[RD_SEG_BLOCKS / 64];
	struct group_disk groups[RD_PACK_GROUPS];
};

_Static_assert(sizeof(struct head_disk) == RD_PACK_HEAD, "head of a pack");
_Static_assert(sizeof(MAGIC) == 8, "magic");

struct rd_packer {
	ZSTD_CCtx *compressor;
	ZSTD_DCtx *decoder;
	u8 blocks[RD_PACK_GROUP_SIZE];		/* of a group that is compressed, or decoded */
};

struct rd_packer *rd_packer_new(void)
{
	struct rd_packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->compressor = ZSTD_createCCtx();
	packer->decoder = ZSTD_createDCtx();
	if (packer->compressor && packer->decoder)
		return packer;
	rd_packer_free(packer);
	return NULL;
}

void rd_packer_free(struct rd_packer *packer)
{
	if (!packer)
		return;
	ZSTD_freeCCtx(packer->compressor);
	ZSTD_freeDCtx(packer->decoder);
	free(packer);
}

/* --- heads */

static u32 head_crc(const struct head_disk *disk)
{
	struct head_disk copy = *disk;

	copy.crc = 0;
	return ~crc32c(~0U, &copy, sizeof(copy));
}

static void write_head(const struct rd_pack_head *head, void *to)
{
	struct head_disk disk = { .frame = cpu_to_le64(head->frame) };
	unsigned int i;

	memcpy(disk.magic, MAGIC, sizeof(disk.magic));
	memcpy(disk.uuid, head->uuid, sizeof(disk.uuid));
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		disk.slots[i] = cpu_to_le64(head->slots.bits[i]);
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		disk.groups[i].len = cpu_to_le32(head->groups[i].len |
						 (u32)head->groups[i].codec << LEN_BITS);
		disk.groups[i].sum[0] = cpu_to_le32((u32)head->groups[i].sum);
		disk.groups[i].sum[1] = cpu_to_le32((u32)(head->groups[i].sum >> 32));
	}
	disk.crc = cpu_to_le32(head_crc(&disk));
	memcpy(to, &disk, sizeof(disk));
}

/* Lengths that a group may have, and groups that end within the pack. */
static bool are_groups_good(const struct rd_pack_head *head, size_t len)
{
	size_t end = RD_PACK_HEAD;
	unsigned int i;

	for (i = 0; i < RD_PACK_GROUPS; i++) {
		size_t all = (size_t)rd_pack_group_blocks(head, i) * RD_BLOCK_SIZE;

		if (head->groups[i].len > all || !head->groups[i].len != !all)
			return false;
		if (head->groups[i].codec == RD_PACK_RAW && head->groups[i].len != all)
			return false;
		end += head->groups[i].len;
	}
	return end <= len;
}

int rd_pack_read_head(struct rd_pack_head *head, const void *pack, size_t len,
		      const u8 uuid[16], u64 frame)
{
	struct head_disk disk;
	unsigned int i;

	if (len < sizeof(disk))
		return -EBADMSG;
	memcpy(&disk, pack, sizeof(disk));
	if (memcmp(disk.magic, MAGIC, sizeof(disk.magic)) ||
	    le32_to_cpu(disk.crc) != head_crc(&disk) ||
	    memcmp(disk.uuid, uuid, sizeof(disk.uuid)) || le64_to_cpu(disk.frame) != frame)
		return -EBADMSG;
	memcpy(head->uuid, uuid, sizeof(head->uuid));
	head->frame = frame;
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		head->slots.bits[i] = le64_to_cpu(disk.slots[i]);
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		u32 word = le32_to_cpu(disk.groups[i].len);

		head->groups[i].len = word & ((1U << LEN_BITS) - 1);
		head->groups[i].codec = word >> LEN_BITS;
		head->groups[i].sum = le32_to_cpu(disk.groups[i].sum[0]) |
			(u64)le32_to_cpu(disk.groups[i].sum[1]) << 32;
	}
	return are_groups_good(head, len) ? 0 : -EBADMSG;
}

/* --- what is where */

u32 rd_pack_group_offset(const struct rd_pack_head *head, unsigned int group)
{
	u32 offset = RD_PACK_HEAD;
	unsigned int i;

	for (i = 0; i < group; i++)
		offset += head->groups[i].len;
	return offset;
}

/* The slots of a group, and no others, in the lowest bits. */
static u32 slots_of(const struct rd_pack_head *head, unsigned int group)
{
	unsigned int first = group * RD_PACK_GROUP;

	return head->slots.bits[first / 64] >> first % 64 & ((1U << RD_PACK_GROUP) - 1);
}

unsigned int rd_pack_group_blocks(const struct rd_pack_head *head, unsigned int group)
{
	return __builtin_popcount(slots_of(head, group));
}

unsigned int rd_pack_block_at(const struct rd_pack_head *head, unsigned int slot)
{
	u32 before = (1U << slot % RD_PACK_GROUP) - 1;

	return __builtin_popcount(slots_of(head, slot / RD_PACK_GROUP) & before);
}

/* --- making one */

/* Copy the blocks of a group into packer->blocks. */
static size_t gather(struct rd_packer *packer, const struct rd_pack_head *head,
		     unsigned int group, const u8 *data)
{
	unsigned int slot = group * RD_PACK_GROUP, end = slot + RD_PACK_GROUP;
	size_t len = 0;

	for (; slot < end; slot++) {
		if (!rd_slots_test(&head->slots, slot))
			continue;
		memcpy(packer->blocks + len, data + (size_t)slot * RD_BLOCK_SIZE, RD_BLOCK_SIZE);
		len += RD_BLOCK_SIZE;
	}
	return len;
}

/* Compress packer->blocks to @to. Returns @len where that saves less than an eighth. */
static size_t squeeze(struct rd_packer *packer, size_t len, int level, void *to)
{
	size_t r = ZSTD_compressCCtx(packer->compressor, to, len - len / 8, packer->blocks, len,
				     level);

	return ZSTD_isError(r) ? len : r;
}

/*
 * Is there a group, of four here and there, that can be compressed? What cannot be, like films
 * and what is encrypted, mostly cannot anywhere: most of the time is spared.
 */
static bool is_worth_it(struct rd_packer *packer, const struct rd_pack_head *head,
			const u8 *data, int level, void *to)
{
	unsigned int i, group, tried = 0;

	for (i = 0; i < RD_PACK_GROUPS && tried < 4; i++) {
		size_t len;

		/* Far from each other. */
		group = (i * 9 + 3) % RD_PACK_GROUPS;
		len = gather(packer, head, group, data);
		if (!len)
			continue;
		if (squeeze(packer, len, level, to) < len)
			return true;
		tried++;
	}
	return false;
}

static size_t put_group(struct rd_packer *packer, struct rd_pack_head *head,
			unsigned int group, const u8 *data, int level, u8 *to)
{
	size_t all = gather(packer, head, group, data), len = 0;

	if (all)
		len = squeeze(packer, all, level, to);
	head->groups[group].codec = len < all ? RD_PACK_ZSTD : RD_PACK_RAW;
	if (len == all)
		memcpy(to, packer->blocks, len);
	head->groups[group].len = len;
	head->groups[group].sum = XXH64(to, len, 0);
	return len;
}

/* The longest pack that is worth it. */
static size_t most(const struct rd_pack_head *head)
{
	size_t all = (size_t)rd_slots_count(&head->slots) * RD_BLOCK_SIZE;

	return all - all / 8;
}

/* End a pack of @len bytes, whose groups are there. Returns its length, or 0. */
static size_t end_pack(const struct rd_pack_head *head, u8 *pack, size_t len)
{
	size_t end = (len + RD_BLOCK_SIZE - 1) / RD_BLOCK_SIZE * RD_BLOCK_SIZE;

	if (end > most(head))
		return 0;
	memset(pack + len, 0, end - len);
	write_head(head, pack);
	return end;
}

size_t rd_pack_make(struct rd_packer *packer, struct rd_pack_head *head, const void *data,
		    int level, void *pack)
{
	size_t len = RD_PACK_HEAD;
	u8 *to = pack;
	unsigned int i;

	if (!is_worth_it(packer, head, data, level, to))
		return 0;
	for (i = 0; i < RD_PACK_GROUPS && len <= most(head); i++)
		len += put_group(packer, head, i, data, level, to + len);
	return end_pack(head, to, len);
}

/*
 * Each group one frame of zstd, and no more: what else libzstd decodes, as of formats before or
 * with empty frames in between, another decoder may not.
 */
static bool is_one_frame(const struct rd_pack_head *head, unsigned int group, const u8 *bytes)
{
	static const u8 magic[] = { 0x28, 0xb5, 0x2f, 0xfd };
	size_t all = (size_t)rd_pack_group_blocks(head, group) * RD_BLOCK_SIZE;
	u32 len = head->groups[group].len;

	return len >= sizeof(magic) && !memcmp(bytes, magic, sizeof(magic)) &&
		ZSTD_findFrameCompressedSize(bytes, len) == len &&
		ZSTD_getFrameContentSize(bytes, len) == all;
}

size_t rd_pack_adopt(struct rd_pack_head *head, void *pack)
{
	u8 *at = (u8 *)pack + RD_PACK_HEAD;
	unsigned int i;

	if (!are_groups_good(head, most(head)))
		return 0;
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		u32 len = head->groups[i].len;

		if (head->groups[i].codec > RD_PACK_ZSTD ||
		    (head->groups[i].codec == RD_PACK_ZSTD && !is_one_frame(head, i, at)))
			return 0;
		head->groups[i].sum = XXH64(at, len, 0);
		at += len;
	}
	return end_pack(head, pack, at - (u8 *)pack);
}

void rd_pack_number(void *pack, u64 frame)
{
	struct head_disk disk;

	memcpy(&disk, pack, sizeof(disk));
	disk.frame = cpu_to_le64(frame);
	disk.crc = cpu_to_le32(head_crc(&disk));
	memcpy(pack, &disk, sizeof(disk));
}

/* --- reading one */

bool rd_pack_is_sound(const struct rd_pack_head *head, unsigned int group, const void *bytes)
{
	return XXH64(bytes, head->groups[group].len, 0) == head->groups[group].sum;
}

static int decode(struct rd_packer *packer, const struct rd_pack_head *head,
		  unsigned int group, const void *bytes, void *blocks)
{
	size_t all = (size_t)rd_pack_group_blocks(head, group) * RD_BLOCK_SIZE, r;
	size_t len = head->groups[group].len;

	switch (head->groups[group].codec) {
	case RD_PACK_RAW:
		memcpy(blocks, bytes, all);
		return 0;
	case RD_PACK_ZSTD:
		r = ZSTD_decompressDCtx(packer->decoder, blocks, all, bytes, len);
		return r == all ? 0 : -EBADMSG;
	default:
		return -EOPNOTSUPP;
	}
}

int rd_pack_decode(struct rd_packer *packer, const struct rd_pack_head *head,
		   unsigned int group, const void *bytes, void *blocks)
{
	return rd_pack_is_sound(head, group, bytes) ?
		decode(packer, head, group, bytes, blocks) : -EBADMSG;
}

static int unpack_group(struct rd_packer *packer, const struct rd_pack_head *head,
			unsigned int group, const u8 *bytes, u8 *data)
{
	unsigned int slot = group * RD_PACK_GROUP, end = slot + RD_PACK_GROUP;
	u8 *to = data + (size_t)slot * RD_BLOCK_SIZE, *from = packer->blocks;
	int r;

	if (rd_pack_group_blocks(head, group) == RD_PACK_GROUP)
		return decode(packer, head, group, bytes, to);
	r = decode(packer, head, group, bytes, from);
	for (; slot < end && !r; slot++, to += RD_BLOCK_SIZE) {
		if (!rd_slots_test(&head->slots, slot))
			continue;
		memcpy(to, from, RD_BLOCK_SIZE);
		from += RD_BLOCK_SIZE;
	}
	return r;
}

int rd_pack_unpack(struct rd_packer *packer, const struct rd_pack_head *head, const void *pack,
		   void *data)
{
	const u8 *at = (const u8 *)pack + RD_PACK_HEAD;
	unsigned int i;
	int r = 0;

	for (i = 0; i < RD_PACK_GROUPS && !r; i++) {
		r = unpack_group(packer, head, i, at, data);
		at += head->groups[i].len;
	}
	return r;
}
