// SPDX-License-Identifier: GPL-2.0
/* Report damage of the pool as damage of versions. */
#include <errno.h>
#include <stdio.h>

#include "base/sort.h"
#include "pool/engine/care/copy.h"
#include "pool/engine/care/damage.h"
#include "pool/engine/read/restore.h"
#include "pool/engine/space/hold.h"
#include "cli.h"
#include "reader.h"

/* --- ranges, and the versions of a volume that have them */

struct damaged {
	u64 offset, len;
	i64 number;		/* of the version */
};

/* More versions than this are counted, not listed. */
#define MAX_NUMBERS	16

void ctl_damage_add(struct rd_buffer *damage, i64 number, const struct rd_buffer *ranges)
{
	const struct rd_bad_range *range;
	struct damaged damaged;

	rd_each(range, ranges) {
		damaged = (struct damaged){ range->offset, range->len, number };
		rd_buffer_put(damage, &damaged, sizeof(damaged));
	}
}

static int compare_damage(const void *a, const void *b)
{
	const struct damaged *x = a, *y = b;

	return rd_order(x->offset, y->offset) ? : rd_order(x->len, y->len) ? :
		rd_order(x->number, y->number);
}

/* Print a line: the range, the @nr versions that have it, and @more. */
static void print_range(const char *volume, const struct damaged *damaged, size_t nr,
			const char *more)
{
	char text[MAX_NUMBERS * 24 + 40], *end = text;
	size_t i;

	for (i = 0; i < nr && i < MAX_NUMBERS; i++)
		end += sprintf(end, "%s%lld", i ? ", " : "", damaged[i].number);
	if (nr > MAX_NUMBERS)
		sprintf(end, " and %zu more versions", nr - MAX_NUMBERS);
	rd_err(0, "damaged: offset %llu, length %llu in %s@%s%s", damaged->offset, damaged->len,
	       volume, text, more);
}

u64 ctl_damage_print(const char *volume, struct rd_buffer *damage, const char *more,
		     u64 *lines_left)
{
	struct damaged *list = (struct damaged *)damage->data;
	size_t i, end, nr = damage->len / sizeof(*list);
	u64 nr_not_told = 0;

	rd_sort_buffer(damage, sizeof(*list), compare_damage);
	for (i = 0; i < nr; i = end) {
		for (end = i + 1; end < nr && list[end].offset == list[i].offset &&
		     list[end].len == list[i].len; end++)
			;
		if (*lines_left) {
			print_range(volume, &list[i], end - i, more);
			--*lines_left;
		} else {
			nr_not_told++;
		}
	}
	return nr_not_told;
}

/* --- damage of the pool */

struct telling {
	struct ctl *ctl;
	const struct rd_damage_report *report;
	const struct rd_bad_row *rows;	/* of the volume */
	size_t nr_rows;
	struct rd_buffer damage;	/* of the volume, as text */
	struct rd_buffer told;		/* ids of damaged versions */
	u64 lines_left;
	u64 nr_not_told;
	u64 nr_versions, nr_damaged;
};

/* Add a range. Rows are sorted, and those of one version do not overlap. */
static void add_range(struct rd_buffer *list, const struct rd_version *version,
		      const struct rd_bad_row *row)
{
	u64 offset = (row->segment << RD_SEG_SHIFT) + (u64)row->block * RD_BLOCK_SIZE;
	u64 end = rd_min(offset + (u64)row->nr * RD_BLOCK_SIZE,
			 rd_round_up(version->size, RD_BLOCK_SIZE));
	struct rd_bad_range *last, range = { .offset = offset, .len = end - offset };

	if (end <= offset)
		return;
	last = list->len ? (struct rd_bad_range *)(list->data + list->len) - 1 : NULL;
	if (last && last->offset + last->len >= offset)
		last->len = rd_max(last->len, end - last->offset);
	else
		rd_buffer_put(list, &range, sizeof(range));
}

/* Choose the rows of a volume. */
static void choose_rows(struct telling *telling, i64 volume)
{
	const struct rd_bad_row *rows = (const struct rd_bad_row *)telling->report->rows.data;
	size_t i, nr = telling->report->rows.len / sizeof(*rows);

	for (i = 0; i < nr && rows[i].volume != volume; i++)
		;
	telling->rows = rows + i;
	for (telling->nr_rows = 0; i < nr && rows[i].volume == volume; i++)
		telling->nr_rows++;
}

/* Find out which ranges of @version are damaged: those of the rows of its volume. */
static int find_ranges(struct telling *telling, const struct rd_version *version,
		       struct rd_restore_report *ret)
{
	size_t i;
	int r;

	for (i = 0; i < telling->nr_rows; i++)
		if (telling->rows[i].born <= version->number &&
		    version->number <= telling->rows[i].until)
			add_range(&ret->bad, version, &telling->rows[i]);
	r = ret->bad.failed ? -ENOMEM : 0;
	if (!r && ret->bad.len) {
		telling->nr_damaged++;
		r = rd_buffer_put(&telling->told, &version->id, sizeof(version->id));
	}
	return r;
}

static bool was_told(const struct telling *telling, const struct rd_version *version)
{
	const i64 *id;

	rd_each(id, &telling->told)
		if (*id == version->id)
			return true;
	return false;
}

