// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl stats: how much is in the pool.
 */
#include <stdio.h>

#include "poolstats.h"

static void print_json(struct ctl *ctl, const struct ctl_pool_stats *stats,
		       const struct ctl_volume_stats *volumes)
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

static void print_text(const struct ctl_pool_stats *stats,
		       const struct ctl_volume_stats *volumes)
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
		printf("held:     %s, by %llu deleted versions that devices still read\n",
		       ctl_size_print(a, stats->held_logical), stats->held);
	printf("data:     %s", ctl_size_print(a, stats->data));
	if (stats->data)
		printf(", ratio %.1f to 1", (double)stats->logical / stats->data);
	printf("\ncatalog:  %s\n", ctl_size_print(a, stats->catalog));
	printf("free:     %llu of %llu frames, %s\n", stats->frames_free, stats->frames,
	       ctl_size_print(a, stats->frames_free * RD_SEG_SIZE));
}

int cmd_stats(struct ctl *ctl)
{
	struct rd_buffer volumes = { 0 };
	struct ctl_pool_stats stats;
	int r;

	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = ctl_pool_stats(ctl, &stats, &volumes);
	if (!r && ctl->json)
		print_json(ctl, &stats, (struct ctl_volume_stats *)volumes.data);
	else if (!r)
		print_text(&stats, (struct ctl_volume_stats *)volumes.data);
	rd_buffer_free(&volumes);
	return ctl_close(ctl, r);
}
