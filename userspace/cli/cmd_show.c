// SPDX-License-Identifier: GPL-2.0
/* revdedupctl show: describe a version. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/uuid.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "bar.h"
#include "map.h"
#include "snapshot.h"

#define WINDOW	1024

struct counts {
	u64 segments, zero, whole;
};

static int count_segments(struct ctl *ctl, const struct rd_version *version,
			  struct counts *counts)
{
	u64 first, nr = rd_nr_segs(version->size);
	i64 recipes[WINDOW];
	unsigned int i, len;
	unsigned int pieces;
	int r = 0;

	*counts = (struct counts){ .segments = nr };
	for (first = 0; first < nr && !r; first += len) {
		len = rd_min(WINDOW, nr - first);
		r = rd_segments_read(ctl->pool->sql, version->volume, version->number, first,
				     len, recipes);
		for (i = 0; i < len && !r; i++) {
			counts->zero += !recipes[i];
			if (!recipes[i])
				continue;
			r = rd_recipe_noted_pieces(ctl->pool->sql, recipes[i], &pieces);
			counts->whole += !r && pieces == 1;
		}
		if (!r)
			r = rd_pool_progress(ctl->pool, "show", (first + len) << RD_SEG_SHIFT,
					     nr << RD_SEG_SHIFT);
	}
	return r;
}

static const char *consistency_of(const struct rd_version *version)
{
	if (version->is_consistent)
		return rd_version_is_by_list(version) ?
			"yes, if the list of changes lacked none" : "yes";
	return rd_version_is_by_list(version) ? "no: a list of changes lacked one" :
		"no: it may have been written while it was read";
}

/* Name the version of the definition of the domain that the disk was of, or "". */
static int find_definition(struct ctl *ctl, const struct ctl_described *described,
			   char ret[CTL_VERSION_TEXT])
{
	const char *disk = strrchr(described->v.volume, '/');
	struct ctl_version found;
	int r;

	ret[0] = '\0';
	if (!disk || !strcmp(disk + 1, CTL_DEFINITION))
		return 0;
	r = ctl_find_beside(ctl, &described->v, CTL_DEFINITION, &found);
	if (!r)
		snprintf(ret, CTL_VERSION_TEXT, "%s", found.name);
	return r == -ENOENT ? 0 : r;
}

/* Print where on the volume it changed, where that can be seen. */
static int show_map(struct ctl *ctl, const struct rd_version *version)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_buffer list = { 0 }, texts = { 0 };
	struct ctl_described one = { .boot = { 0 } };
	size_t nr = 0, at = 0;
	unsigned int room = ctl_bar_room(14);
	struct ctl_map map;
	int r;

	if (ctl->json || !room)
		return 0;
	r = rd_versions(ctl->pool->sql, &rows, version->volume);
	while (!r && (r = rd_next_version(rows, &one.v.version)) > 0) {
		at = one.v.version.number == version->number ? nr : at;
		nr++;
		r = rd_buffer_put(&list, &one, sizeof(one));
	}
	ctl_map_init(&map, version->volume, (struct ctl_described *)list.data, nr, CTL_BAR_WIDTH);
	if (!r)
		r = ctl_map_changes(ctl, &map, (struct ctl_described *)list.data, nr, &texts);
	if (!r && nr) {
		fputs("where changed:  ", stdout);
		ctl_bar_map(ctl_map_text(&map, &texts, at), room);
		putchar('\n');
	}
	rd_buffer_free(&list);
	rd_buffer_free(&texts);
	return r;
}

