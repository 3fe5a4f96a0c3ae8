// SPDX-License-Identifier: GPL-2.0
/*
 * Make the superblocks anew from the catalog.
 *
 * It knows the pool's UUID, and each frame is in one of its tables. Which journal
 * it is in step with it knows as well, and where that one begins is where it can be
 * read from. Before anything is written, the catalog must show that it is the one
 * of what is there:
 *
 *	- the journal can be read until the catalog has all of it, and not further
 *	- nowhere is a part of a journal that is newer than the catalog
 *	- most of some segments, from all over the pool, are what it says
 *
 * What an earlier pool has left on a device may look newer, and then it is refused
 * as well.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/state.h"
#include "pool/engine/journal/journal_life.h"
#include "pool/engine/read/blocks.h"
#include "pool/engine/read/resolve.h"
#include "rebuild_supers.h"

#define NR_SAMPLES	64

struct samples {
	struct rd_pool *pool;
	struct rd_resolver *resolver;
	struct rd_hasher *hasher;
	struct rd_blocks *blocks;
	u8 *data;			/* a segment */
	unsigned int nr, nr_good;
};

/* --- what the catalog knows */

/* Count the frames: each is in one of the tables of the catalog. */
static int read_nr_frames(struct rd_pool *pool)
{
	i64 nr;
	int r;

	r = rd_frames_nr_known(pool->sql, &nr);
	if (r)
		return r;
	if (nr <= 0 || (u64)nr > rd_frames_in(pool->area.store->bytes))
		return rd_err(-EUCLEAN, "the catalog has %lld frames, and the data area has room for %llu",
			      nr, rd_frames_in(pool->area.store->bytes));
	pool->area.super.nr_frames = nr;
	return 0;
}

/* What is new is stored as most likely before. */
static int read_features(struct rd_pool *pool)
{
	struct rd_packs_total total;
	int r = rd_packs_total(pool->sql, &total);

	/* Whether there was one, or a version arrived, is not known: volumes keep their own. */
	pool->area.super.rule = RD_RULE_FIRST;
	pool->area.super.incompat |= RD_INCOMPAT_PIECES | RD_INCOMPAT_PARTIAL;
	if (!r && total.packs) {
		pool->area.super.incompat |= RD_INCOMPAT_PACKS;
		pool->area.super.compression = rd_compression_default;
	}
	return r;
}

static int read_catalog(struct rd_pool *pool)
{
	u64 page;
	int r = rd_sql_check_pages(pool->sql, &page);

	if (r)
		return rd_err(r, "page %llu of the catalog is damaged", page);
	r = rd_state_uuid(pool->sql, pool->area.super.uuid);
	if (r)
		return r < 0 ? r : -EUCLEAN;
	r = read_features(pool);
	return r ? r : read_nr_frames(pool);
}

/* --- is that what is there? */

static int try_sample(struct samples *samples, i64 id)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	struct rd_seg_fp want, fp;
	struct rd_map map;
	int r;

	samples->nr++;
	r = rd_resolve(samples->resolver, id, &map, &want);
	if (r)
		return r == -ENOENT || r == -EUCLEAN ? 0 : r;
	memset(samples->data, 0, RD_SEG_SIZE);
	r = rd_blocks_read_all(samples->blocks, map.at, RD_SEG_BLOCKS, samples->data);
	/* What cannot be read is not what it was. */
	if (r)
		return r < 0 ? r : 0;
	rd_fp_segment(samples->hasher, samples->data, RD_SEG_SIZE, fps, &fp);
	samples->nr_good += rd_seg_fp_equal(&fp, &want);
	return 0;
}

static int try_samples(struct samples *samples)
{
	RD_ROW struct rd_row *rows = NULL;
	i64 id;
	int r;

	r = rd_recipes_sample(samples->pool->sql, &rows, NR_SAMPLES);
	while (!r && (r = rd_next_id(rows, &id)) > 0)
		r = try_sample(samples, id);
	if (!r && samples->nr_good < (samples->nr + 1) / 2)
		r = rd_err(-EUCLEAN, "of %u sampled segments only %u match the catalog",
			   samples->nr, samples->nr_good);
	return r;
}

static int check_samples(struct rd_pool *pool)
{
	struct samples samples = {
		.pool = pool,
		.resolver = rd_resolver_new(pool->sql),
		.hasher = rd_hasher_new(),
		.blocks = rd_blocks_new(pool),
		.data = rd_alloc_direct(RD_SEG_SIZE),
	};
	int r = -ENOMEM;

	if (samples.resolver && samples.hasher && samples.blocks && samples.data)
		r = try_samples(&samples);
	rd_resolver_free(samples.resolver);
	rd_hasher_free(samples.hasher);
	rd_blocks_free(samples.blocks);
	free(samples.data);
	return r;
}

/* --- */

static int find_all(struct rd_pool *pool)
{
	int r;

	r = rd_sql_begin_read(pool->sql);
	if (r)
		return r;
	r = read_catalog(pool);
	if (!r)
		r = rd_journal_find(pool);
	if (!r)
		r = check_samples(pool);
	rd_sql_end_read(pool->sql);
	return r;
}

int rd_supers_rebuild(struct rd_pool *pool)
{
	int r = find_all(pool);

	if (r) {
		rd_hint("nothing was changed; the data area may belong to another catalog");
		return r;
	}
	rd_warn("both superblocks of the data area were lost; new ones are made from the catalog");
	return rd_area_write_super(&pool->area);
}
