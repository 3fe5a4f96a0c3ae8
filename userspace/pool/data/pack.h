/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pack: the blocks of a packed frame, compressed.
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
 * A pack is never changed. It lies in slots of ordinary frames, one after the other, and may
 * be moved there as it is; its fingerprints are not in it.
 *
 * Groups are small, since a reader of one block has to decode all of one, and damage costs
 * all of one. Of the series that tests/bench/pool makes, packs of groups of 16 KiB would take
 * 1,072 MB, of 64 KiB 1,051, of 128 KiB 1,038 and of 2 MiB 1,008, and raw frames 2,612 (level
 * 1; level 3 of 64 KiB: 1,028).
 */
#ifndef RD_PACK_H
#define RD_PACK_H

#include "slots.h"

#define RD_PACK_HEAD		512
#define RD_PACK_GROUP		16U
#define RD_PACK_GROUPS		(RD_SEG_BLOCKS / RD_PACK_GROUP)
#define RD_PACK_GROUP_SIZE	(RD_PACK_GROUP * RD_BLOCK_SIZE)
/* No pack is longer: it saves an eighth of the blocks at least. */
#define RD_PACK_MAX		RD_SEG_SIZE

#define RD_PACK_LEVEL_MIN	(-5)
#define RD_PACK_LEVEL_MAX	9
#define RD_PACK_LEVEL		1

/* Where the catalog says that a pack is. */
struct rd_pack {
	u64 frame;		/* the packed frame */
	u64 place;		/* its first slot: 512 * frame + slot */
	u32 blocks;		/* that it takes */
	u32 slots;		/* that it has */
};

enum rd_pack_codec {
	RD_PACK_RAW,
	RD_PACK_ZSTD,
};

struct rd_pack_head {
	u8 uuid[16];
	u64 frame;
	struct rd_slots slots;
	struct {
		u32 len;
		u8 codec;	/* of enum rd_pack_codec, or of a later program */
		u64 sum;
	} groups[RD_PACK_GROUPS];
};

/* How new content is stored: data/area.h keeps that for a pool. */
struct rd_compression {
	u8 codec;		/* of enum rd_pack_codec */
	int8_t level;
};

static const struct rd_compression rd_compression_default = { RD_PACK_ZSTD, RD_PACK_LEVEL };

/* What compressing and decoding need, for one thread. NULL: out of memory. */
struct rd_packer;
struct rd_packer *rd_packer_new(void);
void rd_packer_free(struct rd_packer *packer);

/*
 * Pack the blocks of @data, a segment, that head->slots has, into @pack, which has RD_PACK_MAX
 * bytes; the caller has filled in all but the groups, and the number of the frame if it gives
 * that later, to rd_pack_number(). Returns the length, whole blocks. 0:
 * that saves less than an eighth, so the blocks had better be stored as they are.
 */
size_t rd_pack_make(struct rd_packer *packer, struct rd_pack_head *head, const void *data,
		    int level, void *pack);

void rd_pack_number(void *pack, u64 frame);

/*
 * The same for groups that are there already, behind the place of the head in @pack: they come
 * from another pool, and head->groups has their lengths and codecs, of which nothing is trusted.
 * 0: they are not what a pack has; what is in them was not looked at.
 */
size_t rd_pack_adopt(struct rd_pack_head *head, void *pack);

/*
 * Read a head from the beginning of a pack that should be @frame's of the pool @uuid, and has
 * @len bytes. -EBADMSG: it is damaged, or another's.
 */
int rd_pack_read_head(struct rd_pack_head *head, const void *pack, size_t len,
		      const u8 uuid[16], u64 frame);

/* Where in the pack the group begins. */
u32 rd_pack_group_offset(const struct rd_pack_head *head, unsigned int group);

/* Count the blocks of a group, or those before the one in @slot. */
unsigned int rd_pack_group_blocks(const struct rd_pack_head *head, unsigned int group);
unsigned int rd_pack_block_at(const struct rd_pack_head *head, unsigned int slot);

/* Are these its bytes? */
bool rd_pack_is_sound(const struct rd_pack_head *head, unsigned int group, const void *bytes);

/*
 * Decode the bytes of a group into its blocks, RD_PACK_GROUP_SIZE bytes at most. Nothing that
 * they say is trusted. -EBADMSG: they are damaged. -EOPNOTSUPP: a later program stored them.
 */
int rd_pack_decode(struct rd_packer *packer, const struct rd_pack_head *head,
		   unsigned int group, const void *bytes, void *blocks);

/*
 * Decode all of @pack, whose groups are sound, each block to its place in the segment @data. The
 * same errors.
 */
int rd_pack_unpack(struct rd_packer *packer, const struct rd_pack_head *head, const void *pack,
		   void *data);

#endif
