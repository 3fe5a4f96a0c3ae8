// SPDX-License-Identifier: GPL-2.0
/*
 * See pack.h.
 */
#include <err.h>
#include <string.h>

#include <xxhash.h>
#include <zstd.h>

#include "pack.h"

void pack_begin(struct pack *pack)
{
	memset(pack, 0, sizeof(*pack));
	pack->head.frame = 1ULL << 40;
	pack->len = DMR_PACK_HEAD;
}

size_t pack_compress(const void *from, size_t len, void *to, bool checksum)
{
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t r;

	if (!ctx)
		err(1, "zstd");
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, checksum);
	r = ZSTD_compress2(ctx, to, ZSTD_compressBound(DMR_PACK_GROUP_SIZE), from, len);
	ZSTD_freeCCtx(ctx);
	if (ZSTD_isError(r))
		errx(1, "%s", ZSTD_getErrorName(r));
	return r;
}

size_t pack_store(struct pack *pack, u16 slots, const void *from, size_t len,
		  enum dmr_codec codec)
{
	unsigned int nr = pack->nr_groups++;
	size_t at = pack->len;

	pack->head.slots[nr / 4] |= (u64)slots << nr % 4 * DMR_PACK_GROUP_BLOCKS;
	pack->head.groups[nr].codec = codec;
	pack->head.groups[nr].len = len;
	pack->head.groups[nr].sum = XXH64(from, len, 0);
	memcpy(pack->bytes + at, from, len);
	pack->len += len;
	return at;
}

void pack_add(struct pack *pack, u16 slots, const void *blocks, enum dmr_codec codec)
{
	static u8 bytes[2 * DMR_PACK_GROUP_SIZE];
	size_t all = (size_t)hweight16(slots) * DMR_BLOCK_SIZE;

	if (codec == DMR_CODEC_ZSTD && all)
		pack_store(pack, slots, bytes, pack_compress(blocks, all, bytes, false), codec);
	else
		pack_store(pack, slots, blocks, all, DMR_CODEC_RAW);
}

unsigned int pack_end(struct pack *pack)
{
	while (pack->nr_groups < DMR_PACK_GROUPS)
		pack_add(pack, 0, pack->bytes, DMR_CODEC_RAW);
	dmr_pack_head_pack(&pack->head, (struct dmr_pack_disk *)pack->bytes);
	return (pack->len + DMR_BLOCK_SIZE - 1) / DMR_BLOCK_SIZE;
}
