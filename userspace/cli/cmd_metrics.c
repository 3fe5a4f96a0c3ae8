// SPDX-License-Identifier: GPL-2.0
/*
 * revdedupctl metrics: print numbers of the pool and of attached volumes for Prometheus.
 *
 * Unknown numbers are left out. If the pool cannot be read, the other metrics are printed
 * nevertheless, so that an alert can tell.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "host/volume/attach/health.h"
#include "poolstats.h"
#include "replace.h"

/* Each row begins with the value of its label. */
struct pool_row {
	char name[PATH_MAX];
	u64 up;
	struct ctl_pool_stats stats;
};

struct device_row {
	char name[RD_VOLUME_MAX + 1];
	u64 tracked, attention, version, dirty, segments, lost, away, coming, debt, room;
	u64 dedup_time, dedup_cold, lost_marks;
};

struct metric {
	const char *name;
	const char *help;
	size_t at;
};

#define POOL(field)	offsetof(struct pool_row, stats.field)
#define VOLUME(field)	offsetof(struct ctl_volume_stats, row.field)
#define DEVICE(field)	offsetof(struct device_row, field)

static const struct metric pool_metrics[] = {
	{ "pool_up", "Whether the pool could be read.", offsetof(struct pool_row, up) },
	{ "pool_logical_bytes", "Sum of the sizes of all versions.", POOL(logical) },
	{ "pool_unique_bytes", "Size of the different blocks of all versions.", POOL(unique) },
	{ "pool_data_bytes", "What the blocks stored for all versions take.", POOL(data) },
	{ "pool_packed_bytes", "What packs, which are compressed, take of that.", POOL(packed) },
	{ "pool_dead_bytes", "What blocks that no version has take in packs.", POOL(dead) },
	{ "pool_catalog_bytes", "Size of the catalog.", POOL(catalog) },
	{ "pool_fingerprints_bytes", "Size of the fingerprints of blocks that are not in packs.",
	  POOL(fps) },
	{ "pool_journal_bytes", "Size of the catalog's copy in the data area.", POOL(journal) },
	{ "pool_size_bytes", "Capacity of the data area.", POOL(size) },
	{ "pool_free_bytes", "Space that is left: the pool's limit or the file system's, the smaller one.",
	  POOL(free) },
	{ "pool_limit_free_bytes", "Space that is left until the pool's own limit.", POOL(limit) },
	{ "pool_filesystem_avail_bytes", "Space left in the file system of a sparse data area.",
	  POOL(avail) },
	{ "pool_held_versions", "Deleted versions that a device still reads.", POOL(held) },
	{ "pool_waiting_frames", "Frames whose space is still to be freed.",
	  POOL(waiting) },
	{ "pool_segments", "Contents of segments that are stored.", POOL(recipes) },
	{ "pool_fresh_segments", "Of these, the ones that the next pass of 'dedup' compares with all.",
	  POOL(fresh) },
	{ "pool_dedup_timestamp_seconds", "When a pass of 'dedup' last came to its end.",
	  POOL(deduped) },
	{ "pool_copies_bytes", "What is copied to another disk.", POOL(copies) },
	{ "pool_scrub_timestamp_seconds", "When scrub or repair last read the whole pool.",
	  POOL(scrub.time) },
	{ "pool_scrub_damaged_versions", "Versions that the last full scrub or repair found damaged.",
	  POOL(scrub.versions) },
	{ "pool_scrub_damaged_fingerprints", "Fingerprints that the last full scrub or repair found damaged.",
	  POOL(scrub.fingerprints) },
	{ "pool_scrub_catalog_errors", "Errors of the catalog that the last full scrub or repair found.",
	  POOL(scrub.wrong) },
};

