// SPDX-License-Identifier: GPL-2.0
/* The numbers of a report: the pool, and what sets of versions hold; see report.h. */
#include <errno.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/sort.h"
#include "pool/engine/care/holders.h"
#include "boottest.h"
#include "elsewhere.h"
#include "keep.h"
#include "poolstats.h"
#include "report.h"

/* The page of 5000 versions is to stay under 5 MiB, and most of it are maps and sets. */
#define MAX_CELLS	2000000U
#define MAX_PARTS	384U
#define MIN_PARTS	24U
#define MAX_SETS	50000U

/* --- the pool */

static void write_result(struct rd_json *out, const char *key, const struct ctl_last_scrub *last)
{
	if (last->time == CTL_UNKNOWN) {
		rd_json_string(out, key, NULL);
		return;
	}
	rd_json_begin(out, key, '{');
	rd_json_add(out, "time=%llu versions=%llu fingerprints=%llu catalog=%llu", last->time,
		    last->versions, last->fingerprints, last->wrong);
	rd_json_end(out, '}');
}

static void write_pool(struct ctl *ctl, const struct ctl_pool_stats *stats)
{
	struct rd_json *out = &ctl->out;

	rd_json_add(out, "pool=%s made=%lld program=%s", ctl_pool_name(ctl), (i64)time(NULL),
		    RD_VERSION);
	rd_json_add(out, "bytes_logical=%llu bytes_data=%llu bytes_packed=%llu bytes_unique=%llu",
		    stats->logical, stats->data, stats->packed, stats->unique);
	rd_json_add(out, "bytes_index=%llu versions=%llu versions_held=%llu all_volumes=%d",
		    stats->catalog + stats->fps + stats->journal, stats->versions, stats->held,
		    !ctl->nr_operands);
	if (stats->copies != CTL_UNKNOWN)
		rd_json_u64(out, "bytes_copies", stats->copies);
	ctl_json_free(ctl, stats);
	write_result(out, "last_scrub", &stats->scrub);
	write_result(out, "last_check", &stats->check);
	if (stats->part.next)
		rd_json_u64(out, "scrub_percent", ctl_scrub_part_percent(&stats->part));
	if (stats->deduped != CTL_UNKNOWN)
		rd_json_u64(out, "last_dedup", stats->deduped);
}

/* The rules that a page begins with. */
static void write_rules(struct ctl *ctl, const struct ctl_keep_policy *policy)
{
	unsigned int i;

	rd_json_begin(&ctl->out, "keep", '{');
	for (i = 0; i < CTL_KEEP_COUNTED; i++)
		rd_json_u64(&ctl->out, ctl_keep_names[i], policy->counts[i]);
	rd_json_u64(&ctl->out, "within", policy->within);
	rd_json_begin(&ctl->out, "tags", '[');
	for (i = 0; i < ctl->nr_given; i++)
		if (ctl->given[i].option == CTL_OPT_KEEP_TAG)
			rd_json_string(&ctl->out, NULL, ctl->given[i].value);
	rd_json_end(&ctl->out, ']');
	rd_json_end(&ctl->out, '}');
}

/* --- volumes */

static bool is_wanted(const struct ctl *ctl, const char *name)
{
	int i;

	for (i = 0; i < ctl->nr_operands; i++)
		if (!strcmp(ctl->operands[i], name))
			return true;
	return !ctl->nr_operands;
}

/* Versions of the volumes that are shown: what they share with others is not freed. */
struct shown {
	struct rd_buffer runs;		/* u32 first, and the first behind */
};

static bool is_shown(const struct shown *shown, u32 number)
{
	const u32 *run = (const u32 *)shown->runs.data;
	size_t i;

	for (i = 0; i < shown->runs.len / sizeof(*run); i += 2)
		if (run[i] <= number && number < run[i + 1])
			return true;
	return false;
}

static int read_once(struct ctl *ctl, const struct rd_buffer *volumes, struct ctl_report *ret)
{
	const struct ctl_volume_stats *volume;
	u64 nr = 0;

	rd_each(volume, volumes)
		nr += is_wanted(ctl, volume->name) ? volume->row.versions : 0;
	ret->max_parts = rd_max(rd_min(MAX_CELLS / rd_max(nr, 1ULL), MAX_PARTS), MIN_PARTS);
	ctl_elsewhere_read(ctl->pool->path, &ret->elsewhere);
	return ctl_boot_tests_read(ctl, &ret->boots);
}

