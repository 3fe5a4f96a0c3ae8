// SPDX-License-Identifier: GPL-2.0
/* Packs by libzstd. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <zstd.h>

#include "base/unpack.h"
#include "pack.h"

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

int rd_pack_read_head(struct dmr_pack_head *head, const void *pack, size_t len,
		      const u8 uuid[16], u64 frame)
{
	struct dmr_pack_disk disk;
	int r;

	if (len < sizeof(disk))
		return -EBADMSG;
	memcpy(&disk, pack, sizeof(disk));
	r = dmr_pack_head_unpack(&disk, len, head);
	if (!r && (memcmp(head->uuid, uuid, sizeof(head->uuid)) || head->frame != frame))
		r = -EBADMSG;
	return r;
}

static void write_head(const struct dmr_pack_head *head, void *pack)
{
	struct dmr_pack_disk disk;

	dmr_pack_head_pack(head, &disk);
	memcpy(pack, &disk, sizeof(disk));
}

void rd_pack_number(void *pack, u64 frame)
{
	struct dmr_pack_disk disk;
	struct dmr_pack_head head;

	memcpy(&disk, pack, sizeof(disk));
	dmr_pack_head_unpack(&disk, RD_PACK_MAX, &head);
	head.frame = frame;
	write_head(&head, pack);
}

/* --- what is where */

static struct dmr_pack_group group_of(const struct dmr_pack_head *head, unsigned int nr)
{
	struct dmr_pack_group group;

	dmr_pack_group(head, nr, &group);
	return group;
}

unsigned int rd_pack_group_blocks(const struct dmr_pack_head *head, unsigned int nr)
{
	struct dmr_pack_group group = group_of(head, nr);

	return dmr_group_blocks(&group);
}

unsigned int rd_pack_block_at(const struct dmr_pack_head *head, unsigned int slot)
{
	struct dmr_pack_group group = group_of(head, slot / RD_PACK_GROUP);

	return dmr_group_block_at(&group, slot);
}

/* --- making one */

/* Copy the blocks of a group into packer->blocks. */
static size_t gather(struct rd_packer *packer, const struct dmr_pack_head *head,
		     unsigned int group, const u8 *data)
{
	unsigned int slot = group * RD_PACK_GROUP, end = slot + RD_PACK_GROUP;
	size_t len = 0;

	for (; slot < end; slot++) {
		if (!rd_pack_has(head, slot))
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
static bool is_worth_it(struct rd_packer *packer, const struct dmr_pack_head *head,
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

static size_t put_group(struct rd_packer *packer, struct dmr_pack_head *head,
			unsigned int group, const u8 *data, int level, u8 *to)
{
	size_t all = gather(packer, head, group, data), len = 0;

	if (all)
		len = squeeze(packer, all, level, to);
	head->groups[group].codec = len < all ? DMR_CODEC_ZSTD : DMR_CODEC_RAW;
	if (len == all)
		memcpy(to, packer->blocks, len);
	head->groups[group].len = len;
	head->groups[group].sum = XXH64(to, len, 0);
	return len;
}

/* The longest pack that is worth it. */
static size_t most(const struct dmr_pack_head *head)
{
	struct rd_slots slots = rd_pack_slots(head);
	size_t all = (size_t)rd_slots_count(&slots) * RD_BLOCK_SIZE;

	return all - all / 8;
}

/* End a pack of @len bytes, whose groups are there. Returns its length, or 0. */
static size_t end_pack(const struct dmr_pack_head *head, u8 *pack, size_t len)
{
	size_t end = (len + RD_BLOCK_SIZE - 1) / RD_BLOCK_SIZE * RD_BLOCK_SIZE;

	if (end > most(head))
		return 0;
	memset(pack + len, 0, end - len);
	write_head(head, pack);
	return end;
}

size_t rd_pack_make(struct rd_packer *packer, struct dmr_pack_head *head, const void *data,
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
static bool is_one_frame(const struct dmr_pack_head *head, unsigned int group, const u8 *bytes)
{
	static const u8 magic[] = { 0x28, 0xb5, 0x2f, 0xfd };
	size_t all = (size_t)rd_pack_group_blocks(head, group) * RD_BLOCK_SIZE;
	u32 len = head->groups[group].len;

	return len >= sizeof(magic) && !memcmp(bytes, magic, sizeof(magic)) &&
		ZSTD_findFrameCompressedSize(bytes, len) == len &&
		ZSTD_getFrameContentSize(bytes, len) == all;
}

size_t rd_pack_adopt(struct dmr_pack_head *head, void *pack)
{
	u8 *at = (u8 *)pack + RD_PACK_HEAD;
	unsigned int i;

	if (!dmr_pack_is_sane(head, most(head)))
		return 0;
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		u32 len = head->groups[i].len;

		if (head->groups[i].codec > DMR_CODEC_ZSTD ||
		    (head->groups[i].codec == DMR_CODEC_ZSTD && !is_one_frame(head, i, at)))
			return 0;
		head->groups[i].sum = XXH64(at, len, 0);
		at += len;
	}
	return end_pack(head, pack, at - (u8 *)pack);
}

/* --- reading one */

bool rd_pack_is_sound(const struct dmr_pack_head *head, unsigned int nr, const void *bytes)
{
	struct dmr_pack_group group = group_of(head, nr);

	return rd_group_is_sound(&group, bytes);
}

int rd_pack_decode(struct rd_packer *packer, const struct dmr_pack_head *head, unsigned int nr,
		   const void *bytes, void *blocks)
{
	struct dmr_pack_group group = group_of(head, nr);

	return rd_group_is_sound(&group, bytes) ?
		rd_group_decode(packer->decoder, &group, bytes, blocks) : -EBADMSG;
}

static int unpack_group(struct rd_packer *packer, const struct dmr_pack_head *head,
			unsigned int nr, const u8 *bytes, u8 *data)
{
	struct dmr_pack_group group = group_of(head, nr);
	unsigned int slot = nr * RD_PACK_GROUP, end = slot + RD_PACK_GROUP;
	u8 *to = data + (size_t)slot * RD_BLOCK_SIZE, *from = packer->blocks;
	int r;

	if (dmr_group_blocks(&group) == RD_PACK_GROUP)
		return rd_group_decode(packer->decoder, &group, bytes, to);
	r = rd_group_decode(packer->decoder, &group, bytes, from);
	for (; slot < end && !r; slot++, to += RD_BLOCK_SIZE) {
		if (!rd_pack_has(head, slot))
			continue;
		memcpy(to, from, RD_BLOCK_SIZE);
		from += RD_BLOCK_SIZE;
	}
	return r;
}

int rd_pack_unpack(struct rd_packer *packer, const struct dmr_pack_head *head, const void *pack,
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
