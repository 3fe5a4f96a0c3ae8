// SPDX-License-Identifier: GPL-2.0
/* A volume in a report: its versions, what changed between them, how the newest one lies. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/catalog/segments.h"
#include "describe.h"
#include "elsewhere.h"
#include "keep.h"
#include "map.h"
#include "report.h"

struct report_volume {
	struct ctl *ctl;
	struct rd_json *out;
	const struct ctl_described *list;
	size_t nr;
	struct ctl_map map;
};

/* --- maps */

static void put_text(struct report_volume *volume, const char *key, char *text)
{
	size_t len = volume->map.parts;

	/* Nothing at the end is left out. */
	while (len && text[len - 1] == '.')
		len--;
	text[len] = '\0';
	rd_json_string(volume->out, key, text);
}

static int write_changes(struct report_volume *volume)
{
	RD_BUFFER struct rd_buffer texts = { 0 };
	size_t i;
	int r;

	r = ctl_map_changes(volume->ctl, &volume->map, volume->list, volume->nr, &texts);
	rd_json_begin(volume->out, "changed", '[');
	for (i = 0; i < volume->nr && !r; i++)
		put_text(volume, NULL, ctl_map_text(&volume->map, &texts, i));
	rd_json_end(volume->out, ']');
	return r;
}

static int read_latest(struct report_volume *volume, struct rd_latest_part *parts)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_latest_part part;
	int r;

	r = rd_latest_parts(volume->ctl->pool->sql, &rows, &volume->list[volume->nr - 1].v.version,
			    volume->map.parts, volume->map.nr_segs);
	while (!r && (r = rd_next_latest_part(rows, &part)) > 0) {
		if (part.part < volume->map.parts)
			parts[part.part] = part;
		r = 0;
	}
	return r;
}

/* @at: which of the numbers of a part. */
static void put_latest(struct report_volume *volume, const char *key,
		       const struct rd_latest_part *parts, char *text, size_t at)
{
	u64 i, nr;

	for (i = 0; i < volume->map.parts; i++) {
		memcpy(&nr, (const u8 *)&parts[i] + at, sizeof(nr));
		text[i] = ctl_map_share(&volume->map, i, nr);
	}
	put_text(volume, key, text);
}

static int write_latest(struct report_volume *volume)
{
	RD_FREE struct rd_latest_part *parts = calloc(volume->map.parts, sizeof(*parts));
	RD_FREE char *text = malloc(volume->map.parts + 1);
	int r = parts && text ? read_latest(volume, parts) : -ENOMEM;

	if (!r) {
		rd_json_begin(volume->out, "newest", '{');
		put_latest(volume, "one_piece", parts, text,
			   offsetof(struct rd_latest_part, whole));
		put_latest(volume, "several_pieces", parts, text,
			   offsetof(struct rd_latest_part, several));
		put_latest(volume, "packed", parts, text, offsetof(struct rd_latest_part, packed));
		rd_json_end(volume->out, '}');
	}
	return r;
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
	char state[CTL_STATE_TEXT];

	COLUMN(volume, "number", "%lld", version->number);
	COLUMN(volume, "time", "%lld", version->time);
	COLUMN(volume, "local", "%s", ctl_time(version->time));
	COLUMN(volume, "size", "%llu", version->size);
	COLUMN(volume, "bytes_changed", "%llu", version->blocks_changed * RD_BLOCK_SIZE);
	COLUMN(volume, "bytes_stored", "%llu", version->bytes_stored);
	write_unique(volume);
	COLUMN(volume, "in_use", "%d", row->in_use);
	COLUMN(volume, "protected", "%d", version->is_protected);
	COLUMN(volume, "state", "%s", ctl_state_print(state, row));
	COLUMN(volume, "tags", "%s", row->tags);
	COLUMN(volume, "comment", "%s", version->comment);
	/* Time 0: it was not booted. */
	COLUMN(volume, "boot_time", "%llu", row->boot.time);
	COLUMN(volume, "boots", "%d", row->boot.passed);
	write_periods(volume);
}

static void write_elsewhere(struct report_volume *volume, const struct rd_buffer *elsewhere,
			    const char *name)
{
	const struct ctl_elsewhere *one;

	rd_json_begin(volume->out, "elsewhere", '[');
	rd_each(one, elsewhere)
		if (!strcmp(one->volume, name))
			rd_json_add(volume->out, "{ number=%lld time=%lld pool=%s }", one->number,
				    one->time, one->to);
	rd_json_end(volume->out, ']');
}

static int write_volume(struct report_volume *volume, const struct rd_buffer *elsewhere,
			const char *name, u32 first)
{
	int r;

	rd_json_add(volume->out, "{ name=%s first=%u", name, first);
	write_versions(volume);
	write_elsewhere(volume, elsewhere, name);
	rd_json_add(volume->out, "segments=%llu parts=%llu",
		    volume->map.nr_segs, volume->map.parts);
	r = write_changes(volume);
	if (!r)
		r = write_latest(volume);
	rd_json_end(volume->out, '}');
	return r;
}

int ctl_report_volume(struct ctl *ctl, const struct ctl_report *report,
		      const struct ctl_volume *volume, u32 first)
{
	struct rd_buffer described = { 0 };
	struct report_volume row = { .ctl = ctl, .out = &ctl->out };
	int r = ctl_describe_volume(ctl, volume, &described), damage = 0;

	if (r == CTL_DAMAGE) {
		damage = r;
		r = 0;
	}
	row.list = (const struct ctl_described *)described.data;
	row.nr = described.len / sizeof(*row.list);
	ctl_describe_boots(&report->boots, (struct ctl_described *)described.data, row.nr);
	ctl_map_init(&row.map, volume->id, row.list, row.nr, report->max_parts);
	if (!r && row.nr)
		r = write_volume(&row, &report->elsewhere, volume->name, first);
	ctl_described_free(&described);
	return r ? r : damage;
}