static int write_volumes(struct ctl *ctl, const struct ctl_report *report,
			 const struct rd_buffer *stats, struct shown *shown)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume_stats *row;
	u32 run[2] = { 1, 1 };
	int r = 0, damage = 0;

	rd_json_begin(&ctl->out, "volumes", '[');
	rd_each(row, stats) {
		run[0] = run[1];
		run[1] += row->row.versions;
		if (r || !is_wanted(ctl, row->name))
			continue;
		volumes.len = 0;
		r = ctl_volumes(ctl, row->name, &volumes);
		if (!r)
			r = ctl_report_volume(ctl, report, (const struct ctl_volume *)volumes.data,
					      run[0]);
		if (r == CTL_DAMAGE) {
			damage = r;
			r = 0;
		}
		rd_buffer_put(&shown->runs, run, sizeof(run));
	}
	rd_json_end(&ctl->out, ']');
	return r ? r : shown->runs.failed ? -ENOMEM : damage;
}

/* --- sets of versions */

static int compare_bytes(const void *a, const void *b)
{
	const struct rd_held *const *x = a, *const *y = b;

	return rd_order((*y)->bytes, (*x)->bytes) ? : rd_order(*x, *y);
}

static void write_set(struct rd_json *out, const struct rd_held *sets, const struct rd_held *set)
{
	rd_json_begin(out, NULL, '[');
	rd_json_u64(out, NULL, set->bytes);
	for (; set->end; set = &sets[set->rest])
		rd_json_add(out, "%u %u", set->from, set->end);
	rd_json_end(out, ']');
}

static bool has_shown(const struct shown *shown, const struct rd_held *sets,
		      const struct rd_held *set)
{
	for (; set->end; set = &sets[set->rest])
		if (is_shown(shown, set->from))
			return true;
	return false;
}

/* The largest ones; those of volumes that are not shown, and the smallest of very many, are not. */
static int write_sets(struct ctl *ctl, const struct rd_holders *holders,
		      const struct shown *shown)
{
	const struct rd_held *sets = (const struct rd_held *)holders->sets.data;
	size_t i, nr = 0, all = holders->sets.len / sizeof(*sets);
	const struct rd_held **sorted = calloc(all, sizeof(*sorted));
	u64 bytes = 0;

	if (!sorted)
		return -ENOMEM;
	for (i = 1; i < all; i++)
		if (sets[i].bytes && has_shown(shown, sets, &sets[i]))
			sorted[nr++] = &sets[i];
	qsort(sorted, nr, sizeof(*sorted), compare_bytes);
	rd_json_begin(&ctl->out, "held", '[');
	for (i = 0; i < rd_min(nr, MAX_SETS); i++) {
		write_set(&ctl->out, sets, sorted[i]);
		bytes += sorted[i]->bytes;
	}
	rd_json_end(&ctl->out, ']');
	free(sorted);
	rd_json_add(&ctl->out, "held_elsewhere=%llu held_sample=%u", holders->bytes - bytes,
		    holders->every);
	return 0;
}

static int write_holders(struct ctl *ctl, const struct shown *shown)
{
	struct rd_holders holders;
	int r = rd_holders_count(ctl->pool, &holders);

	if (!r)
		r = write_sets(ctl, &holders, shown);
	rd_holders_free(&holders);
	/* A report without these numbers is better than none. */
	return r == -E2BIG ? 0 : r == -EUCLEAN ? CTL_DAMAGE : r;
}

/* --- */

static int write_all(struct ctl *ctl, const struct ctl_keep_policy *policy)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	struct shown shown = { .runs = { 0 } };
	struct ctl_report report = { .max_parts = 0 };
	struct ctl_pool_stats stats;
	int r, damage = 0;

	r = ctl_pool_stats(ctl, &stats, &volumes);
	if (!r) {
		write_pool(ctl, &stats);
		write_rules(ctl, policy);
		r = read_once(ctl, &volumes, &report);
	}
	if (!r)
		r = write_volumes(ctl, &report, &volumes, &shown);
	if (!r || r == CTL_DAMAGE) {
		damage = r;
		r = write_holders(ctl, &shown);
	}
	rd_buffer_free(&report.boots);
	rd_buffer_free(&report.elsewhere);
	rd_buffer_free(&shown.runs);
	return r ? r : damage;
}

int ctl_report_write(struct ctl *ctl, const struct ctl_keep_policy *policy, FILE *out)
{
	int r = rd_sql_begin_read(ctl->pool->sql);

	if (r)
		return r;
	ctl->out = (struct rd_json){ .out = out };
	rd_json_begin(&ctl->out, NULL, '{');
	rd_json_string(&ctl->out, "type", "report");
	r = write_all(ctl, policy);
	rd_json_bool(&ctl->out, "damaged", r == CTL_DAMAGE);
	rd_json_end(&ctl->out, '}');
	rd_sql_end_read(ctl->pool->sql);
	return r;
}
