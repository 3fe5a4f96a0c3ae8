// SPDX-License-Identifier: GPL-2.0
/* Groups of packs, by libzstd and libxxhash. */
#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "unpack.h"

bool rd_group_is_sound(const struct dmr_pack_group *group, const void *bytes)
{
	return XXH64(bytes, group->len, 0) == group->sum;
}

int rd_group_decode(ZSTD_DCtx *decoder, const struct dmr_pack_group *group, const void *bytes,
		    void *blocks)
{
	size_t all = (size_t)dmr_group_blocks(group) * DMR_BLOCK_SIZE;

	switch (group->codec) {
	case DMR_CODEC_RAW:
		memcpy(blocks, bytes, all);
		return 0;
	case DMR_CODEC_ZSTD:
		return ZSTD_decompressDCtx(decoder, blocks, all, bytes, group->len) == all ?
			0 : -EBADMSG;
	default:
		return -EOPNOTSUPP;
	}
}
