// SPDX-License-Identifier: GPL-2.0
/* Report damage of the pool as damage of versions. */
#include <errno.h>
#include <stdio.h>

#include "base/sort.h"
#include "pool/engine/care/copy.h"
#include "pool/engine/care/damage.h"
#include "pool/engine/read/restore.h"
#include "cli.h"

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

/* Print a line: the range, and the @nr versions that have it. */
static void print_range(const char *volume, const struct damaged *damaged, size_t nr)
{
	char text[MAX_NUMBERS * 24 + 40], *end = text;
	size_t i;

	for (i = 0; i < nr && i < MAX_NUMBERS; i++)
		end += sprintf(end, "%s%lld", i ? ", " : "", damaged[i].number);
	if (nr > MAX_NUMBERS)
		sprintf(end, " and %zu more versions", nr - MAX_NUMBERS);
	rd_err(0, "damaged: offset %llu, length %llu in %s@%s", damaged->offset, damaged->len,
	       volume, text);
}

u64 ctl_damage_print(const char *volume, struct rd_buffer *damage, u64 *lines_left)
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
			print_range(volume, &list[i], end - i);
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
	const struct rd_bad_row *rows;	/* of the volume */
	size_t nr_rows;
	struct rd_buffer damage;	/* of the volume, as text */
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

static void print_json(struct ctl *ctl, const struct ctl_version *version,
		       const struct rd_restore_report *report)
{
	ctl_json_version_begin(ctl, version);
	ctl_json_bad(ctl, report);
	ctl_json_end(ctl);
}

static int tell_version(struct telling *telling, const struct ctl_version *version)
{
	struct rd_restore_report report = { 0 };
	i64 number = version->version.number;
	size_t i;
	int r;

	for (i = 0; i < telling->nr_rows; i++)
		if (telling->rows[i].born <= number && number <= telling->rows[i].until)
			add_range(&report.bad, &version->version, &telling->rows[i]);
	r = report.bad.failed ? -ENOMEM : 0;
	telling->nr_versions++;
	telling->nr_damaged += report.bad.len != 0;
	if (!r && telling->ctl->json)
		print_json(telling->ctl, version, &report);
	else if (!r)
		ctl_damage_add(&telling->damage, number, &report.bad);
	rd_buffer_free(&report.bad);
	return r;
}

static int tell_volume(struct telling *telling, const struct ctl_volume *volume,
		       const struct rd_damage_report *report)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	const struct rd_bad_row *rows = (const struct rd_bad_row *)report->rows.data;
	size_t i, nr = report->rows.len / sizeof(*rows);
	const struct ctl_version *version;
	int r;

	for (i = 0; i < nr && rows[i].volume != volume->id; i++)
		;
	telling->rows = rows + i;
	for (telling->nr_rows = 0; i < nr && rows[i].volume == volume->id; i++)
		telling->nr_rows++;
	r = ctl_versions(telling->ctl, volume, &versions);
	rd_each(version, &versions)
		if (!r)
			r = tell_version(telling, version);
	if (!r && telling->damage.failed)
		r = -ENOMEM;
	if (!r)
		telling->nr_not_told += ctl_damage_print(volume->name, &telling->damage,
							 &telling->lines_left);
	rd_buffer_free(&telling->damage);
	return r;
}

int ctl_tell_damage(struct ctl *ctl, const struct rd_damage_report *report, u64 max_lines,
		    u64 *ret_versions, u64 *ret_damaged)
{
	struct telling telling = { .ctl = ctl, .lines_left = max_lines };
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	int r;

	r = ctl_volumes(ctl, NULL, &volumes);
	rd_each(volume, &volumes)
		if (!r)
			r = tell_volume(&telling, volume, report);
	if (telling.nr_not_told)
		rd_err(0, "and %llu more ranges: 'revdedupctl scrub' lists all of them",
		       telling.nr_not_told);
	if (report->rows_left_out)
		rd_err(0, "and more than fit into the list");
	*ret_versions = telling.nr_versions;
	*ret_damaged = telling.nr_damaged;
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
