/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A pack: the blocks of a packed frame, compressed, as kernel/pack_format.h says. It lies in slots
 * of ordinary frames, one after the other; its fingerprints are not in it.
 */
#ifndef RD_PACK_H
#define RD_PACK_H

#include <string.h>

#include "kernel/pack_format.h"
#include "slots.h"

#define RD_PACK_HEAD		DMR_PACK_HEAD
#define RD_PACK_GROUP		DMR_PACK_GROUP_BLOCKS
#define RD_PACK_GROUPS		DMR_PACK_GROUPS
#define RD_PACK_GROUP_SIZE	DMR_PACK_GROUP_SIZE
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

static inline bool rd_pack_has(const struct dmr_pack_head *head, unsigned int slot)
{
	return head->slots[slot / 64] >> slot % 64 & 1;
}

static inline struct rd_slots rd_pack_slots(const struct dmr_pack_head *head)
{
	struct rd_slots slots;

	memcpy(&slots, head->slots, sizeof(slots));
	return slots;
}

static inline void rd_pack_set_slots(struct dmr_pack_head *head, const struct rd_slots *slots)
{
	memcpy(head->slots, slots, sizeof(*slots));
}

/* How new content is stored: data/area.h keeps that for a pool. */
struct rd_compression {
	u8 codec;		/* of enum dmr_codec */
	int8_t level;
};

static const struct rd_compression rd_compression_default = { DMR_CODEC_ZSTD, RD_PACK_LEVEL };

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
size_t rd_pack_make(struct rd_packer *packer, struct dmr_pack_head *head, const void *data,
		    int level, void *pack);

void rd_pack_number(void *pack, u64 frame);

/*
 * The same for groups that are there already, behind the place of the head in @pack: they come
 * from another pool, and head->groups has their lengths and codecs, of which nothing is trusted.
 * 0: they are not what a pack has; what is in them was not looked at.
 */
size_t rd_pack_adopt(struct dmr_pack_head *head, void *pack);

/*
 * Read a head from the beginning of a pack that should be @frame's of the pool @uuid, and has
 * @len bytes. -EBADMSG: it is damaged, or another's.
 */
int rd_pack_read_head(struct dmr_pack_head *head, const void *pack, size_t len,
		      const u8 uuid[16], u64 frame);

/* Count the blocks of a group, or those before the one in @slot. */
unsigned int rd_pack_group_blocks(const struct dmr_pack_head *head, unsigned int group);
unsigned int rd_pack_block_at(const struct dmr_pack_head *head, unsigned int slot);

/* Are these its bytes? */
bool rd_pack_is_sound(const struct dmr_pack_head *head, unsigned int group, const void *bytes);

/*
 * Decode the bytes of a group into its blocks, RD_PACK_GROUP_SIZE bytes at most. Nothing that
 * they say is trusted. -EBADMSG: they are damaged. -EOPNOTSUPP: a later program stored them.
 */
int rd_pack_decode(struct rd_packer *packer, const struct dmr_pack_head *head,
		   unsigned int group, const void *bytes, void *blocks);

/*
 * Decode all of @pack, whose groups are sound, each block to its place in the segment @data. The
 * same errors.
 */
int rd_pack_unpack(struct rd_packer *packer, const struct dmr_pack_head *head, const void *pack,
		   void *data);

#endif
