// SPDX-License-Identifier: GPL-2.0
/* revdedupctl list: a table of versions. A column that would be empty is left out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "bar.h"
#include "map.h"

/* What the table needs, and how wide. */
struct table {
	int name, state, tags;		/* 0: no such column */
	int comment;
	const struct map_text *maps;
	unsigned int map;		/* how wide they are; 0: no such column */
};

struct map_text {
	char text[CTL_BAR_WIDTH + 1];
};

/* --- which, in what order */

/* What --sort is by. Where that is not known, it may be great. */
enum sort {
	SORT_NOT,
	SORT_TIME,
	SORT_SIZE,
	SORT_CHANGED,
	SORT_UNIQUE,
};

struct chosen {
	u64 newest;		/* of each volume; U64_MAX: all */
	enum sort sort;
	const struct ctl_described **rows;
	size_t nr;
};

static int read_options(const struct ctl *ctl, struct chosen *ret)
{
	static const char *const names[] = { "", "time", "size", "changed", "unique" };
	const char *sort = ctl_value(ctl, CTL_OPT_SORT);
	unsigned int i = SORT_TIME;

	*ret = (struct chosen){ .newest = U64_MAX };
	while (sort && i < ARRAY_SIZE(names) && strcmp(names[i], sort))
		i++;
	if (sort && i == ARRAY_SIZE(names))
		return ctl_usage(ctl, "--sort is time, size, changed or unique, not '%s'", sort);
	ret->sort = sort ? i : SORT_NOT;
	return ctl_value_number(ctl, CTL_OPT_NEWEST, 1, INT64_MAX, &ret->newest);
}

static u64 key_of(const struct ctl_described *row, enum sort sort)
{
	return sort == SORT_TIME ? (u64)row->v.version.time :
		sort == SORT_SIZE ? row->v.version.size :
		sort == SORT_CHANGED ? row->v.version.blocks_changed : row->unique;
}

static int compare(const void *a, const void *b, void *ctx)
{
	const struct ctl_described *x = *(const struct ctl_described *const *)a;
	const struct ctl_described *y = *(const struct ctl_described *const *)b;
	const struct chosen *chosen = ctx;
	u64 one = key_of(x, chosen->sort), other = key_of(y, chosen->sort);

	return rd_order(one, other) ? : rd_order(x, y);
}

/* Of each volume the last ones of @list: it has all versions of a volume in a row. */
static int choose(struct chosen *chosen, const struct ctl_described *list, size_t nr)
{
	size_t i, k, behind = 0;

	chosen->rows = calloc(nr + 1, sizeof(*chosen->rows));
	if (!chosen->rows)
		return -ENOMEM;
	for (i = nr, k = nr; i--;) {
		behind = i + 1 < nr && !strcmp(list[i].v.volume, list[i + 1].v.volume) ?
			behind + 1 : 0;
		if (behind < chosen->newest)
			chosen->rows[--k] = &list[i];
	}
	chosen->nr = nr - k;
	memmove(chosen->rows, chosen->rows + k, chosen->nr * sizeof(*chosen->rows));
	if (chosen->sort)
		qsort_r(chosen->rows, chosen->nr, sizeof(*chosen->rows), compare, chosen);
	return 0;
}

/* --- the table */

static void measure(struct table *table, const struct chosen *chosen)
{
	char state[CTL_STATE_TEXT];
	size_t i;

	table->name = strlen("VERSION");
	for (i = 0; i < chosen->nr; i++) {
		const struct ctl_described *row = chosen->rows[i];

		table->name = rd_max(table->name, strlen(row->v.name));
		table->state = rd_max(table->state, strlen(ctl_state_print(state, row)));
		table->tags = rd_max(table->tags, strlen(row->tags));
		table->comment = rd_max(table->comment, (int)strlen(row->v.version.comment));
	}
	if (table->state)
		table->state = rd_max(table->state, strlen("STATE"));
	if (table->tags)
		table->tags = rd_max(table->tags, strlen("TAGS"));
}

static unsigned int width_of(const struct table *table)
{
	/* The columns that are always there, and READ and WRITTEN. */
	unsigned int width = table->name + 2 + 19 + 3 * 12 + (rd_verbosity > 0 ? 2 * 12 : 0);

	return width + (table->state ? table->state + 2 : 0) +
		(table->tags ? table->tags + 2 : 0) + (table->comment ? table->comment + 2 : 0);
}

