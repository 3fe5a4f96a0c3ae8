/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pack: up to 512 blocks of a pool, compressed. Pure; also built in user space, which
 * writes packs.
 *
 *	  0  8  magic, "RDPACK1" and a zero byte
 *	  8  4  CRC-32C of the head, which is 512 bytes, with this field zero
 *	 12  4  zeros
 *	 16 16  UUID of the pool
 *	 32  8  number of the packed frame
 *	 40 24  zeros
 *	 64 64  the slots that have a block: bit s % 64 of word s / 64
 *	128 384  for each of the 32 groups:
 *			0  4  its length in bytes, and in the highest byte how it is stored
 *			4  8  XXH64 of these bytes, with seed 0
 *	512    the groups, one behind the other
 *
 * All numbers are little endian. Group g has the blocks of slots 16 g to 16 g + 15, as far as
 * the frame has them, one behind the other: as they are (0), or as one frame of zstd (1), if
 * that is smaller by an eighth. A group without blocks has no bytes. What follows the last
 * group, up to a whole block, is zeros.
 *
 * A pack is never changed. It begins with a block of the pool, and may be moved as it is; the
 * fingerprints of its blocks are not in it.
 *
 * Groups are small, since a reader of one block has to decode all of one, and damage costs
 * all of one. Of the series that tests/bench/pool makes, packs of groups of 16 KiB would take
 * 1,072 MB, of 64 KiB 1,051, of 128 KiB 1,038 and of 2 MiB 1,008, and raw frames 2,612 (level
 * 1; level 3 of 64 KiB: 1,028).
 */
#ifndef DMR_PACK_FORMAT_H
#define DMR_PACK_FORMAT_H

#include <linux/bitops.h>
#include <linux/types.h>

#include "format.h"

#define DMR_PACK_HEAD		512U
#define DMR_PACK_GROUP_BLOCKS	16U
#define DMR_PACK_GROUP_SIZE		(DMR_PACK_GROUP_BLOCKS * DMR_BLOCK_SIZE)
#define DMR_PACK_GROUPS		(DMR_SEG_BLOCKS / DMR_PACK_GROUP_BLOCKS)

enum dmr_codec {
	DMR_CODEC_RAW,
	DMR_CODEC_ZSTD,
};

struct dmr_pack_group_disk {
	__le32 len;
	__le32 sum[2];			/* 8 bytes that are not aligned */
};

struct dmr_pack_disk {
	__u8 magic[8];
	__le32 crc;
	__u8 zeros[4];
	__u8 uuid[DMR_UUID_SIZE];
	__le64 frame;
	__u8 more_zeros[24];
	__le64 slots[DMR_SEG_BLOCKS / 64];
	struct dmr_pack_group_disk groups[DMR_PACK_GROUPS];
};

struct dmr_pack_head {
	u8 uuid[DMR_UUID_SIZE];
	u64 frame;
	u64 slots[DMR_SEG_BLOCKS / 64];
	struct {
		u32 len;
		u8 codec;		/* of enum dmr_codec, or of a later program */
		u64 sum;
	} groups[DMR_PACK_GROUPS];
};

/* A group of a pack. */
struct dmr_pack_group {
	u32 offset;			/* behind the beginning of the pack */
	u32 len;
	u64 sum;
	u16 slots;			/* that have a block: bit s % 16 */
	u8 codec;
};

void dmr_pack_head_pack(const struct dmr_pack_head *head, struct dmr_pack_disk *disk);

/*
 * Unpack the head of a pack that has @len bytes, or at most so many. Returns 0, or -EBADMSG
 * where it is damaged or none: then groups do not have the lengths that they may have, or end
 * beyond @len.
 */
int dmr_pack_head_unpack(const struct dmr_pack_disk *disk, u64 len, struct dmr_pack_head *head);

/* May the groups of @head be those of a pack of @len bytes? */
bool dmr_pack_is_sane(const struct dmr_pack_head *head, u64 len);

/* Where in the pack does group @nr begin, or, behind the last one, does the pack end? */
u32 dmr_pack_offset(const struct dmr_pack_head *head, unsigned int nr);

/* Find group @nr of the pack. */
void dmr_pack_group(const struct dmr_pack_head *head, unsigned int nr,
		    struct dmr_pack_group *group);

static inline unsigned int dmr_group_blocks(const struct dmr_pack_group *group)
{
	return hweight16(group->slots);
}

/* How many blocks of the group come before that of @slot, which is its number in the pack? */
static inline unsigned int dmr_group_block_at(const struct dmr_pack_group *group,
					      unsigned int slot)
{
	return hweight16(group->slots & (BIT(slot % DMR_PACK_GROUP_BLOCKS) - 1));
}

/* Does the group have a block for each of @nr slots from @slot on, which are its own? */
static inline bool dmr_group_has(const struct dmr_pack_group *group, unsigned int slot,
				 unsigned int nr)
{
	u32 wanted = (BIT(nr) - 1) << slot % DMR_PACK_GROUP_BLOCKS;

	return (group->slots & wanted) == wanted;
}

#endif
