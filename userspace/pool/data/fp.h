/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fingerprints. That of a block is its SHA-256 cut to 16 bytes; that of a block of zeros
 * is 16 zero bytes. That of a segment is the SHA-256 of the fingerprints of its 512
 * blocks.
 */
#ifndef RD_FP_H
#define RD_FP_H

#include <stdbool.h>
#include <string.h>

#include "base/units.h"

struct rd_fp {
	u8 b[16];
};

struct rd_seg_fp {
	u8 b[32];
};

/* The size of a frame's fingerprints: two blocks. */
#define RD_FPS_SIZE	(RD_SEG_BLOCKS * sizeof(struct rd_fp))
#define RD_FPS_IN_BLOCK	(RD_BLOCK_SIZE / sizeof(struct rd_fp))

struct rd_hasher;

/* Make a hasher, one for each thread. NULL: out of memory. */
struct rd_hasher *rd_hasher_new(void);
void rd_hasher_free(struct rd_hasher *hasher);

bool rd_is_zero(const void *data, size_t len);

/* Compute the fingerprints of @nr blocks. */
void rd_fp_blocks(struct rd_hasher *hasher, const void *data, unsigned int nr,
		  struct rd_fp *fps);

/* The same for a segment of @len bytes, whole blocks; the rest of it is zeros. */
void rd_fp_segment(struct rd_hasher *hasher, const void *data, size_t len,
		   struct rd_fp fps[RD_SEG_BLOCKS], struct rd_seg_fp *ret);

/* Compute the fingerprint of the segment whose blocks have @fps. */
void rd_fp_of_fps(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		  struct rd_seg_fp *ret);

/* True if @fp is that fingerprint. */
bool rd_fps_are_of(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		   const struct rd_seg_fp *fp);

/*
 * Compute the part of @segment in the sum of a version. That is the sum of the parts of
 * all its segments modulo 2^128: a segment that is missing, or names the wrong content,
 * changes it.
 */
typedef unsigned __int128 rd_sum;
rd_sum rd_fp_sum(struct rd_hasher *hasher, u64 segment, const struct rd_seg_fp *fp);

static inline bool rd_fp_is_zero(const struct rd_fp *fp)
{
	static const struct rd_fp zero;

	return !memcmp(fp, &zero, sizeof(zero));
}

static inline bool rd_fp_equal(const struct rd_fp *a, const struct rd_fp *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static inline bool rd_seg_fp_equal(const struct rd_seg_fp *a, const struct rd_seg_fp *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/*
 * True if a block of the data area, whose fingerprint is @found, matches the one stored
 * beside it. No block of zeros is stored, so a stored fingerprint of zeros is lost, and
 * the block with it.
 */
static inline bool rd_fp_agrees(const struct rd_fp *stored, const struct rd_fp *found)
{
	return !rd_fp_is_zero(stored) && rd_fp_equal(stored, found);
}

#endif
