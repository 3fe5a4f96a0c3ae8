// SPDX-License-Identifier: GPL-2.0
/* What fstrim in the guests would save: see trim.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/pace.h"
#include "base/priority.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "pool/data/slots.h"
#include "random.h"
#include "resolve.h"
#include "trim.h"

/* Segments that are looked up at a time. */
#define WINDOW		1024

/* Which blocks of a segment a version stores. */
struct stored {
	struct rd_slots all, own;
	u64 rows;		/* of newest versions that name the recipe */
	bool is_alone;		/* no other newest version needs what the recipe owns */
};

struct trim {
	struct rd_pool *pool;
	struct rd_random *random;
	struct rd_pace pace;
	u64 until_us;
	u64 before, all;	/* bytes of the disks that were looked at, and of all */

	/* The disk that is looked at. */
	struct rd_disk disk;
	struct rd_trim_part *part;
	u64 start, end;		/* the last range of what is free, in bytes */
	u64 window;		/* its first segment; U64_MAX: none */
	i64 recipes[WINDOW];
	struct stored stored[WINDOW];
};

/* A volume to look at. */
struct target {
	struct rd_version version;
	char *name;
};

/* --- what a version stores */

/* Find who else needs what the recipe owns. */
static int find_others(struct rd_sql *sql, i64 id, struct stored *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	u64 latest = 0;
	i64 heir;
	int r;

	r = rd_recipe_latest_refs(sql, id, &ret->rows);
	if (!r)
		r = rd_recipe_heirs(sql, &rows, id, 1);
	if (!r)
		r = rd_next_id(rows, &heir);
	/* Those of newest versions come first. */
	if (r > 0)
		r = rd_recipe_latest_refs(sql, heir, &latest);
	ret->is_alone = ret->rows <= 1 && !latest;
	return r;
}

static int load_segment(struct rd_sql *sql, struct rd_resolver *resolver, i64 id,
			struct stored *ret)
{
	const struct rd_recipe *recipe;
	unsigned int i;
	int r;

	r = rd_resolver_load(resolver, id, &recipe);
	if (!r)
		r = find_others(sql, id, ret);
	/* The version was deleted just now, or the catalog is damaged, which check finds. */
	if (r)
		return r == -ENOENT ? 0 : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		enum rd_kind kind = rd_place_kind(recipe->map.at[i]);

		if (kind != RD_ZERO)
			rd_slots_set(&ret->all, i);
		if (kind == RD_OWN)
			rd_slots_set(&ret->own, i);
	}
	return 0;
}

static int load_window(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	struct trim *trim = ctx;
	const struct rd_version *version = &trim->disk.version;
	unsigned int i;
	int r;

	memset(trim->stored, 0, sizeof(trim->stored));
	r = rd_segments_read(pool->sql, version->volume, version->number, trim->window, WINDOW,
			     trim->recipes);
	for (i = 0; i < WINDOW && !r; i++)
		if (trim->recipes[i])
			r = load_segment(pool->sql, resolver, trim->recipes[i], &trim->stored[i]);
	return r;
}

/* Find what the version stores of @segment; ask for ascending ones. */
static int find_stored(struct trim *trim, u64 segment, const struct stored **ret)
{
	int r = 0;

	if (trim->window == U64_MAX || segment - trim->window >= WINDOW) {
		trim->window = segment;
		r = rd_random_ask(trim->random, load_window, trim);
	}
	*ret = &trim->stored[segment - trim->window];
	/* The guest's file system is not to blame. */
	return r == -EUCLEAN ? -EIO : r;
}

static void count_block(struct rd_trim_part *part, const struct stored *stored, unsigned int i)
{
	part->leftover += rd_slots_test(&stored->all, i);
	if (!rd_slots_test(&stored->own, i))
		return;
	part->alone += stored->is_alone;
	part->share += RD_BLOCK_SIZE / rd_max(stored->rows, 1);
}

/* Count the blocks from @block on, up to @end. */
static int count_blocks(struct trim *trim, u64 block, u64 end)
{
	struct rd_trim_part *part = trim->part;
	const struct stored *stored;
	int r = 0;

	while (block < end && !r) {
		u64 stop = rd_min(end, (block / RD_SEG_BLOCKS + 1) * RD_SEG_BLOCKS);

		r = find_stored(trim, block / RD_SEG_BLOCKS, &stored);
		for (; block < stop && !r; block++)
			count_block(part, stored, block % RD_SEG_BLOCKS);
	}
	return r;
}

/* --- what is free */

/* Go on, if there is time and nobody wants to stop. */
static int tell_progress(struct trim *trim, u64 offset)
{
	if (trim->until_us && rd_now_us() >= trim->until_us)
		return -ETIMEDOUT;
	return rd_pool_progress(trim->pool, "free space", trim->before + offset, trim->all);
}

