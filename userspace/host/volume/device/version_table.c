// SPDX-License-Identifier: GPL-2.0
/* Write a version as a remap table of the target. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/uuid.h"
#include "meta/table_write.h"
#include "pool/catalog/segments.h"
#include "pool/engine/journal/journal.h"
#include "pool/engine/read/proof.h"
#include "target.h"
#include "target_place.h"
#include "version_table.h"

#define WINDOW		1024	/* segments whose recipes are read at a time */

struct walk {
	struct rd_pool *pool;
	const struct rd_version *version;
	struct rd_resolver *resolver;
	u64 nr_blocks;		/* of the version */
	struct dmr_range run;	/* the last run; len 0: none */
	int (*take)(void *ctx, const struct dmr_range *range);
	void *ctx;
};

/* --- runs */

static bool goes_on(const struct dmr_range *run, u64 block, struct dmr_entry place)
{
	return run->len && run->first + run->len == block &&
		dmr_entry_goes_on(run->place[0], run->len, place);
}

static int end_run(struct walk *walk)
{
	int r = walk->run.len ? walk->take(walk->ctx, &walk->run) : 0;

	walk->run.len = 0;
	return r;
}

static int add(struct walk *walk, u64 block, u64 len, struct dmr_entry place)
{
	int r = 0;

	if (block >= walk->nr_blocks)
		return 0;
	len = rd_min(len, walk->nr_blocks - block);
	if (goes_on(&walk->run, block, place)) {
		walk->run.len += len;
		return 0;
	}
	r = end_run(walk);
	walk->run = (struct dmr_range){ .first = block, .len = len, .place[0] = place };
	return r;
}

/* --- segments */

static int add_segment(struct walk *walk, struct rd_target_places *places, u64 segment, i64 recipe)
{
	u64 block = segment * RD_SEG_BLOCKS;
	struct dmr_entry place = { .kind = DMR_ZERO };
	struct rd_seg_fp fp;
	struct rd_map map;
	unsigned int i;
	int r;

	if (!recipe)
		return add(walk, block, RD_SEG_BLOCKS, place);
	r = rd_resolve(walk->resolver, recipe, &map, &fp);
	for (i = 0; i < RD_SEG_BLOCKS && !r; i++) {
		r = rd_target_place(places, map.at[i], &place, NULL);
		if (!r)
			r = add(walk, block + i, 1, place);
	}
	return r;
}

static int walk_window(struct walk *walk, u64 first, unsigned int nr)
{
	struct rd_target_places places = { .sql = walk->pool->sql };
	i64 recipes[WINDOW];
	unsigned int i;
	int r;

	r = rd_sql_begin_read(walk->pool->sql);
	if (r)
		return r;
	rd_resolver_forget(walk->resolver);
	r = rd_segments_read(walk->pool->sql, walk->version->volume, walk->version->number, first,
			     nr, recipes);
	for (i = 0; i < nr && !r; i++)
		r = add_segment(walk, &places, first + i, recipes[i]);
	rd_sql_end_read(walk->pool->sql);
	return r;
}

static int walk_all(struct walk *walk, u64 first, u64 end)
{
	unsigned int nr;
	int r = 0;

	for (; first < end && !r; first += nr) {
		nr = rd_min(WINDOW, end - first);
		r = walk_window(walk, first, nr);
	}
	return r ? r : end_run(walk);
}

int rd_version_table_walk(struct rd_pool *pool, const struct rd_version *version, u64 first, u64 nr,
			  int (*take)(void *ctx, const struct dmr_range *range), void *ctx)
{
	struct walk walk = {
		.pool = pool,
		.version = version,
		.resolver = rd_resolver_new(pool->sql),
		.nr_blocks = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE,
		.take = take,
		.ctx = ctx,
	};
	u64 end = rd_min(rd_nr_segs(version->size), first + nr);
	int r = walk.resolver ? 0 : -ENOMEM;

	if (!r)
		r = walk_all(&walk, first, end);
	rd_resolver_free(walk.resolver);
	return r;
}

static int find_pack(void *ctx, const struct dmr_range *range)
{
	(void)ctx;
	return range->place[0].kind == DMR_PACK;
}

int rd_version_is_packed(struct rd_pool *pool, const struct rd_version *version, bool *ret)
{
	int r = rd_version_table_walk(pool, version, 0, rd_nr_segs(version->size), find_pack, NULL);

	*ret = r > 0;
	return r < 0 ? r : 0;
}

int rd_version_table_check(struct rd_pool *pool, const struct rd_version *version)
{
	bool packed;
	int r;

	if (rd_target_reads_packs())
		return 0;
	r = rd_version_is_packed(pool, version, &packed);
	return !r && packed ? rd_target_require_packs() : r;
}

/* --- images */

struct writer {
	const struct rd_version_table *image;
	struct rd_table_writer table;
};

static int add_to_table(void *ctx, const struct dmr_range *range)
{
	struct writer *writer = ctx;

	if (range->place[0].kind == DMR_ZERO && writer->image->base_is_zeros)
		return 0;
	return rd_table_add(&writer->table, range);
}

/* Add zeros beyond the version's end: the base may have the data of another volume there. */
static int add_beyond(struct writer *writer, const struct rd_version *version)
{
	u64 end = rd_round_up(writer->image->sectors, 8) / 8;
	struct dmr_range range = {
		.first = rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE,
		.place[0].kind = DMR_ZERO,
	};

	if (range.first >= end)
		return 0;
	range.len = end - range.first;
	return add_to_table(writer, &range);
}

u64 rd_version_table_bytes(u64 sectors)
{
	return dmr_meta_blocks_needed(dmr_nr_segs(sectors), DMR_FLAG_TABLE) * RD_BLOCK_SIZE;
}

static int write_table(struct rd_pool *pool, const struct rd_version *version,
		       struct writer *writer, int fd, const struct dmr_super *super)
{
	int r = rd_version_prove(pool, version);

	if (!r)
		r = rd_table_begin(&writer->table, fd, super);
	if (!r)
		r = rd_version_table_walk(pool, version, 0, rd_nr_segs(version->size), add_to_table,
					  writer);
	if (!r)
		r = add_beyond(writer, version);
	if (!r)
		r = rd_table_end(&writer->table);
	/*
	 * Blocks may just have moved to places that are free in a catalog which another host makes
	 * of the journal: that must have them before a device does.
	 */
	if (!r)
		r = rd_journal_flush(pool);
	rd_table_free(&writer->table);
	return r ? rd_err(r, "cannot write the table of the version") : 0;
}

int rd_version_table_write(struct rd_pool *pool, const struct rd_version *version,
			   const struct rd_version_table *image, int fd, u64 bytes)
{
	struct writer writer = { .image = image };
	struct dmr_super super = {
		.volume_sectors = image->sectors,
		.meta_blocks = bytes / RD_BLOCK_SIZE,
		.flags = image->hydrate ? DMR_FLAG_HYDRATE : 0,
		.hydrate_mib = image->rate_mib,
	};
	int r;

	if (image->volume_uuid)
		memcpy(super.volume_uuid, image->volume_uuid, sizeof(super.volume_uuid));
	memcpy(super.pool_uuid, pool->area.super.uuid, sizeof(super.pool_uuid));
	r = rd_uuid_make(super.meta_uuid);
	if (r)
		return rd_err(r, "no random number");
	return write_table(pool, version, &writer, fd, &super);
}
