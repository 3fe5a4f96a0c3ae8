// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl stats: how much is in the pool.
 *
 *	logical	the sizes of versions together
 *	held	versions that are deleted, and that a device still reads
 *	data	the blocks that are kept for all of them, each once
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../pool/cleanup.h"
#include "ctl.h"

struct volume {
	char name[CTL_NAME_MAX + 1];
	u64 versions, logical, latest;
};

struct stats {
	u64 volumes, versions, logical, held, held_logical, data, catalog;
	u64 frames, frames_free;
};

/* --- numbers */

static int add_file(const struct ctl *ctl, const char *name, u64 *bytes)
{
	RD_FREE char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%s/%s", ctl->pool->path, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	/* The log of the catalog need not be there. */
	if (!stat(path, &st))
		*bytes += st.st_size;
	return 0;
}

static int read_pool(struct ctl *ctl, struct stats *stats)
{
	struct rd_sql *sql = ctl->pool->sql;
	i64 blocks, frames_free;
	int r;

	r = rd_sql_number(sql, &blocks, "SELECT coalesce(sum(n), 0) FROM here", "");
	if (!r)
		r = rd_sql_number(sql, &frames_free,
				  "SELECT coalesce(sum(len), 0) FROM extent", "");
	if (!r)
		r = add_file(ctl, "catalog.db", &stats->catalog);
	if (!r)
		r = add_file(ctl, "catalog.db-wal", &stats->catalog);
	if (r)
		return r;
	stats->data = (u64)blocks * RD_BLOCK_SIZE;
	stats->frames = ctl->pool->area.super.nr_frames;
	stats->frames_free = frames_free;
	return 0;
}

static int read_volumes(struct ctl *ctl, struct stats *stats, struct rd_buffer *volumes)
{
	RD_ROW struct rd_row *row = NULL;
	struct volume volume;
	int r;

	/* With max(), size is that of the row where the number is the greatest. */
	r = rd_sql_ask(ctl->pool->sql, &row, "SELECT name, count(*), sum(size), max(number), size"
		       " FROM version JOIN volume ON volume.id = volume"
		       " WHERE " RD_VERSION_EXISTS " GROUP BY volume ORDER BY name", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		snprintf(volume.name, sizeof(volume.name), "%s", rd_row_text(row, 0));
		volume.versions = rd_row_i64(row, 1);
		volume.logical = rd_row_i64(row, 2);
		volume.latest = rd_row_i64(row, 4);
		stats->volumes++;
		stats->versions += volume.versions;
		stats->logical += volume.logical;
		rd_buffer_put(volumes, &volume, sizeof(volume));
		r = volumes->failed ? -ENOMEM : 0;
	}
	return r;
}

static int read_held(struct ctl *ctl, struct stats *stats)
{
	RD_ROW struct rd_row *row = NULL;
	int r;

	r = rd_sql_ask(ctl->pool->sql, &row, "SELECT count(*), coalesce(sum(size), 0) FROM version"
		       " WHERE state = ?", "i", (i64)RD_VERSION_HELD);
	if (!r)
		r = rd_row_next(row);
	if (r < 0)
		return r;
	stats->held = rd_row_i64(row, 0);
	stats->held_logical = rd_row_i64(row, 1);
	return 0;
}

/* --- printing */

static void print_json(struct ctl *ctl, const struct stats *stats,
		       const struct volume *volumes)
{
	struct rd_json *out = &ctl->out;
	u64 i;

	for (i = 0; i < stats->volumes; i++) {
		ctl_json_begin(ctl, "volume");
		rd_json_string(out, "volume", volumes[i].name);
		rd_json_u64(out, "versions", volumes[i].versions);
		rd_json_u64(out, "bytes_logical", volumes[i].logical);
		rd_json_u64(out, "bytes_latest", volumes[i].latest);
		ctl_json_end(ctl);
	}
	ctl_json_begin(ctl, "pool");
	rd_json_string(out, "pool", ctl->pool->path);
	rd_json_u64(out, "volumes", stats->volumes);
	rd_json_u64(out, "versions", stats->versions);
	rd_json_u64(out, "bytes_logical", stats->logical);
	rd_json_u64(out, "versions_held", stats->held);
	rd_json_u64(out, "bytes_held", stats->held_logical);
	rd_json_u64(out, "bytes_data", stats->data);
	rd_json_u64(out, "bytes_catalog", stats->catalog);
	rd_json_u64(out, "frames", stats->frames);
	rd_json_u64(out, "frames_free", stats->frames_free);
	ctl_json_end(ctl);
}

static void print_text(const struct stats *stats, const struct volume *volumes)
{
	char a[CTL_SIZE_TEXT], b[CTL_SIZE_TEXT];
	u64 i;

	printf("%-20s  %8s  %10s  %10s\n", "VOLUME", "VERSIONS", "LOGICAL", "LATEST");
	for (i = 0; i < stats->volumes; i++)
		printf("%-20s  %8llu  %10s  %10s\n", volumes[i].name, volumes[i].versions,
		       ctl_size_print(a, volumes[i].logical),
		       ctl_size_print(b, volumes[i].latest));
	printf("\nlogical:  %s\n", ctl_size_print(a, stats->logical));
	if (stats->held)
		printf("held:     %s, %llu deleted that devices still read\n",
		       ctl_size_print(a, stats->held_logical), stats->held);
	printf("data:     %s", ctl_size_print(a, stats->data));
	if (stats->data)
		printf(", 1/%.1f of it", (double)stats->logical / stats->data);
	printf("\ncatalog:  %s\n", ctl_size_print(a, stats->catalog));
	printf("free:     %llu of %llu frames, %s\n", stats->frames_free, stats->frames,
	       ctl_size_print(a, stats->frames_free * RD_SEG_SIZE));
}

static int read_all(struct ctl *ctl, struct stats *stats, struct rd_buffer *volumes)
{
	int r;

	r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return r;
	r = read_pool(ctl, stats);
	if (!r)
		r = read_volumes(ctl, stats, volumes);
	if (!r)
		r = read_held(ctl, stats);
	rd_sql_end_read(ctl->pool->sql);
	return r;
}

int cmd_stats(struct ctl *ctl)
{
	struct rd_buffer volumes = { 0 };
	struct stats stats = { 0 };
	int r;

	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = read_all(ctl, &stats, &volumes);
	if (!r && ctl->json)
		print_json(ctl, &stats, (struct volume *)volumes.data);
	else if (!r)
		print_text(&stats, (struct volume *)volumes.data);
	rd_buffer_free(&volumes);
	return ctl_close(ctl, r);
}