static int read_disk(void *ctx, void *buf, size_t len, u64 offset)
{
	struct trim *trim = ctx;
	int r = tell_progress(trim, offset);

	if (r)
		return r;
	rd_pace(&trim->pace, len);
	return rd_random_read(trim->random, &trim->disk, buf, len, offset);
}

/* Count the last range: it does not go on. */
static int end_range(struct trim *trim)
{
	u64 first = rd_round_up(trim->start, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	u64 end = trim->end / RD_BLOCK_SIZE;

	trim->start = 0;
	trim->end = 0;
	return first < end ? count_blocks(trim, first, end) : 0;
}

static int take_free(void *ctx, u64 offset, u64 len)
{
	struct trim *trim = ctx;
	int r = 0;

	trim->part->free += len;
	/* Blocks of the file system may be smaller than ours, and its groups end anywhere. */
	if (offset != trim->end || trim->start == trim->end) {
		r = end_range(trim);
		if (!r)
			r = tell_progress(trim, offset);
		trim->start = offset;
	}
	trim->end = offset + len;
	return r;
}

static int look_at_part(struct trim *trim, const struct rd_fs_disk *disk,
			const struct rd_fs_part *where, struct rd_trim_part *part)
{
	int r;

	*part = (struct rd_trim_part){ .number = where->number };
	trim->part = part;
	trim->start = 0;
	trim->end = 0;
	r = rd_fs_free_space(disk, where, &part->found, take_free, trim);
	if (!r)
		r = end_range(trim);
	if (part->found.state != RD_FS_READ) {
		part->free = 0;
		part->leftover = 0;
		part->alone = 0;
		part->share = 0;
	}
	return r;
}

static int look_at(struct trim *trim, const struct target *target, rd_trim_take_fn *take,
		   void *ctx)
{
	RD_FREE char *name = NULL;
	const struct rd_fs_disk disk = {
		.read = read_disk, .ctx = trim, .size = target->version.size,
	};
	struct rd_trim_part parts[RD_FS_PARTS];
	struct rd_fs_part where[RD_FS_PARTS];
	struct rd_trim_volume volume = {
		.name = target->name, .version = &target->version, .parts = parts,
	};
	unsigned int i, nr;
	int r;

	if (asprintf(&name, "%s@%lld", target->name, target->version.number) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	trim->disk = (struct rd_disk){ .version = target->version, .name = name };
	trim->window = U64_MAX;
	r = rd_fs_partitions(&disk, where, &nr);
	volume.has_bad_table = r == -EUCLEAN;
	for (i = 0; i < nr && !r; i++) {
		r = look_at_part(trim, &disk, &where[i], &parts[i]);
		volume.nr = i + 1;
	}
	volume.is_unreadable = r == -EIO;
	if (volume.is_unreadable)
		volume.nr = 0;
	if (r && r != -EUCLEAN && r != -EIO)
		return r;
	return take(ctx, &volume);
}

/* --- all volumes */

static int list_targets(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_buffer *targets = ctx;
	struct rd_volume volume;
	int r;

	(void)resolver;
	r = rd_volumes(pool->sql, &rows, NULL);
	while (!r && (r = rd_next_volume(rows, &volume)) > 0) {
		struct target target;

		r = rd_version_load(pool->sql, volume.id, 0, &target.version);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		target.name = r ? NULL : strdup(volume.name);
		if (target.name)
			rd_buffer_put(targets, &target, sizeof(target));
		r = r ? r : !target.name || targets->failed ? -ENOMEM : 0;
	}
	return r;
}

static void free_targets(struct rd_buffer *targets)
{
	struct target *target = (struct target *)targets->data;
	size_t nr = targets->len / sizeof(*target);

	for (; nr; nr--, target++)
		free(target->name);
	rd_buffer_free(targets);
}

static int look_at_all(struct trim *trim, rd_trim_take_fn *take, void *ctx)
{
	struct rd_buffer targets = { 0 };
	const struct target *target;
	size_t i, nr;
	int r;

	r = rd_random_ask(trim->random, list_targets, &targets);
	target = (const struct target *)targets.data;
	nr = targets.len / sizeof(*target);
	for (i = 0; i < nr; i++)
		trim->all += target[i].version.size;
	for (i = 0; i < nr && !r; i++) {
		r = look_at(trim, &target[i], take, ctx);
		trim->before += target[i].version.size;
	}
	free_targets(&targets);
	return r;
}

int rd_trim_run(struct rd_pool *pool, u64 rate, u64 until_us, rd_trim_take_fn *take, void *ctx)
{
	struct trim *trim = calloc(1, sizeof(*trim));
	int r;

	if (!trim)
		return -ENOMEM;
	trim->pool = pool;
	trim->pace.rate = rate;
	trim->until_us = until_us;
	r = rd_random_new(&trim->random, pool);
	rd_disk_idle(true);
	if (!r)
		r = look_at_all(trim, take, ctx);
	rd_disk_idle(false);
	rd_random_free(trim->random);
	free(trim);
	return r;
}
