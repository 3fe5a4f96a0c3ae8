// SPDX-License-Identifier: GPL-2.0
/* The slices and buckets of twins.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/inject.h"
#include "base/sort.h"
#include "pool/catalog/owners.h"
#include "twins_filter.h"
#include "twins_parts.h"

/*
 * Blocks of a bucket, on average: the table of a join has some more slots, of 24 bytes. Twins are
 * less than blocks, and have 16 bytes. Tests come to several slices.
 */
#ifdef RD_TEST
#define PER_BUCKET	1024U
#define MAX_BUCKETS	4U
#else
#define PER_BUCKET	(256U << 10)
#define MAX_BUCKETS	RD_SPILL_MAX_BUCKETS
#endif

/* Copies of a content that is in the filter: a pool with more of them has larger buckets. */
#define COPIES		4

struct rd_twins {
	struct rd_pool *pool;
	const char *temp;
	struct rd_pace *pace;
	struct rd_twins_filter *filter;
	unsigned int slices, slice;	/* the next one */
	unsigned int buckets;
	struct rd_spill *entries;
	struct rd_twins_join join;
	struct rd_twins_counts counts;	/* of what is joined */
	/* The bucket of twins that is taken, in the order of recipes. */
	unsigned int bucket;
	struct rd_buffer sorted;	/* struct rd_twin each */
	size_t next;
	u64 taken, found;	/* twins of the slice */
};

/* Buckets of all that is compared. */
static int count_buckets(struct rd_pool *pool, const struct rd_twins_filter *filter, u64 *ret)
{
	u64 blocks;
	int r = rd_slots_of_recipes(pool->sql, &blocks);

	if (filter)
		blocks = rd_min(blocks, filter->keys * COPIES);
	*ret = blocks / PER_BUCKET + 1;
	return r;
}

int rd_twins_slices(struct rd_pool *pool, unsigned int *ret)
{
	u64 buckets;
	int r = count_buckets(pool, NULL, &buckets);

	*ret = (buckets + MAX_BUCKETS - 1) / MAX_BUCKETS;
	return r;
}

int rd_twins_new(struct rd_twins **ret, struct rd_pool *pool,
		 const struct rd_twins_options *options)
{
	struct rd_twins *twins = calloc(1, sizeof(*twins));
	u64 buckets;
	int r;

	if (!twins)
		return -ENOMEM;
	r = count_buckets(pool, options->filter, &buckets);
	if (r) {
		free(twins);
		return r;
	}
	twins->pool = pool;
	twins->temp = options->temp;
	twins->pace = options->pace;
	twins->filter = options->filter;
	twins->slices = options->slices;
	twins->slice = options->slice;
	twins->buckets = rd_min((buckets + twins->slices - 1) / twins->slices, MAX_BUCKETS);
	twins->join.nr_buckets = twins->buckets;
	twins->join.pool = pool;
	twins->join.all = options->all;
	twins->join.until_us = options->until_us;
	twins->join.counts = &twins->counts;
	*ret = twins;
	return 0;
}

static void end_slice(struct rd_twins *twins)
{
	rd_spill_free(twins->entries);
	rd_spill_free(twins->join.twins);
	rd_twins_join_free(&twins->join);
	twins->entries = NULL;
	twins->join.twins = NULL;
	twins->sorted.len = 0;
	twins->next = 0;
}

void rd_twins_free(struct rd_twins *twins)
{
	if (!twins)
		return;
	end_slice(twins);
	rd_buffer_free(&twins->sorted);
	rd_twins_filter_free(twins->filter);
	free(twins);
}

/* --- a slice */

static int put_entry(void *ctx, const struct rd_twin_entry *entry)
{
	struct rd_twins *twins = ctx;
	unsigned int bucket = rd_twin_part(entry->key, twins->slices * twins->buckets);

	if (bucket / twins->buckets != twins->slice)
		return 0;
	return rd_spill_put(twins->entries, bucket % twins->buckets, entry);
}

