// SPDX-License-Identifier: GPL-2.0
/*
 * Fingerprints by OpenSSL, and by sha256_lanes.c where that is faster; see fp.h. A thread makes
 * its context once: one for each block would cost a tenth of the time of its hash.
 */
#include <stdlib.h>
#include <openssl/evp.h>

#include "fp.h"
#include "sha256_lanes.h"

struct rd_hasher {
	EVP_MD_CTX *ctx;
	EVP_MD *md;
	unsigned int lanes;
};

struct rd_hasher *rd_hasher_new(void)
{
	struct rd_hasher *hasher = calloc(1, sizeof(*hasher));

	if (!hasher)
		return NULL;
	hasher->ctx = EVP_MD_CTX_new();
	hasher->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	hasher->lanes = rd_lanes();
	if (!hasher->ctx || !hasher->md) {
		rd_hasher_free(hasher);
		return NULL;
	}
	return hasher;
}

void rd_hasher_free(struct rd_hasher *hasher)
{
	if (!hasher)
		return;
	EVP_MD_CTX_free(hasher->ctx);
	EVP_MD_free(hasher->md);
	free(hasher);
}

bool rd_is_zero(const void *data, size_t len)
{
	const u8 *byte = data;

	/* Most blocks that are not zero differ at one end; memcmp() is fast for the rest. */
	return !byte[0] && !byte[len - 1] && !memcmp(byte, byte + 1, len - 1);
}

/*
 * Abort on an error, which a library that has the algorithm does not return for memory:
 * to continue would store content under a wrong name.
 */
static void sha256(struct rd_hasher *hasher, const void *data, size_t len, u8 ret[32])
{
	if (EVP_DigestInit_ex2(hasher->ctx, hasher->md, NULL) != 1 ||
	    EVP_DigestUpdate(hasher->ctx, data, len) != 1 ||
	    EVP_DigestFinal_ex(hasher->ctx, ret, NULL) != 1)
		abort();
}

static void fp_block(struct rd_hasher *hasher, const void *block, struct rd_fp *ret)
{
	u8 digest[32];

	if (rd_is_zero(block, RD_BLOCK_SIZE)) {
		memset(ret, 0, sizeof(*ret));
		return;
	}
	sha256(hasher, block, RD_BLOCK_SIZE, digest);
	memcpy(ret->b, digest, sizeof(ret->b));
}

void rd_fp_of_fps(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		  struct rd_seg_fp *ret)
{
	sha256(hasher, fps, RD_FPS_SIZE, ret->b);
}

/* Blocks that wait until there is one for each lane. */
struct waiting {
	unsigned int nr;
	const void *blocks[RD_LANES_MAX];
	struct rd_fp *fps[RD_LANES_MAX];
};

static void hash_waiting(struct rd_hasher *hasher, struct waiting *waiting)
{
	u8 digests[RD_LANES_MAX][32];
	unsigned int i;

	if (!waiting->nr)
		return;
	/* Lanes without a block hash the first one again, for nothing. */
	for (i = waiting->nr; i < hasher->lanes; i++)
		waiting->blocks[i] = waiting->blocks[0];
	rd_lanes_sha256(hasher->lanes, waiting->blocks, digests);
	for (i = 0; i < waiting->nr; i++)
		memcpy(waiting->fps[i]->b, digests[i], sizeof(waiting->fps[i]->b));
	waiting->nr = 0;
}

static void fp_blocks_in_lanes(struct rd_hasher *hasher, const u8 *data, unsigned int nr,
			       struct rd_fp *fps)
{
	struct waiting waiting = { .nr = 0 };
	unsigned int i;

	for (i = 0; i < nr; i++, data += RD_BLOCK_SIZE) {
		if (rd_is_zero(data, RD_BLOCK_SIZE)) {
			memset(&fps[i], 0, sizeof(*fps));
			continue;
		}
		waiting.blocks[waiting.nr] = data;
		waiting.fps[waiting.nr++] = &fps[i];
		if (waiting.nr == hasher->lanes)
			hash_waiting(hasher, &waiting);
	}
	hash_waiting(hasher, &waiting);
}

void rd_fp_blocks(struct rd_hasher *hasher, const void *data, unsigned int nr,
		  struct rd_fp *fps)
{
	unsigned int i;

	if (hasher->lanes)
		fp_blocks_in_lanes(hasher, data, nr, fps);
	for (i = 0; !hasher->lanes && i < nr; i++)
		fp_block(hasher, (const u8 *)data + (size_t)i * RD_BLOCK_SIZE, &fps[i]);
}

void rd_fp_segment(struct rd_hasher *hasher, const void *data, size_t len,
		   struct rd_fp fps[RD_SEG_BLOCKS], struct rd_seg_fp *ret)
{
	unsigned int nr = len / RD_BLOCK_SIZE;

	rd_fp_blocks(hasher, data, nr, fps);
	memset(&fps[nr], 0, (RD_SEG_BLOCKS - nr) * sizeof(*fps));
	rd_fp_of_fps(hasher, fps, ret);
}

bool rd_fps_are_of(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		   const struct rd_seg_fp *fp)
{
	struct rd_seg_fp real;

	rd_fp_of_fps(hasher, fps, &real);
	return rd_seg_fp_equal(&real, fp);
}

rd_sum rd_fp_sum(struct rd_hasher *hasher, u64 segment, const struct rd_seg_fp *fp)
{
	u8 input[8 + sizeof(fp->b)], digest[32];
	__le64 le = cpu_to_le64(segment);
	rd_sum sum;

	memcpy(input, &le, 8);
	memcpy(input + 8, fp->b, sizeof(fp->b));
	sha256(hasher, input, sizeof(input), digest);
	memcpy(&sum, digest, sizeof(sum));
	return sum;
}
