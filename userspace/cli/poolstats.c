// SPDX-License-Identifier: GPL-2.0
/*
 * How much is in the pool.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "host/volume/attach/safety.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/fresh.h"
#include "pool/catalog/journal_frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/state.h"
#include "pool/data/copies.h"
#include "boottest.h"
#include "elsewhere.h"
#include "poolstats.h"

static int add_file(const struct ctl *ctl, const char *name, u64 *bytes)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, name);
	struct stat st;

	if (!path)
		return -ENOMEM;
	/* The catalog may have no log. */
	if (!stat(path, &st))
		*bytes += st.st_size;
	return 0;
}

/* A sparse data area cannot have more than its file system has left. */
static void read_space(const struct rd_area *area, struct ctl_pool_stats *stats)
{
	u64 room = area->store->ops->room(area->store);

	stats->size = stats->frames * RD_SEG_SIZE;
	stats->limit = stats->frames_free * RD_SEG_SIZE;
	stats->in_rados = rd_area_can(area, RD_STORE_FENCED);
	stats->avail = room == U64_MAX ? CTL_UNKNOWN : room;
	stats->free = rd_min(stats->limit, stats->avail);
}

static int read_blocks(struct rd_sql *sql, struct ctl_pool_stats *stats)
{
	struct rd_packs_total packs;
	u64 blocks, frames, queued;
	int r;

	r = rd_blocks_owned(sql, &blocks);
	if (!r)
		r = rd_packs_total(sql, &packs);
	if (!r)
		r = rd_frames_with_fps(sql, &frames);
	if (!r)
		r = rd_frames_queued(sql, &queued);
	if (r)
		return r;
	stats->data = blocks * RD_BLOCK_SIZE;
	stats->packed = packs.blocks * RD_BLOCK_SIZE + packs.packs * RD_FPS_SIZE;
	stats->unique = stats->data - stats->packed + packs.live * RD_BLOCK_SIZE;
	stats->dead = packs.dead;
	stats->fps = frames * RD_FPS_SIZE;
	stats->queued = queued * RD_BLOCK_SIZE;
	return 0;
}

static int read_journal(struct rd_sql *sql, struct ctl_pool_stats *stats)
{
	struct rd_state state;
	u64 frames;
	int r;

	r = rd_state_read(sql, &state);
	if (!r)
		r = rd_journal_frames_count(sql, state.journal, &frames);
	/* In the last frame it has not come to the end. */
	if (!r && frames)
		stats->journal = (frames - 1) * RD_SEG_SIZE +
			(u64)state.end.block * RD_BLOCK_SIZE;
	return r;
}

/* Before the first pass ends, all is fresh, and nothing is noted. */
static int read_fresh(struct rd_sql *sql, struct ctl_pool_stats *stats)
{
	struct rd_fresh_pass pass;
	int r;

	r = rd_fresh_count(sql, &stats->fresh, &stats->recipes);
	if (r)
		return r;
	r = rd_fresh_pass(sql, &pass);
	if (r == -ENOENT || (!r && !pass.closed))
		stats->fresh = stats->recipes;
	return r == -ENOENT ? 0 : r;
}

static int read_pool(struct ctl *ctl, struct ctl_pool_stats *stats)
{
	struct rd_sql *sql = ctl->pool->sql;
	int r;

	r = read_blocks(sql, stats);
	if (!r)
		r = read_journal(sql, stats);
	if (!r)
		r = rd_frames_nr_free(sql, &stats->frames_free);
	if (!r)
		r = rd_frames_nr_queued(sql, &stats->waiting);
	if (!r)
		r = read_fresh(sql, stats);
	if (!r)
		r = add_file(ctl, "catalog.db", &stats->catalog);
	if (!r)
		r = add_file(ctl, "catalog.db-wal", &stats->catalog);
	if (!r)
		r = add_file(ctl, "catalog.db-pages", &stats->catalog);
	if (r)
		return r;
	stats->compression = ctl->pool->area.super.compression;
	stats->rule = ctl->pool->area.super.rule;
	stats->frames = ctl->pool->area.super.nr_frames;
	read_space(&ctl->pool->area, stats);
	return 0;
}

static int read_volumes(struct ctl *ctl, struct ctl_pool_stats *stats,
			struct rd_buffer *volumes)
{
	RD_ROW struct rd_row *rows = NULL;
	struct ctl_volume_stats volume = {
		.elsewhere = CTL_UNKNOWN,
		.boot_time = CTL_UNKNOWN,
		.boot_passed = CTL_UNKNOWN,
		.boot_number = CTL_UNKNOWN,
	};
	int r;