static int stream(struct rd_twins *twins)
{
	struct rd_twins_counts counts = { 0 };
	const struct rd_twins_stream what = {
		.pool = twins->pool,
		.filter = twins->filter,
		.pace = twins->pace,
		.until_us = twins->join.until_us,
		.counts = &counts,
		.emit = put_entry,
		.ctx = twins,
	};
	int r;

	r = rd_spill_new(&twins->entries, twins->temp, sizeof(struct rd_twin_entry),
			 twins->buckets, twins->pace);
	if (!r)
		r = rd_failpoint("twins-stream");
	if (!r)
		r = rd_twins_stream(&what);
	if (!r)
		r = rd_spill_end(twins->entries);
	twins->counts.blocks = counts.blocks;
	twins->counts.newest = counts.newest;
	twins->counts.unreadable = rd_max(twins->counts.unreadable, counts.unreadable);
	if (twins->filter)
		twins->counts.unreadable += twins->filter->unreadable;
	/* There is one slice, and the join needs the room. */
	rd_twins_filter_free(twins->filter);
	twins->filter = NULL;
	return r;
}

static int join_all(struct rd_twins *twins)
{
	unsigned int i;
	int r;

	r = rd_spill_new(&twins->join.twins, twins->temp, sizeof(struct rd_twin),
			 twins->join.nr_buckets, twins->pace);
	twins->join.entries = twins->entries;
	for (i = 0; i < twins->buckets && !r; i++) {
		r = rd_failpoint("twins-join");
		if (!r)
			r = rd_twins_join(&twins->join, i);
		if (!r)
			r = rd_pool_progress(twins->pool, "join", i + 1, twins->buckets);
	}
	if (!r)
		r = rd_spill_end(twins->join.twins);
	rd_spill_free(twins->entries);
	twins->entries = NULL;
	rd_twins_join_free(&twins->join);
	return r;
}

int rd_twins_slice(struct rd_twins *twins)
{
	unsigned int i;
	int r;

	if (twins->slice == twins->slices)
		return 0;
	end_slice(twins);
	r = stream(twins);
	if (!r)
		r = join_all(twins);
	twins->slice++;
	twins->bucket = 0;
	twins->taken = 0;
	twins->found = 0;
	for (i = 0; i < twins->join.nr_buckets && !r; i++)
		twins->found += rd_spill_nr(twins->join.twins, i);
	return r ? r : 1;
}

/* --- what was found */

/*
 * The newest recipe first, as most refer to a newer one: whoever follows it has followed that
 * before. The blocks of one are in order.
 */
static int compare_twins(const void *a, const void *b)
{
	const struct rd_twin *x = a, *y = b;

	return rd_order(y->block >> 9, x->block >> 9) ? : rd_order(x->block, y->block);
}

/* Read the next bucket that has any. */
static int next_bucket(struct rd_twins *twins)
{
	struct rd_spill *spill = twins->join.twins;
	const void *records;
	unsigned int nr;
	int r;

	twins->sorted.len = 0;
	twins->next = 0;
	while (twins->bucket < twins->join.nr_buckets && !rd_spill_nr(spill, twins->bucket))
		twins->bucket++;
	if (twins->bucket == twins->join.nr_buckets)
		return 0;
	rd_spill_rewind(spill, twins->bucket++);
	while (!(r = rd_spill_next(spill, &records, &nr)) && nr)
		rd_buffer_put(&twins->sorted, records, nr * sizeof(struct rd_twin));
	if (twins->sorted.failed)
		r = -ENOMEM;
	rd_sort_buffer(&twins->sorted, sizeof(struct rd_twin), compare_twins);
	return r;
}

int rd_twins_take(struct rd_twins *twins, struct rd_twin *ret, unsigned int *ret_nr)
{
	const struct rd_twin *sorted;
	unsigned int nr = 0;
	size_t all;
	int r;

	if (twins->next * sizeof(*sorted) == twins->sorted.len) {
		r = next_bucket(twins);
		if (r || !twins->sorted.len)
			return r;
	}
	sorted = (const struct rd_twin *)twins->sorted.data;
	all = twins->sorted.len / sizeof(*sorted);
	do
		ret[nr++] = sorted[twins->next++];
	while (twins->next < all && nr < RD_SEG_BLOCKS &&
	       sorted[twins->next].block >> 9 == ret[0].block >> 9);
	twins->taken += nr;
	*ret_nr = nr;
	return 1;
}

void rd_twins_progress(const struct rd_twins *twins, u64 *ret_taken, u64 *ret_all)
{
	*ret_taken = twins->taken;
	*ret_all = twins->found;
}

void rd_twins_count(const struct rd_twins *twins, struct rd_twins_counts *ret)
{
	*ret = twins->counts;
}