static void print_headings(const struct table *table)
{
	printf("%-*s  %-19s  %10s  %10s", table->name, "VERSION", "TIME", "SIZE", "CHANGED");
	if (rd_verbosity > 0)
		printf("  %10s  %10s", "READ", "WRITTEN");
	printf("  %10s", "UNIQUE");
	if (table->map)
		printf("  %-*s", (int)table->map, "WHERE");
	if (table->state)
		printf("  %-*s", table->state, "STATE");
	if (table->tags)
		printf("  %-*s", table->tags, "TAGS");
	puts(table->comment ? "  COMMENT" : "");
}

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

static void print_row(const struct table *table, const struct ctl_described *row, size_t i)
{
	const struct rd_version *version = &row->v.version;
	char state[CTL_STATE_TEXT];

	printf("%-*s  %-19s", table->name, row->v.name, ctl_time(version->time));
	printf("  %10s", ctl_size(version->size));
	printf("  %10s", ctl_size(version->blocks_changed * RD_BLOCK_SIZE));
	if (rd_verbosity > 0) {
		printf("  %10s", ctl_size(version->bytes_read));
		printf("  %10s", ctl_size(version->bytes_stored));
	}
	printf("  %10s", row->unique == CTL_UNKNOWN ? "?" : ctl_size(row->unique));
	if (table->map) {
		fputs("  ", stdout);
		ctl_bar_map(table->maps[i].text, table->map);
	}
	if (table->state)
		printf("  %-*s", table->state, or_dash(ctl_state_print(state, row)));
	if (table->tags)
		printf("  %-*s", table->tags, or_dash(row->tags));
	if (table->comment) {
		fputs("  ", stdout);
		ctl_print_comment(or_dash(version->comment));
	}
	putchar('\n');
}

/* @maps: a struct map_text for each, or nothing. */
static int print_all(struct ctl *ctl, struct chosen *chosen, const struct rd_buffer *described,
		     const struct rd_buffer *maps)
{
	const struct ctl_described *list = (const struct ctl_described *)described->data;
	struct table table = { 0 };
	size_t i;
	int r = choose(chosen, list, described->len / sizeof(*list));

	if (r)
		return r;
	measure(&table, chosen);
	table.maps = (const struct map_text *)maps->data;
	table.map = maps->len ? ctl_bar_room(width_of(&table)) : 0;
	if (chosen->nr && !ctl->json)
		print_headings(&table);
	for (i = 0; i < chosen->nr; i++) {
		if (!ctl->json) {
			print_row(&table, chosen->rows[i], chosen->rows[i] - list);
			continue;
		}
		ctl_json_described(ctl, chosen->rows[i]);
		ctl_json_end(ctl);
	}
	free(chosen->rows);
	return 0;
}

/* --- what is on its way */

static void print_partial(struct ctl *ctl, const struct ctl_version *partial)
{
	u64 size = partial->version.size;
	u64 there = rd_min((u64)partial->version.cursor << RD_SEG_SHIFT, size);

	if (ctl->json) {
		ctl_json(ctl, "arriving", "version=%s volume=%s size=%llu arrived=%llu",
			 partial->name, partial->volume, size, there);
		return;
	}
	printf("%s is arriving: %.0f %% of %s is there, and 'receive' or 'send' goes on\n",
	       partial->name, size ? 100.0 * there / size : 0, ctl_size(size));
}

static int add_partial(struct ctl *ctl, const struct ctl_volume *volume, struct rd_buffer *to)
{
	struct ctl_name name = { .kind = CTL_NAME_VOLUME };
	struct ctl_version partial;
	int r;

	snprintf(name.volume, sizeof(name.volume), "%s", volume->name);
	r = ctl_find_partial(ctl, &name, &partial);
	if (!r)
		rd_buffer_put(to, &partial, sizeof(partial));
	return r == -ENOENT ? 0 : r;
}

static void print_partials(struct ctl *ctl, const struct rd_buffer *partials)
{
	const struct ctl_version *partial;

	rd_each(partial, partials)
		print_partial(ctl, partial);
}