static void show_text(const struct ctl_described *described, const struct counts *counts,
		      const char *definition)
{
	const struct rd_version *version = &described->v.version;
	char tracker[RD_UUID_TEXT];

	printf("version:        %s\n", described->v.name);
	printf("uid:            %016llx\n", (u64)version->uid);
	printf("time:           %s%s\n", ctl_time(version->time),
	       described->clock_went_back ?
		       ", earlier than the version before it: the clock was set back" :
	       "");
	printf("size:           %llu bytes (%s)\n", version->size, ctl_size(version->size));
	printf("state:          %s\n", version->state == RD_VERSION_NEW ? "unfinished" : "done");
	printf("in use:         %s\n", described->in_use ? "yes: a device reads it" : "no");
	printf("protected:      %s\n", version->is_protected ? "yes" : "no");
	printf("tags:           %s\n", described->tags[0] ? described->tags : "-");
	if (definition[0])
		printf("definition:     %s, which 'revdedupctl dump %s' prints\n", definition,
		       definition);
	if (described->boot.time)
		printf("boot:           %s, %s: %s\n", described->boot.passed ? "yes" : "no",
		       ctl_time(described->boot.time), described->boot.why);
	fputs("comment:        ", stdout);
	ctl_print_comment(version->comment[0] ? version->comment : "-");
	if (described->unique != CTL_UNKNOWN)
		printf("\nunique:         %llu (%s), which deleting this version frees",
		       described->unique, ctl_size(described->unique));
	printf("\nsegments read:  %llu\n", version->dirty);
	printf("bytes read:     %llu (%s)\n", version->bytes_read, ctl_size(version->bytes_read));
	printf("blocks changed: %llu\n", version->blocks_changed);
	printf("bytes stored:   %llu (%s), written when it was taken\n", version->bytes_stored,
	       ctl_size(version->bytes_stored));
	printf("segments:       %llu: %llu zeros, %llu in one piece, %llu in several\n",
	       counts->segments, counts->zero, counts->whole,
	       counts->segments - counts->zero - counts->whole);
	printf("consistent:     %s\n", consistency_of(version));
	if (!rd_version_is_tracked(version))
		return;
	printf("tracker:        %s\n", rd_uuid_print(tracker, version->tracker));
	printf("epoch:          %llu\n", version->epoch);
}

static void show_json(struct ctl *ctl, const struct ctl_described *described,
		      const struct counts *counts, const char *definition)
{
	const struct rd_version *version = &described->v.version;
	char tracker[RD_UUID_TEXT];

	ctl_json_described(ctl, described);
	if (definition[0])
		rd_json_string(&ctl->out, "definition", definition);
	rd_json_add(&ctl->out, "segments=%llu segments_zero=%llu segments_whole=%llu",
		    counts->segments, counts->zero, counts->whole);
	if (rd_version_is_tracked(version)) {
		rd_json_add(&ctl->out, "tracker=%s epoch=%llu",
			    rd_uuid_print(tracker, version->tracker), version->epoch);
	}
	ctl_json_end(ctl);
}

static int show(struct ctl *ctl, const struct ctl_version *version)
{
	RD_BUFFER struct rd_buffer boots = { 0 };
	struct ctl_described described = { .v = *version };
	char definition[CTL_VERSION_TEXT];
	struct counts counts;
	int r, found;

	r = count_segments(ctl, &version->version, &counts);
	if (!r)
		r = ctl_describe(ctl, &described);
	found = r < 0 ? r : ctl_boot_tests_read(ctl, &boots);
	ctl_describe_boots(&boots, &described, 1);
	if (!found)
		found = find_definition(ctl, &described, definition);
	if (found < 0)
		r = found;
	else if (ctl->json)
		show_json(ctl, &described, &counts, definition);
	else
		show_text(&described, &counts, definition);
	if (found >= 0) {
		found = show_map(ctl, &version->version);
		r = found ? found : r;
	}
	free(described.tags);
	return r;
}

/* One that is damaged hides no other. */
static int show_all(struct ctl *ctl, const struct rd_buffer *versions)
{
	const struct ctl_version *version;
	const char *gap = "";
	int one, r = 0;

	rd_each(version, versions) {
		if (r < 0)
			break;
		if (!ctl->json)
			fputs(gap, stdout);
		gap = "\n";
		one = show(ctl, version);
		r = one ? one : r;
	}
	return r;
}

int cmd_show(struct ctl *ctl)
{
	RD_BUFFER struct rd_buffer versions = { 0 };
	struct ctl_name name;
	int r;

	r = ctl_versions_operand(ctl, 0, true, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return r;
	r = ctl_find_each(ctl, &name, &versions);
	if (!r)
		r = show_all(ctl, &versions);
	rd_sql_end_read(ctl->pool->sql);
	return r;
}
