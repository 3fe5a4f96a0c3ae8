// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl stats: how much is in the pool.
 */
#include <stdio.h>
#include <string.h>

#include "pool/engine/care/isolation.h"
#include "bar.h"
#include "poolstats.h"
#include "tune.h"

static void print_json(struct ctl *ctl, const struct ctl_pool_stats *stats,
		       const struct rd_buffer *volumes)
{
	const struct ctl_volume_stats *volume;
	char compression[CTL_COMPRESSION_TEXT];
	struct rd_json *out = &ctl->out;

	rd_each(volume, volumes)
		ctl_json(ctl, "volume",
			 "volume=%s versions=%llu bytes_logical=%llu bytes_latest=%llu",
			 volume->name, volume->row.versions, volume->row.logical,
			 volume->row.latest_size);
	ctl_json_begin(ctl, "pool");
	rd_json_add(out, "pool=%s volumes=%llu versions=%llu bytes_logical=%llu versions_held=%llu",
		    ctl->pool->path, stats->volumes, stats->versions, stats->logical, stats->held);
	rd_json_add(out, "bytes_held=%llu bytes_unique=%llu bytes_data=%llu bytes_packed=%llu",
		    stats->held_logical, stats->unique, stats->data, stats->packed);
	rd_json_add(out, "bytes_dead=%llu bytes_queued=%llu", stats->dead, stats->queued);
	if (stats->copies != CTL_UNKNOWN)
		rd_json_u64(out, "bytes_copies", stats->copies);
	rd_json_add(out, "bytes_catalog=%llu bytes_fingerprints=%llu bytes_journal=%llu",
		    stats->catalog, stats->fps, stats->journal);
	rd_json_string(out, "compression",
		       ctl_compression_print(compression, stats->compression));
	ctl_json_rule(ctl, stats->rule);
	rd_json_add(out, "segments=%llu segments_fresh=%llu frames=%llu frames_free=%llu",
		    stats->recipes, stats->fresh, stats->frames, stats->frames_free);
	ctl_json_free(ctl, stats);
	ctl_json_end(ctl);
}

static void print_volumes(const struct rd_buffer *volumes)
{
	const struct ctl_volume_stats *volume;
	int width = 20;
	u64 most = 0;
	unsigned int room;

	rd_each(volume, volumes) {
		width = rd_max(width, (int)strlen(volume->name));
		most = rd_max(most, volume->row.logical);
	}
	room = ctl_bar_room(width + 34 + (rd_verbosity > 0 ? 21 : 0));
	printf("%-*s  %8s  %10s  %10s%s\n", width, "VOLUME", "VERSIONS", "LOGICAL", "LATEST",
	       rd_verbosity > 0 ? "  LATEST TIME" : "");
	rd_each(volume, volumes) {
		printf("%-*s  %8llu  %10s  %10s", width, volume->name, volume->row.versions,
		       ctl_size(volume->row.logical), ctl_size(volume->row.latest_size));
		if (rd_verbosity > 0)
			printf("  %s", ctl_time(volume->row.time));
		if (room) {
			fputs("  ", stdout);
			ctl_bar_share(volume->row.logical, most, room);
		}
		putchar('\n');
	}
	putchar('\n');
}

/* Packs, and what becomes one; nothing where there is no compression at all. */
static void print_packed(const struct ctl_pool_stats *stats)
{
	char new[CTL_COMPRESSION_TEXT];

	if (!stats->packed && stats->compression.codec == DMR_CODEC_RAW)
		return;
	printf("packed:   %s, %s of it dead; new content: %s\n", ctl_size(stats->packed),
	       ctl_size(stats->dead), ctl_compression_print(new, stats->compression));
}

static void print_index(const struct ctl_pool_stats *stats)
{
	printf("index:    %s", ctl_size(stats->catalog + stats->fps + stats->journal));
	if (rd_verbosity > 0)
		printf(" (catalog %s, fingerprints %s, journal %s)", ctl_size(stats->catalog),
		       ctl_size(stats->fps), ctl_size(stats->journal));
	putchar('\n');
}