	r = rd_volume_stats(ctl->pool->sql, &rows);
	while (!r && (r = rd_next_volume_stats(rows, &volume.row)) > 0) {
		snprintf(volume.name, sizeof(volume.name), "%s", volume.row.name);
		/* The next row overwrites that. */
		volume.row.name = NULL;
		stats->volumes++;
		stats->versions += volume.row.versions;
		stats->logical += volume.row.logical;
		r = rd_buffer_put(volumes, &volume, sizeof(volume));
	}
	return r;
}

/* Copies that cannot be used were a warning. */
static void read_copies(const struct rd_pool *pool, struct ctl_pool_stats *stats)
{
	struct rd_copies copies;
	u64 frames, blocks;

	stats->copies = CTL_UNKNOWN;
	if (rd_copies_open(&copies, pool->path, pool->area.super.uuid, false))
		return;
	rd_copies_count(&copies, &frames, &blocks);
	stats->copies = blocks * RD_BLOCK_SIZE;
	stats->copies_beside = rd_copies_are_beside(pool->path);
	rd_copies_close(&copies);
}

static void read_elsewhere(struct ctl *ctl, struct rd_buffer *volumes)
{
	RD_BUFFER struct rd_buffer all = { 0 };
	const struct ctl_elsewhere *one;
	struct ctl_volume_stats *volume;

	ctl_elsewhere_read(ctl->pool->path, &all);
	rd_each(one, &all)
		rd_each(volume, volumes)
			if (!strcmp(volume->name, one->volume) &&
			    (volume->elsewhere == CTL_UNKNOWN ||
			     volume->elsewhere < (u64)one->time))
				volume->elsewhere = one->time;
}

static int read_boots(struct ctl *ctl, struct rd_buffer *volumes)
{
	RD_BUFFER struct rd_buffer tests = { 0 };
	const struct ctl_boot_test *test;
	struct ctl_volume_stats *volume;
	int r = ctl_boot_tests_last(ctl, &tests);

	rd_each(test, &tests) {
		rd_each(volume, volumes) {
			if (strcmp(volume->name, test->volume))
				continue;
			volume->boot_time = test->time;
			volume->boot_passed = test->passed;
			volume->boot_number = test->number;
		}
	}
	return r;
}

int ctl_pool_stats(struct ctl *ctl, struct ctl_pool_stats *ret, struct rd_buffer *volumes)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return r;
	r = read_pool(ctl, ret);
	if (!r)
		r = read_volumes(ctl, ret, volumes);
	if (!r)
		r = rd_versions_held(ctl->pool->sql, &ret->held, &ret->held_logical);
	if (!r)
		r = read_boots(ctl, volumes);
	rd_sql_end_read(ctl->pool->sql);
	if (r)
		return r;
	read_copies(ctl->pool, ret);
	read_elsewhere(ctl, volumes);
	ctl_last_check_read(ctl, &ret->check);
	ctl_last_scrub_read(ctl, &ret->scrub);
	ctl_scrub_part_read(ctl, &ret->part);
	ret->deduped = ctl_last_dedup_read(ctl);
	return 0;
}

/* --- printing */

const char *ctl_free_print(char text[CTL_FREE_TEXT], const struct ctl_pool_stats *stats)
{
	const char *free = ctl_size(stats->free);

	if (stats->in_rados)
		snprintf(text, CTL_FREE_TEXT, "%s until the pool's limit, if the cluster has room",
			 free);
	else if (stats->avail == CTL_UNKNOWN)
		snprintf(text, CTL_FREE_TEXT, "%s of %s on the device", free,
			 ctl_size(stats->size));
	else if (stats->avail < stats->limit)
		snprintf(text, CTL_FREE_TEXT, "%s on the file system (pool limit: %s more)", free,
			 ctl_size(stats->limit));
	else
		snprintf(text, CTL_FREE_TEXT, "%s until the pool's limit (%s on the file system)",
			 free, ctl_size(stats->avail));
	return text;
}

const char *ctl_copies_place(const struct ctl_pool_stats *stats)
{
	return stats->copies_beside ? "on a disk of the pool itself: it is lost with it" :
		"on another disk";
}

const char *ctl_compression_print(char text[CTL_COMPRESSION_TEXT],
				  struct rd_compression compression)
{
	if (compression.codec == DMR_CODEC_RAW)
		snprintf(text, CTL_COMPRESSION_TEXT, "none");
	else
		snprintf(text, CTL_COMPRESSION_TEXT, "zstd:%d", compression.level);
	return text;
}

void ctl_json_free(struct ctl *ctl, const struct ctl_pool_stats *stats)
{
	rd_json_add(&ctl->out, "bytes_free=%llu bytes_free_limit=%llu", stats->free, stats->limit);
	if (stats->avail != CTL_UNKNOWN)
		rd_json_u64(&ctl->out, "bytes_free_filesystem", stats->avail);
}