static const struct metric volume_metrics[] = {
	{ "volume_versions", "Versions in the pool.", VOLUME(versions) },
	{ "volume_logical_bytes", "Sum of the sizes of the volume's versions.", VOLUME(logical) },
	{ "volume_latest_bytes", "Size of the newest version.", VOLUME(latest_size) },
	{ "volume_latest_timestamp_seconds", "When the newest version was taken.", VOLUME(time) },
	{ "volume_latest_read_bytes", "Bytes read to take the newest version.",
	  VOLUME(bytes_read) },
	{ "volume_latest_changed_blocks", "Blocks of 4 KiB that changed before the newest version.",
	  VOLUME(blocks_changed) },
	{ "volume_latest_stored_bytes", "Bytes written to the pool for the newest version.",
	  VOLUME(bytes_stored) },
	{ "volume_latest_consistent", "Whether nothing was written while the newest version was read.",
	  VOLUME(is_consistent) },
	{ "volume_inconsistent_versions", "Versions that may have been written while they were read.",
	  VOLUME(inconsistent) },
	{ "volume_elsewhere_timestamp_seconds", "When the newest version was taken that 'send' knows in another pool.",
	  offsetof(struct ctl_volume_stats, elsewhere) },
	{ "volume_boot_test_passed", "Whether the last version came up that was booted for trial.",
	  offsetof(struct ctl_volume_stats, boot_passed) },
	{ "volume_boot_test_timestamp_seconds", "When that was.",
	  offsetof(struct ctl_volume_stats, boot_time) },
};

static const struct metric device_metrics[] = {
	{ "device_needs_attention", "Whether status reports a problem.",
	  DEVICE(attention) },
	{ "device_tracked", "Whether changes are tracked.", DEVICE(tracked) },
	{ "device_tracking_lost", "Whether the next snapshot reads everything.", DEVICE(lost) },
	{ "device_version", "The newest version that the target knows.", DEVICE(version) },
	{ "device_segments", "Segments of 2 MiB.", DEVICE(segments) },
	{ "device_dirty_segments", "Segments that the next snapshot reads.", DEVICE(dirty) },
	{ "device_away_bytes", "Content that lies in the pool, or is zeros.", DEVICE(away) },
	{ "device_hydration_left_bytes", "Content in the pool that is still to be copied back.",
	  DEVICE(coming) },
	{ "device_pool_dependent_bytes", "Content that only the pool has.", DEVICE(debt) },
	{ "device_thin_free_bytes", "Space that is left in the thin pool below such a volume.",
	  DEVICE(room) },
	{ "device_dedup_last_success_timestamp_seconds",
	  "When trim or offload of the volume last ended without an error.", DEVICE(dedup_time) },
	{ "device_dedup_cold_versions", "What offload has raised --cold to, as too much came home.",
	  DEVICE(dedup_cold) },
	{ "device_dedup_lost_marks_total",
	  "How often these had to begin with a window again, as the volume was suspended.",
	  DEVICE(lost_marks) },
};

/* --- printing */

static void print_label(FILE *out, const char *text)
{
	while (*text) {
		if (*text == '\\' || *text == '"')
			fputc('\\', out);
		if (*text != '\n') {
			text += rd_utf8_put(text, out);
			continue;
		}
		fputs("\\n", out);
		text++;
	}
}

static const char *type_of(const struct metric *metric)
{
	size_t len = strlen(metric->name);

	return len > 6 && !strcmp(metric->name + len - 6, "_total") ? "counter" : "gauge";
}

/* Print all samples of a metric together, behind its two comments. */
static void print_metric(FILE *out, const struct metric *metric, const char *label,
			 const struct rd_buffer *rows, size_t size)
{
	bool begun = false;
	size_t at;
	u64 value;

	for (at = 0; at < rows->len; at += size) {
		memcpy(&value, rows->data + at + metric->at, sizeof(value));
		if (value == CTL_UNKNOWN)
			continue;
		if (!begun)
			fprintf(out, "# HELP revdedup_%s %s\n# TYPE revdedup_%s %s\n",
				metric->name, metric->help, metric->name, type_of(metric));
		begun = true;
		fprintf(out, "revdedup_%s{%s=\"", metric->name, label);
		print_label(out, (const char *)rows->data + at);
		fprintf(out, "\"} %llu\n", value);
	}
}

#define PRINT(out, metrics, label, rows, type)						\
	do {										\
		unsigned int nr_;							\
											\
		for (nr_ = 0; nr_ < ARRAY_SIZE(metrics); nr_++)				\
			print_metric(out, &(metrics)[nr_], label, rows, sizeof(type));	\
	} while (0)

/* --- the pool */

