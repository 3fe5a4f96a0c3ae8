/* SPDX-License-Identifier: GPL-2.0 */
/* What a sender answers with to prove that it has blocks, and not only their fingerprints. */
#ifndef RD_POSSESS_H
#define RD_POSSESS_H

#include <openssl/evp.h>

#include "record.h"

/*
 * Compute the hash of a PROOF: the SHA-256 of @nonce, of @segment as 8 bytes, of the bit map
 * @slots, and of the blocks of @data, a segment, that it has.
 */
int rd_possess_hash(struct evp_md_ctx_st *ctx, const u8 nonce[RD_NONCE], u64 segment,
		    const struct rd_slots *slots, const u8 *data, u8 ret[32]);

#endif
