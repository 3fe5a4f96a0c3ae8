// SPDX-License-Identifier: GPL-2.0
/* What a sender proves with that it has blocks: see possess.h. */
#include <errno.h>

#include "possess.h"

int rd_possess_hash(struct evp_md_ctx_st *ctx, const u8 nonce[RD_NONCE], u64 segment,
		    const struct rd_slots *slots, const u8 *data, u8 ret[32])
{
	u8 head[8 + sizeof(*slots)];
	unsigned int i;
	bool fine;

	rd_put_u64(head, segment);
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		rd_put_u64(head + 8 + 8 * i, slots->bits[i]);
	fine = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) &&
		EVP_DigestUpdate(ctx, nonce, RD_NONCE) &&
		EVP_DigestUpdate(ctx, head, sizeof(head));
	for (i = 0; fine && i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(slots, i))
			fine = EVP_DigestUpdate(ctx, data + (size_t)i * RD_BLOCK_SIZE,
						RD_BLOCK_SIZE);
	return fine && EVP_DigestFinal_ex(ctx, ret, NULL) ? 0 : -ENOMEM;
}
