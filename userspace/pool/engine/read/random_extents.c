// SPDX-License-Identifier: GPL-2.0
/*
 * Which parts of a version are zeros. A client skips what it is told to be zeros, so only
 * places that the segment's fingerprint proves are believed: they are learned as for a read,
 * which most often follows. Segments that no version has a row of are passed by at once.
 */
#include <errno.h>
#include <string.h>

#include "pool/catalog/segments.h"
#include "random_parts.h"

/* Segments that one call looks up: the client waits for the answer. */
#define MAX_LOOKED_UP	64

struct extents {
	struct rd_random *random;
	const struct rd_disk *disk;
	struct rd_hasher *hasher;
	u64 offset, end;
	rd_take_fn *take;
	void *ctx;
	/* The range that is not told yet. */
	u64 first, len;
	bool is_zero;
};

static int tell(struct extents *e)
{
	u64 len = e->len;

	e->len = 0;
	return len ? e->take(e->ctx, e->first, len, e->is_zero) : 0;
}

/* Add the part from e->offset to @end. Not 0: enough. */
static int add(struct extents *e, u64 end, bool is_zero)
{
	int r = 0;

	end = rd_min(end, e->end);
	if (end <= e->offset)
		return 0;
	if (e->len && e->is_zero != is_zero)
		r = tell(e);
	if (r)
		return r;
	if (!e->len)
		e->first = e->offset;
	e->is_zero = is_zero;
	e->len += end - e->offset;
	e->offset = end;
	return 0;
}

/* Add a piece of a segment, from block @first on, as far as it is ahead. */
static int add_blocks(struct extents *e, u64 segment, unsigned int first,
		      const struct known *known)
{
	u64 start = (segment << RD_SEG_SHIFT) + (u64)first * RD_BLOCK_SIZE;
	unsigned int i;
	int r = 0;

	for (i = 0; i < PIECE_BLOCKS && !r; i++)
		r = add(e, start + (u64)(i + 1) * RD_BLOCK_SIZE,
			rd_place_kind(known->at[i]) == RD_ZERO);
	return r;
}

static int add_segment(struct extents *e, u64 segment)
{
	i64 id = e->disk->version.id;
	struct known known;
	unsigned int first;
	int r = 0;

	for (first = 0; first < RD_SEG_BLOCKS && !r; first += PIECE_BLOCKS) {
		if (!rd_random_get_known(e->random, id, segment, first, PIECE_BLOCKS, &known)) {
			r = rd_random_learn(e->random, e->disk, segment, e->hasher);
			if (r && r != -EUCLEAN)
				return r;
			/* To read it will find what is wrong. */
			if (r || !rd_random_get_known(e->random, id, segment, first, PIECE_BLOCKS,
						      &known))
				return add(e, (segment + 1) << RD_SEG_SHIFT, false);
		}
		r = add_blocks(e, segment, first, &known);
	}
	return r;
}

/* Find the first segment from @segment on that may not be zeros. */
struct next {
	const struct rd_disk *disk;
	u64 segment;
};

static int find_next(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct next *next = ctx;
	u64 found = 0;
	int r;

	(void)resolver;
	r = rd_random_is_there(pool, next->disk);
	if (!r)
		r = rd_segment_next(pool->sql, next->disk->version.volume, next->segment, &found);
	else if (r == -ENOENT)
		return -ESTALE;
	if (!r)
		next->segment = rd_max(next->segment, found);
	return r;
}

static int add_all(struct extents *e)
{
	struct next next = { .disk = e->disk };
	unsigned int looked_up = 0;
	int r = 0;

	while (!r && e->offset < e->end && looked_up++ < MAX_LOOKED_UP) {
		u64 segment = e->offset >> RD_SEG_SHIFT;

		next.segment = segment;
		r = rd_random_ask(e->random, find_next, &next);
		if (r == -ENOENT)
			return add(e, e->end, true);
		if (r)
			return r == -ESTALE ? -ENOENT : r;
		r = next.segment > segment ? add(e, next.segment << RD_SEG_SHIFT, true) :
			add_segment(e, segment);
	}
	return r;
}

int rd_random_extents(struct rd_random *random, const struct rd_disk *disk, u64 len, u64 offset,
		      rd_take_fn *take, void *ctx)
{
	struct extents e = {
		.random = random, .disk = disk, .hasher = rd_hasher_new(),
		.offset = offset, .end = offset + len, .take = take, .ctx = ctx,
	};
	int r = e.hasher ? add_all(&e) : -ENOMEM;

	rd_hasher_free(e.hasher);
	if (r == -ENOENT)
		return rd_random_tell_gone(random, disk);
	if (!r)
		r = tell(&e);
	return r < 0 ? r : 0;
}