/* --- the command */

/* What a list is made of. */
struct listed {
	struct rd_buffer described, partials;
	struct rd_buffer maps;		/* struct map_text each, where there may be room for them */
	bool is_damaged;
};

/* Note damage, which hides nothing. */
static int without_damage(struct listed *listed, int r)
{
	listed->is_damaged |= r == CTL_DAMAGE;
	return r == CTL_DAMAGE ? 0 : r;
}

/* Of the versions from place @begin on, all of the volume. */
static int add_maps(struct ctl *ctl, const struct ctl_volume *volume, struct listed *listed,
		    size_t begin)
{
	RD_BUFFER struct rd_buffer texts = { 0 };
	const struct ctl_described *list = (const struct ctl_described *)listed->described.data;
	size_t i, nr = listed->described.len / sizeof(*list) - begin;
	struct map_text map_text;
	struct ctl_map map;
	int r;

	if (ctl->json || !ctl_bar_room(0))
		return 0;
	ctl_map_init(&map, volume->id, list + begin, nr, CTL_BAR_WIDTH);
	r = ctl_map_changes(ctl, &map, list + begin, nr, &texts);
	for (i = 0; i < nr && !r; i++) {
		snprintf(map_text.text, sizeof(map_text.text), "%s",
			 ctl_map_text(&map, &texts, i));
		r = rd_buffer_put(&listed->maps, &map_text, sizeof(map_text));
	}
	return r;
}

/* @name: NULL: of all volumes. */
static int add_volumes(struct ctl *ctl, const char *name, struct listed *listed)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	const struct ctl_volume *volume;
	int r = ctl_volumes(ctl, name, &volumes);
	size_t begin;

	rd_each(volume, &volumes) {
		begin = listed->described.len / sizeof(struct ctl_described);
		if (!r)
			r = without_damage(listed, ctl_describe_volume(ctl, volume,
								       &listed->described));
		if (!r)
			r = add_maps(ctl, volume, listed, begin);
		if (!r)
			r = add_partial(ctl, volume, &listed->partials);
	}
	return r;
}

static int add_moment(struct ctl *ctl, const struct ctl_name *name, struct listed *listed)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	const struct ctl_version *version;
	int r = ctl_find_each(ctl, name, &versions);

	rd_each(version, &versions) {
		struct ctl_described described = { .v = *version };

		if (!r)
			r = without_damage(listed, ctl_describe(ctl, &described));
		if (!r)
			r = rd_buffer_put(&listed->described, &described, sizeof(described));
	}
	return r;
}

/* @name: NULL: all. */
static int list_all(struct ctl *ctl, const struct ctl_name *name, struct chosen *chosen)
{
	struct listed listed = { .is_damaged = false };
	RD_BUFFER struct rd_buffer boots = { 0 };
	int r;

	/* Read one state of the catalog, whatever other commands do meanwhile. */
	r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return r;
	r = name && name->kind == CTL_NAME_MOMENT ? add_moment(ctl, name, &listed) :
		add_volumes(ctl, name ? name->volume : NULL, &listed);
	rd_sql_end_read(ctl->pool->sql);
	if (!r)
		r = ctl_boot_tests_read(ctl, &boots);
	if (!r) {
		ctl_describe_boots(&boots, (struct ctl_described *)listed.described.data,
				   listed.described.len / sizeof(struct ctl_described));
		r = print_all(ctl, chosen, &listed.described, &listed.maps);
		print_partials(ctl, &listed.partials);
	}
	rd_buffer_free(&listed.partials);
	rd_buffer_free(&listed.maps);
	ctl_described_free(&listed.described);
	return r ? r : listed.is_damaged ? CTL_DAMAGE : 0;
}

int cmd_list(struct ctl *ctl)
{
	struct chosen chosen;
	struct ctl_name name;
	int r = read_options(ctl, &chosen);

	if (!r && ctl->nr_operands)
		r = ctl_versions_operand(ctl, 0, true, &name);
	if (!r && ctl->nr_operands && name.kind != CTL_NAME_MOMENT)
		r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	return r ? r : list_all(ctl, ctl->nr_operands ? &name : NULL, &chosen);
}