static void print_text(const struct ctl_pool_stats *stats, const struct rd_buffer *volumes)
{
	char free[CTL_FREE_TEXT];

	if (stats->volumes)
		print_volumes(volumes);
	printf("logical:  %s\n", ctl_size(stats->logical));
	if (stats->held)
		printf("in use:   %llu deleted version%s still read (%s)\n", stats->held,
		       stats->held == 1 ? "" : "s", ctl_size(stats->held_logical));
	printf("unique:   %s\n", ctl_size(stats->unique));
	printf("stored:   %s", ctl_size(stats->data));
	if (stats->data)
		printf(" (ratio %.1f:1)", (double)stats->logical / stats->data);
	putchar('\n');
	print_packed(stats);
	if (rd_rule_is_chosen(stats->rule))
		printf("rule:     pieces %u, dedup %s\n", stats->rule.pieces,
		       ctl_dedup_name(stats->rule));
	print_index(stats);
	if (stats->copies != CTL_UNKNOWN)
		printf("copies:   %s, %s\n", ctl_size(stats->copies), ctl_copies_place(stats));
	if (stats->fresh)
		printf("fresh:    %llu of %llu segments, which the next pass compares with all\n",
		       stats->fresh, stats->recipes);
	printf("free:     %s\n", ctl_free_print(free, stats));
	if (rd_verbosity > 0)
		printf("frames:   %llu of %llu are free, %llu more are being freed\n",
		       stats->frames_free, stats->frames, stats->waiting);
}

static int show_pool(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	struct ctl_pool_stats stats;
	int r;

	r = ctl_pool_stats(ctl, &stats, &volumes);
	if (!r && ctl->json)
		print_json(ctl, &stats, &volumes);
	else if (!r)
		print_text(&stats, &volumes);
	return r;
}

/* --- isolation */

static double share(double part, u64 whole)
{
	return whole ? part / whole : 0;
}

static void json_hurt(struct rd_json *out, const struct rd_hurt *hurt)
{
	rd_json_add(out, "volumes_sum=%llu volumes_worst=%u versions_sum=%llu versions_worst=%u",
		    hurt->volumes, hurt->worst.volumes, hurt->versions, hurt->worst.versions);
}

static void print_isolation_json(struct ctl *ctl, const struct rd_isolation *all)
{
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, "isolation");
	rd_json_add(out, "volumes=%llu versions=%llu frames=%llu",
		    all->volumes, all->versions, all->frames);
	json_hurt(out, &all->hurt);
	if (all->has_copies) {
		rd_json_begin(out, "with_copies", '{');
		json_hurt(out, &all->with_copies);
		rd_json_end(out, '}');
	}
	ctl_json_end(ctl);
}

static void print_part(const char *what, u64 sum, u64 worst, u64 frames, u64 all)
{
	double mean = share(sum, frames);

	printf("  %-9s mean %.2f of %llu (%.1f%%), worst %llu (%.1f%%)\n", what, mean, all,
	       100 * share(mean, all), worst, 100 * share(worst, all));
}

static void print_hurt(const struct rd_isolation *all, const struct rd_hurt *hurt)
{
	print_part("volumes:", hurt->volumes, hurt->worst.volumes, all->frames, all->volumes);
	print_part("versions:", hurt->versions, hurt->worst.versions, all->frames, all->versions);
}

static int show_isolation(struct ctl *ctl)
{
	struct rd_isolation all;
	int r;

	r = rd_isolation(ctl->pool, &all);
	if (r)
		return r;
	if (ctl->json) {
		print_isolation_json(ctl, &all);
		return 0;
	}
	printf("hurt by a lost frame of %llu:\n", all.frames);
	print_hurt(&all, &all.hurt);
	if (all.has_copies) {
		puts("the same, with the copies on another disk:");
		print_hurt(&all, &all.with_copies);
	}
	return 0;
}

int cmd_stats(struct ctl *ctl)
{
	int r = ctl_open(ctl, RD_POOL_READ);

	return r ? r : ctl_has(ctl, CTL_OPT_ISOLATION) ? show_isolation(ctl) : show_pool(ctl);
}
