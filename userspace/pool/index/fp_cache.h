/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fingerprints of some frames, and where among them a fingerprint is. The frames that were
 * not used for the longest time go first.
 */
#ifndef RD_FP_CACHE_H
#define RD_FP_CACHE_H

#include "pool/data/fp.h"

struct rd_fp_cache;

/* NULL: out of memory. @max: frames. */
struct rd_fp_cache *rd_fp_cache_new(unsigned int max);
void rd_fp_cache_free(struct rd_fp_cache *cache);
void rd_fp_cache_clear(struct rd_fp_cache *cache);

/* The fingerprints of @frame, until one is put, or NULL. */
const struct rd_fp *rd_fp_cache_get(struct rd_fp_cache *cache, u64 frame);
void rd_fp_cache_put(struct rd_fp_cache *cache, u64 frame, const struct rd_fp *fps);

/* List up to @max places (frame * 512 + slot) of @fp, those that were put last first. */
unsigned int rd_fp_cache_find(const struct rd_fp_cache *cache, const struct rd_fp *fp,
			      u64 *places, unsigned int max);

#endif
