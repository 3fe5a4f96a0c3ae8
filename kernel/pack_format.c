// SPDX-License-Identifier: GPL-2.0
/*
 * Heads of packs, packed and checked. Pure; also built in user space. See pack_format.h.
 */
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "pack_format.h"

#define MAGIC		"RDPACK1"
#define LEN_BITS	24
#define LEN_MAX		(BIT(LEN_BITS) - 1)

static_assert(sizeof(struct dmr_pack_disk) == DMR_PACK_HEAD);
static_assert(sizeof(MAGIC) == 8);

static __le32 head_crc(const struct dmr_pack_disk *disk)
{
	static const u8 none[sizeof(disk->crc)];
	u32 crc = crc32c(~0U, disk->magic, sizeof(disk->magic));

	crc = crc32c(crc, none, sizeof(none));
	return cpu_to_le32(~crc32c(crc, disk->zeros,
				   sizeof(*disk) - offsetof(struct dmr_pack_disk, zeros)));
}

void dmr_pack_head_pack(const struct dmr_pack_head *head, struct dmr_pack_disk *disk)
{
	unsigned int i;

	memset(disk, 0, sizeof(*disk));
	memcpy(disk->magic, MAGIC, sizeof(disk->magic));
	memcpy(disk->uuid, head->uuid, sizeof(disk->uuid));
	disk->frame = cpu_to_le64(head->frame);
	for (i = 0; i < DMR_SEG_BLOCKS / 64; i++)
		disk->slots[i] = cpu_to_le64(head->slots[i]);
	for (i = 0; i < DMR_PACK_GROUPS; i++) {
		u64 sum = head->groups[i].sum;

		disk->groups[i].len = cpu_to_le32(head->groups[i].len |
						  (u32)head->groups[i].codec << LEN_BITS);
		disk->groups[i].sum[0] = cpu_to_le32((u32)sum);
		disk->groups[i].sum[1] = cpu_to_le32((u32)(sum >> 32));
	}
	disk->crc = head_crc(disk);
}

static u16 slots_of(const struct dmr_pack_head *head, unsigned int nr)
{
	unsigned int first = nr * DMR_PACK_GROUP_BLOCKS;

	return head->slots[first / 64] >> first % 64;
}

bool dmr_pack_is_sane(const struct dmr_pack_head *head, u64 len)
{
	u64 end = DMR_PACK_HEAD;
	unsigned int i;

	for (i = 0; i < DMR_PACK_GROUPS; i++) {
		u32 all = hweight16(slots_of(head, i)) * DMR_BLOCK_SIZE;
		u32 has = head->groups[i].len;

		if (has > all || !has != !all)
			return false;
		if (head->groups[i].codec == DMR_CODEC_RAW && has != all)
			return false;
		end += has;
	}
	return end <= len;
}

int dmr_pack_head_unpack(const struct dmr_pack_disk *disk, u64 len, struct dmr_pack_head *head)
{
	unsigned int i;

	if (memcmp(disk->magic, MAGIC, sizeof(disk->magic)) || disk->crc != head_crc(disk))
		return -EBADMSG;
	memcpy(head->uuid, disk->uuid, sizeof(head->uuid));
	head->frame = le64_to_cpu(disk->frame);
	for (i = 0; i < DMR_SEG_BLOCKS / 64; i++)
		head->slots[i] = le64_to_cpu(disk->slots[i]);
	for (i = 0; i < DMR_PACK_GROUPS; i++) {
		u32 word = le32_to_cpu(disk->groups[i].len);

		head->groups[i].len = word & LEN_MAX;
		head->groups[i].codec = word >> LEN_BITS;
		head->groups[i].sum = le32_to_cpu(disk->groups[i].sum[0]) |
				      (u64)le32_to_cpu(disk->groups[i].sum[1]) << 32;
	}
	return dmr_pack_is_sane(head, len) ? 0 : -EBADMSG;
}

u32 dmr_pack_offset(const struct dmr_pack_head *head, unsigned int nr)
{
	u32 offset = DMR_PACK_HEAD;
	unsigned int i;

	for (i = 0; i < nr; i++)
		offset += head->groups[i].len;
	return offset;
}

void dmr_pack_group(const struct dmr_pack_head *head, unsigned int nr,
		    struct dmr_pack_group *group)
{
	group->offset = dmr_pack_offset(head, nr);
	group->len = head->groups[nr].len;
	group->sum = head->groups[nr].sum;
	group->codec = head->groups[nr].codec;
	group->slots = slots_of(head, nr);
}