/* @reader: what still reads a version that was deleted, or NULL. */
static void print_json(struct ctl *ctl, const struct ctl_version *version,
		       const struct rd_restore_report *report, const struct ctl_reader *reader)
{
	ctl_json_version_begin(ctl, version);
	if (reader)
		rd_json_add(&ctl->out, "deleted=%d reader=%s", true, reader->name);
	ctl_json_bad(ctl, report);
	ctl_json_end(ctl);
}

static int tell_version(struct telling *telling, const struct ctl_version *version)
{
	struct rd_restore_report report = { 0 };
	int r;

	telling->nr_versions++;
	r = find_ranges(telling, &version->version, &report);
	if (!r && telling->ctl->json)
		print_json(telling->ctl, version, &report, NULL);
	else if (!r)
		ctl_damage_add(&telling->damage, version->version.number, &report.bad);
	rd_buffer_free(&report.bad);
	return r;
}

static int print_noted(struct telling *telling, const char *volume, const char *more)
{
	int r = telling->damage.failed ? -ENOMEM : 0;

	if (!r)
		telling->nr_not_told += ctl_damage_print(volume, &telling->damage, more,
							 &telling->lines_left);
	rd_buffer_free(&telling->damage);
	return r;
}

static int tell_volume(struct telling *telling, const struct ctl_volume *volume)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	const struct ctl_version *version;
	int r;

	choose_rows(telling, volume->id);
	r = ctl_versions(telling->ctl, volume, &versions);
	rd_each(version, &versions)
		if (!r)
			r = tell_version(telling, version);
	return r ? r : print_noted(telling, volume->name, "");
}

static int print_held(struct telling *telling, const struct ctl_version *version,
		      const struct rd_restore_report *report, const struct rd_lease *lease)
{
	char more[RD_DEVICE_MAX + 64];
	struct ctl_reader reader;

	ctl_reader_find(telling->ctl->pool, lease, &reader);
	if (telling->ctl->json) {
		print_json(telling->ctl, version, report, &reader);
		return 0;
	}
	snprintf(more, sizeof(more), " (deleted, still read by %s)", reader.name);
	ctl_damage_add(&telling->damage, version->version.number, &report->bad);
	return print_noted(telling, version->volume, more);
}

/* A deleted version is told, and counted, only if it is damaged: for users it is gone. */
static int tell_leased(struct telling *telling, const struct rd_lease *lease)
{
	struct rd_restore_report report = { 0 };
	struct ctl_version version;
	int r;

	r = ctl_find_leased(telling->ctl, lease, &version);
	if (r)
		return r == -ENOENT ? 0 : r;
	if (version.version.state != RD_VERSION_HELD || was_told(telling, &version.version))
		return 0;
	choose_rows(telling, version.version.volume);
	r = find_ranges(telling, &version.version, &report);
	if (!r && report.bad.len) {
		telling->nr_versions++;
		r = print_held(telling, &version, &report, lease);
	}
	rd_buffer_free(&report.bad);
	return r;
}

/*
 * Tell of damaged versions that are deleted, and that something still reads, such as a clone that
 * copies nothing: what only these have is in use as the content of a disk.
 */
static int tell_held(struct telling *telling)
{
	RD_BUFFER struct rd_buffer leases = { 0 };
	const struct rd_lease *lease;
	int r = rd_lease_list(telling->ctl->pool->sql, NULL, &leases);

	rd_each(lease, &leases)
		if (!r && !rd_hold_is_over(telling->ctl->pool, lease))
			r = tell_leased(telling, lease);
	return r;
}

int ctl_tell_damage(struct ctl *ctl, const struct rd_damage_report *report, u64 max_lines,
		    u64 *ret_versions, u64 *ret_damaged)
{
	struct telling telling = { .ctl = ctl, .report = report, .lines_left = max_lines };
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	int r;

	r = ctl_volumes(ctl, NULL, &volumes);
	rd_each(volume, &volumes)
		if (!r)
			r = tell_volume(&telling, volume);
	if (!r)
		r = tell_held(&telling);
	if (telling.nr_not_told)
		rd_err(0, "and %llu more ranges: 'revdedupctl scrub' lists all of them",
		       telling.nr_not_told);
	if (report->rows_left_out)
		rd_err(0, "and more than fit into the list");
	*ret_versions = telling.nr_versions;
	*ret_damaged = telling.nr_damaged;
	rd_buffer_free(&telling.damage);
	rd_buffer_free(&telling.told);
	return r;
}

/* --- copies */

void ctl_tell_moved(const struct ctl *ctl)
{
	if (ctl->pool->is_of_another)
		rd_hint("what the host that owns the pool has moved or freed meanwhile looks damaged here: repeat the command");
}

void ctl_tell_copies(struct ctl *ctl, const struct rd_copy_check *copies)
{
	u64 left = copies->damaged - copies->healed - copies->dropped;

	if (!copies->any)
		return;
	if (ctl->json)
		ctl_json(ctl, "copies",
			 "blocks=%llu blocks_damaged=%llu blocks_healed=%llu blocks_dropped=%llu",
			 copies->blocks, copies->damaged, copies->healed, copies->dropped);
	else if (!ctl->quiet && copies->healed + copies->dropped)
		printf("%llu damaged copies were made again, %llu were dropped\n", copies->healed,
		       copies->dropped);
	if (!left)
		return;
	rd_warn("%llu of %llu copies are damaged", left, copies->blocks);
	rd_hint("no version is damaged by that; 'revdedupctl repair' makes them again from the pool");
}
