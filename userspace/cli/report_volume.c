// SPDX-License-Identifier: GPL-2.0
/* A volume in a report: its versions, what changed between them, how the newest one lies. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/segments.h"
#include "describe.h"
#include "elsewhere.h"
#include "keep.h"
#include "report.h"

struct part_counts {
	u64 nr, zeros;
};

struct report_volume {
	struct ctl *ctl;
	struct rd_json *out;
	i64 id;
	const struct ctl_described *list;
	size_t nr;
	u64 parts, nr_segs;
	struct part_counts *counts;	/* of each part */
	char *text;			/* a character a part, and a zero */
};

/* --- maps */

/* The segments of a part. */
static u64 size_of(const struct report_volume *volume, u64 part)
{
	u64 begin = (part * volume->nr_segs + volume->parts - 1) / volume->parts;
	u64 end = ((part + 1) * volume->nr_segs + volume->parts - 1) / volume->parts;

	return end - begin;
}

static char share(const struct report_volume *volume, u64 part, u64 nr)
{
	u64 size = size_of(volume, part);
	u64 step = size ? (rd_min(nr, size) * 35 + size - 1) / size : 0;

	return step ? "0123456789abcdefghijklmnopqrstuvwxyz"[step] : '.';
}

/* Nothing at the end is left out. */
static void put_text(struct report_volume *volume, const char *key)
{
	size_t len = volume->parts;

	while (len && volume->text[len - 1] == '.')
		len--;
	volume->text[len] = '\0';
	rd_json_string(volume->out, key, volume->text);
}

static void put_changes(struct report_volume *volume)
{
	const struct part_counts *count = volume->counts;
	u64 part;

	for (part = 0; part < volume->parts; part++, count++)
		volume->text[part] = count->nr && count->nr == count->zeros ? '_' :
			share(volume, part, count->nr);
	put_text(volume, NULL);
	memset(volume->counts, 0, volume->parts * sizeof(*volume->counts));
}

/* A version has what was born in those before it that were deleted. */
static int write_changes(struct report_volume *volume)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_segment_part part;
	size_t at = 0;
	int r;

	rd_json_begin(volume->out, "changed", '[');
	r = rd_segment_parts(volume->ctl->pool->sql, &rows, volume->id, volume->parts,
			     volume->nr_segs);
	while (!r && (r = rd_next_segment_part(rows, &part)) > 0) {
		r = 0;
		for (; at < volume->nr && volume->list[at].v.version.number < part.born; at++)
			put_changes(volume);
		if (part.part >= volume->parts)
			continue;
		volume->counts[part.part].nr += part.nr;
		volume->counts[part.part].zeros += part.zeros;
	}
	for (; at < volume->nr; at++)
		put_changes(volume);
	rd_json_end(volume->out, ']');
	return r;
}

/* How many segments of a part have a property. */
static u64 zero_in(const struct report_volume *volume, const struct rd_latest_part *part)
{
	return size_of(volume, part->part) - rd_min(part->whole + part->several,
						    size_of(volume, part->part));
}

static u64 several_in(const struct report_volume *volume, const struct rd_latest_part *part)
{
	(void)volume;
	return part->several;
}

static u64 packed_in(const struct report_volume *volume, const struct rd_latest_part *part)
{
	(void)volume;
	return part->packed;
}

static void put_latest(struct report_volume *volume, const char *key,
		       const struct rd_buffer *parts,
		       u64 (*in)(const struct report_volume *, const struct rd_latest_part *))
{
	const struct rd_latest_part *part;
	struct rd_latest_part none = { 0 };

	for (; none.part < volume->parts; none.part++)
		volume->text[none.part] = share(volume, none.part, in(volume, &none));
	rd_each(part, parts)
		volume->text[part->part] = share(volume, part->part, in(volume, part));
	put_text(volume, key);
}

static int write_latest(struct report_volume *volume)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_buffer parts = { 0 };
	struct rd_latest_part part;
	int r;

	r = rd_latest_parts(volume->ctl->pool->sql, &rows, volume->id, volume->parts,
			    volume->nr_segs);
	while (!r && (r = rd_next_latest_part(rows, &part)) > 0) {
		if (part.part < volume->parts)
			rd_buffer_put(&parts, &part, sizeof(part));
		r = parts.failed ? -ENOMEM : 0;
	}
	rd_json_begin(volume->out, "newest", '{');
	put_latest(volume, "zeros", &parts, zero_in);
	put_latest(volume, "several_pieces", &parts, several_in);
	put_latest(volume, "packed", &parts, packed_in);
	rd_json_end(volume->out, '}');
	rd_buffer_free(&parts);
	return r;
}