/* Print the pool's metrics; nothing if no pool is named. */
static int print_pool(struct ctl *ctl, FILE *out)
{
	RD_BUFFER struct rd_buffer pools = { 0 }, volumes = { 0 };
	const char *path = ctl_pool_path(ctl);
	struct ctl_pool_stats stats;
	struct pool_row row;
	int r;

	if (!path)
		return 0;
	/* All numbers are unknown. */
	memset(&row, 0xff, sizeof(row));
	snprintf(row.name, sizeof(row.name), "%s", path);
	r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = ctl_pool_stats(ctl, &stats, &volumes);
	if (!r)
		row.stats = stats;
	r = ctl_close(ctl, r);
	row.up = !r;
	rd_buffer_put(&pools, &row, sizeof(row));
	PRINT(out, pool_metrics, "pool", &pools, struct pool_row);
	PRINT(out, volume_metrics, "volume", &volumes, struct ctl_volume_stats);
	return pools.failed ? -ENOMEM : r;
}

/* --- devices */

static void read_device(const struct rd_attachment *at, struct device_row *row)
{
	const struct rd_target_status *target;
	struct rd_health health;

	memset(row, 0xff, sizeof(*row));
	snprintf(row->name, sizeof(row->name), "%s", at->volume);
	rd_health_check(&health, at);
	target = &health.target;
	row->attention = !!health.problem;
	row->dedup_time = at->dedup_time ? at->dedup_time : CTL_UNKNOWN;
	row->dedup_cold = at->dedup_cold ? at->dedup_cold : CTL_UNKNOWN;
	row->lost_marks = at->dedup_time || at->dedup_lost_marks ? at->dedup_lost_marks :
		CTL_UNKNOWN;
	row->tracked = health.stack == RD_STACK_UP;
	if (!row->tracked)
		return;
	row->version = target->version;
	row->dirty = target->nr_dirty;
	row->segments = target->nr_segs;
	row->lost = target->is_lost;
	row->away = (target->nr_zero + target->nr_pool) * RD_BLOCK_SIZE;
	row->coming = target->hydration_left * RD_BLOCK_SIZE;
	row->debt = health.debt;
	row->room = health.is_thin ? health.room : CTL_UNKNOWN;
}

static int print_devices(FILE *out)
{
	RD_BUFFER struct rd_buffer all = { 0 }, rows = { 0 };
	const struct rd_attachment *at;
	struct device_row row;
	int r;

	r = rd_attachments(&all);
	fprintf(out, "# HELP revdedup_attachments_up Whether all attachments of this host could be read.\n"
		"# TYPE revdedup_attachments_up gauge\n"
		"revdedup_attachments_up %d\n", !r);
	rd_each(at, &all) {
		read_device(at, &row);
		rd_buffer_put(&rows, &row, sizeof(row));
	}
	PRINT(out, device_metrics, "volume", &rows, struct device_row);
	return rows.failed ? -ENOMEM : r;
}

/* --- where to */

static int print_all(struct ctl *ctl, FILE *out)
{
	int pool, devices;

	fputs("# HELP revdedup_build_info Version of the program that wrote this.\n"
	      "# TYPE revdedup_build_info gauge\n"
	      "revdedup_build_info{version=\"" RD_VERSION "\"} 1\n", out);
	pool = print_pool(ctl, out);
	devices = print_devices(out);
	return pool ? pool : devices;
}

static int print_to_file(struct ctl *ctl, const char *path)
{
	RD_FREE char *tmp = NULL;
	FILE *out = ctl_replace_named(path, &tmp);
	int r, done;

	if (!out)
		return rd_err(-errno, "cannot write '%s'", path);
	r = print_all(ctl, out);
	done = ctl_replace_end(out, tmp, 0644);
	if (done)
		rd_err(done, "cannot write '%s'", path);
	return r ? r : done;
}

int cmd_metrics(struct ctl *ctl)
{
	const char *path = ctl_value(ctl, CTL_OPT_OUTPUT);

	if (ctl_has(ctl, CTL_OPT_TEXTFILE) && !path)
		path = CTL_METRICS_FILE;
	return path ? print_to_file(ctl, path) : print_all(ctl, stdout);
}
