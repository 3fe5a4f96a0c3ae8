/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of fresh recipes (pool/catalog/fresh.h), as a Bloom filter: a block with other
 * content has no twin that the last pass did not see.
 */
#ifndef RD_TWINS_FILTER_H
#define RD_TWINS_FILTER_H

#include <stdbool.h>
#include <string.h>

#include "pool/data/fp.h"

struct rd_pace;
struct rd_pool;

struct rd_twins_filter {
	u64 keys;		/* that were added */
	u64 unreadable;		/* blocks whose fingerprint is lost */
	u64 mask;		/* of numbers of bits */
	u64 *bits;
};

/*
 * Read the fingerprints of all fresh recipes. -E2BIG: these are more than the filter is made for;
 * a pass over all takes no longer then. -ETIMEDOUT: it is later than @until_us, 0: never.
 */
int rd_twins_filter_new(struct rd_twins_filter **ret, struct rd_pool *pool, struct rd_pace *pace,
			u64 until_us);
void rd_twins_filter_free(struct rd_twins_filter *filter);

/* A fingerprint is a hash: parts of it are as good as other hashes of it. */
static inline u64 rd_twins_filter_bit(const struct rd_twins_filter *filter, const u64 hash[2],
				      unsigned int i)
{
	return (hash[0] + i * (hash[1] | 1)) & filter->mask;
}

#define RD_TWINS_FILTER_HASHES	4

static inline bool rd_twins_filter_has(const struct rd_twins_filter *filter,
				       const struct rd_fp *fp)
{
	unsigned int i;
	u64 hash[2], bit;

	memcpy(hash, fp->b, sizeof(hash));
	for (i = 0; i < RD_TWINS_FILTER_HASHES; i++) {
		bit = rd_twins_filter_bit(filter, hash, i);
		if (!(filter->bits[bit / 64] >> bit % 64 & 1))
			return false;
	}
	return true;
}

#endif