static int write_maps(struct report_volume *volume)
{
	RD_FREE struct part_counts *counts = calloc(volume->parts, sizeof(*counts));
	RD_FREE char *text = malloc(volume->parts + 1);
	int r;

	if (!counts || !text)
		return -ENOMEM;
	volume->counts = counts;
	volume->text = text;
	rd_json_u64(volume->out, "segments", volume->nr_segs);
	rd_json_u64(volume->out, "parts", volume->parts);
	r = write_changes(volume);
	return r ? r : write_latest(volume);
}

/* --- versions */

#define COLUMN(volume, key, fmt, value)							\
	do {										\
		const struct ctl_described *row;					\
		const struct rd_version *version;					\
											\
		rd_json_begin((volume)->out, key, '[');					\
		for (row = (volume)->list; row < (volume)->list + (volume)->nr; row++) {	\
			version = &row->v.version;					\
			(void)version;							\
			rd_json_add((volume)->out, fmt, value);				\
		}									\
		rd_json_end((volume)->out, ']');					\
	} while (0)

/* Those that the rules of prune count by, so that a page need not know the zone. */
static void write_periods(struct report_volume *volume)
{
	COLUMN(volume, "hour", "%lld", ctl_keep_period(CTL_KEEP_HOURLY, version->time));
	COLUMN(volume, "day", "%lld", ctl_keep_period(CTL_KEEP_DAILY, version->time));
	COLUMN(volume, "month", "%lld", ctl_keep_period(CTL_KEEP_MONTHLY, version->time));
}

/* It is null where it is not known. */
static void write_unique(struct report_volume *volume)
{
	size_t i;

	rd_json_begin(volume->out, "bytes_unique", '[');
	for (i = 0; i < volume->nr; i++)
		if (volume->list[i].unique == CTL_UNKNOWN)
			rd_json_string(volume->out, NULL, NULL);
		else
			rd_json_u64(volume->out, NULL, volume->list[i].unique);
	rd_json_end(volume->out, ']');
}

static void write_versions(struct report_volume *volume)
{
	char text[CTL_TIME_TEXT], state[CTL_STATE_TEXT];

	COLUMN(volume, "number", "%lld", version->number);
	COLUMN(volume, "time", "%lld", version->time);
	COLUMN(volume, "local", "%s", ctl_time_print(text, version->time));
	COLUMN(volume, "size", "%llu", version->size);
	COLUMN(volume, "bytes_changed", "%llu", version->blocks_changed * RD_BLOCK_SIZE);
	COLUMN(volume, "bytes_stored", "%llu", version->bytes_stored);
	write_unique(volume);
	COLUMN(volume, "protected", "%d", version->is_protected);
	COLUMN(volume, "state", "%s", ctl_state_print(state, row));
	COLUMN(volume, "tags", "%s", row->tags);
	COLUMN(volume, "comment", "%s", version->comment);
	write_periods(volume);
}

static void write_elsewhere(struct report_volume *volume, const char *name)
{
	struct rd_buffer all = { 0 };
	const struct ctl_elsewhere *one;

	ctl_elsewhere_read(volume->ctl->pool->path, &all);
	rd_json_begin(volume->out, "elsewhere", '[');
	rd_each(one, &all)
		if (!strcmp(one->volume, name))
			rd_json_add(volume->out, "{ number=%lld time=%lld pool=%s }", one->number,
				    one->time, one->to);
	rd_json_end(volume->out, ']');
	rd_buffer_free(&all);
}

static u64 largest(const struct report_volume *volume)
{
	u64 size = RD_SEG_SIZE;
	size_t i;

	for (i = 0; i < volume->nr; i++)
		size = rd_max(size, volume->list[i].v.version.size);
	return rd_nr_segs(size);
}

static int write_volume(struct report_volume *volume, const char *name, u32 first)
{
	int r;

	rd_json_begin(volume->out, NULL, '{');
	rd_json_string(volume->out, "name", name);
	rd_json_u64(volume->out, "first", first);
	write_versions(volume);
	write_elsewhere(volume, name);
	r = write_maps(volume);
	rd_json_end(volume->out, '}');
	return r;
}

int ctl_report_volume(struct ctl *ctl, const struct ctl_volume *volume, u32 first, u64 max_parts,
		      u32 *ret_nr)
{
	struct rd_buffer described = { 0 };
	struct report_volume report = { .ctl = ctl, .out = &ctl->out, .id = volume->id };
	int r = ctl_describe_volume(ctl, volume, &described), damage = 0;

	if (r == CTL_DAMAGE) {
		damage = r;
		r = 0;
	}
	report.list = (const struct ctl_described *)described.data;
	report.nr = described.len / sizeof(*report.list);
	*ret_nr = report.nr;
	report.nr_segs = largest(&report);
	report.parts = rd_min(report.nr_segs, max_parts);
	if (!r && report.nr)
		r = write_volume(&report, volume->name, first);
	ctl_described_free(&described);
	return r ? r : damage;
}
