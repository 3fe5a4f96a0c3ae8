// SPDX-License-Identifier: GPL-2.0
/*
 * How much is in the pool.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "poolstats.h"

static int add_file(const struct ctl *ctl, const char *name, u64 *bytes)
{
	RD_FREE char *path = rd_path_in(ctl->pool->path, name);
	struct stat st;

	if (!path)
		return -ENOMEM;
	/* The log of the catalog need not be there. */
	if (!stat(path, &st))
		*bytes += st.st_size;
	return 0;
}

static int read_pool(struct ctl *ctl, struct ctl_pool_stats *stats)
{
	static const char *const questions[] = {
		"SELECT coalesce(sum(n), 0) FROM slot_owner",
		"SELECT coalesce(sum(len), 0) FROM extent",
		"SELECT count(*) FROM queue",
	};
	i64 answers[ARRAY_SIZE(questions)];
	unsigned int i;
	int r = 0;

	for (i = 0; i < ARRAY_SIZE(questions) && !r; i++)
		r = rd_sql_number(ctl->pool->sql, &answers[i], questions[i], "");
	if (!r)
		r = add_file(ctl, "catalog.db", &stats->catalog);
	if (!r)
		r = add_file(ctl, "catalog.db-wal", &stats->catalog);
	if (!r)
		r = add_file(ctl, "catalog.db-pages", &stats->catalog);
	if (r)
		return r;
	stats->data = answers[0] * RD_BLOCK_SIZE;
	stats->frames = ctl->pool->area.super.nr_frames;
	stats->frames_free = answers[1];
	stats->waiting = answers[2];
	return 0;
}

static int read_volumes(struct ctl *ctl, struct ctl_pool_stats *stats,
			struct rd_buffer *volumes)
{
	RD_ROW struct rd_row *row = NULL;
	struct ctl_volume_stats volume;
	int r;

	/* With max(), the other columns are those of the row where it is. */
	r = rd_sql_ask(ctl->pool->sql, &row, "SELECT name, count(*), sum(size), max(number), size,"
		       " time, bytes_read, blocks_changed, bytes_stored, consistent,"
		       " sum(NOT consistent)"
		       " FROM version JOIN volume ON volume.id = volume"
		       " WHERE " RD_VERSION_EXISTS " GROUP BY volume ORDER BY name", "");
	while (!r && (r = rd_row_next(row)) > 0) {
		snprintf(volume.name, sizeof(volume.name), "%s", rd_row_text(row, 0));
		volume.versions = rd_row_i64(row, 1);
		volume.logical = rd_row_i64(row, 2);
		volume.latest = rd_row_i64(row, 4);
		volume.time = rd_row_i64(row, 5);
		volume.read = rd_row_i64(row, 6);
		volume.changed = rd_row_i64(row, 7);
		volume.stored = rd_row_i64(row, 8);
		volume.consistent = rd_row_i64(row, 9);
		volume.inconsistent = rd_row_i64(row, 10);
		stats->volumes++;
		stats->versions += volume.versions;
		stats->logical += volume.logical;
		rd_buffer_put(volumes, &volume, sizeof(volume));
		r = volumes->failed ? -ENOMEM : 0;
	}
	return r;
}

static int read_held(struct ctl *ctl, struct ctl_pool_stats *stats)
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
		r = read_held(ctl, ret);
	rd_sql_end_read(ctl->pool->sql);
	return r;
}
