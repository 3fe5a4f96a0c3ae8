/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fingerprints. A block's is its SHA-256 cut to 16 bytes, and that of a block
 * of zeros is 16 zero bytes. A segment's is the SHA-256 of its 512 blocks'.
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

/* The fingerprints of a frame: two blocks of them. */
#define RD_FPS_SIZE	(RD_SEG_BLOCKS * sizeof(struct rd_fp))

struct rd_hasher;

/* One for each thread. NULL: no memory. */
struct rd_hasher *rd_hasher_new(void);
void rd_hasher_free(struct rd_hasher *hasher);

bool rd_is_zero(const void *data, size_t len);

/* Of @nr blocks. */
void rd_fp_blocks(struct rd_hasher *hasher, const void *data, unsigned int nr,
		  struct rd_fp *fps);

/* Of @len bytes of a segment, a multiple of the block size; the rest is zeros. */
void rd_fp_segment(struct rd_hasher *hasher, const void *data, size_t len,
		   struct rd_fp fps[RD_SEG_BLOCKS], struct rd_seg_fp *ret);

/* Of the segment whose blocks have @fps. */
void rd_fp_of_fps(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		  struct rd_seg_fp *ret);

/* Is @fp that segment's? */
bool rd_fps_are_of(struct rd_hasher *hasher, const struct rd_fp fps[RD_SEG_BLOCKS],
		   const struct rd_seg_fp *fp);

/*
 * The part that @segment has in the sum of a version, which is the sum of all
 * its segments' parts modulo 2^128: a segment that is missing, or that names
 * the wrong content, changes it.
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
 * Is a block in the data area, which is @found, what the fingerprint beside it says?
 * Zeros have no place there, so one that is zero is lost, and so is the block.
 */
static inline bool rd_fp_agrees(const struct rd_fp *stored, const struct rd_fp *found)
{
	return !rd_fp_is_zero(stored) && rd_fp_equal(stored, found);
}

#endif
