// SPDX-License-Identifier: GPL-2.0
/* revdedupctl list, show: print versions. */
#include <stdio.h>
#include <string.h>

#include "base/uuid.h"
#include "pool/catalog/recipes.h"
#include "pool/catalog/segments.h"
#include "cli.h"

#define WINDOW	1024

static const char *state_of(const struct rd_version *version)
{
	/* A new version is complete; the one before it still has the blocks that both have. */
	return version->state == RD_VERSION_NEW ? "unfinished" : "done";
}

/* Properties of a version that its row in the catalog does not have. */
struct more {
	struct rd_buffer tags;
	bool clock_went_back;
};

static int read_more(struct ctl *ctl, const struct rd_version *version, struct more *more)
{
	int r = ctl_tags(ctl, version, &more->tags);

	return r ? r : ctl_clock_went_back(ctl, version, &more->clock_went_back);
}

/* --- fields that both print */

static void json_begin(struct ctl *ctl, const struct ctl_version *v, const struct more *more)
{
	const struct rd_version *version = &v->version;
	struct rd_json *out = &ctl->out;
	const char *tag, *end = (const char *)more->tags.data + more->tags.len;
	char uid[20];

	snprintf(uid, sizeof(uid), "%016llx", (u64)version->uid);
	ctl_json_version_begin(ctl, v);
	rd_json_string(out, "uid", uid);
	rd_json_u64(out, "time", version->time);
	rd_json_bool(out, "clock_went_back", more->clock_went_back);
	rd_json_u64(out, "size", version->size);
	rd_json_u64(out, "segments_read", version->dirty);
	rd_json_u64(out, "bytes_read", version->bytes_read);
	rd_json_u64(out, "blocks_changed", version->blocks_changed);
	rd_json_u64(out, "bytes_stored", version->bytes_stored);
	rd_json_string(out, "state", state_of(version));
	rd_json_bool(out, "consistent", version->is_consistent);
	rd_json_bool(out, "protected", version->is_protected);
	rd_json_begin(out, "tags", '[');
	for (tag = (const char *)more->tags.data; tag < end; tag += strlen(tag) + 1)
		rd_json_string(out, NULL, tag);
	rd_json_end(out, ']');
	rd_json_string(out, "comment", version->comment);
}

/* Return "a,b" for tags that each end with a zero. */
static const char *join(struct rd_buffer *tags)
{
	size_t i;

	if (!tags->len)
		return "";
	for (i = 0; i + 1 < tags->len; i++)
		if (!tags->data[i])
			tags->data[i] = ',';
	return (const char *)tags->data;
}

/* Print a comment without its control characters, which could change the terminal. */
static void print_comment(const char *comment)
{
	for (; *comment; comment++)
		putchar((unsigned char)*comment < ' ' || *comment == 127 ? '?' : *comment);
}

/* --- list */

static void print_row(const struct ctl_version *v, int width, struct more *more)
{
	const struct rd_version *version = &v->version;
	char time[CTL_TIME_TEXT], size[CTL_SIZE_TEXT], changed[CTL_SIZE_TEXT];
	char stored[CTL_SIZE_TEXT];
	const char *names = join(&more->tags);

	printf("%-*s  %-19s  %10s  %10s  %10s  %-10s  %s", width, v->name,
	       ctl_time_print(time, version->time), ctl_size_print(size, version->size),
	       ctl_size_print(changed, version->blocks_changed * RD_BLOCK_SIZE),
	       ctl_size_print(stored, version->bytes_stored),
	       version->is_protected ? "protected" : state_of(version),
	       names[0] ? names : "-");
	if (!version->is_consistent)
		fputs("  (not consistent)", stdout);
	if (more->clock_went_back)
		fputs("  (clock set back)", stdout);
	if (version->comment[0]) {
		fputs("  ", stdout);
		print_comment(version->comment);
	}
	putchar('\n');
}

static int list_version(struct ctl *ctl, const struct ctl_version *version, int width)
{
	struct more more = { 0 };
	int r;

	r = read_more(ctl, &version->version, &more);
	if (!r && ctl->json) {
		json_begin(ctl, version, &more);
		ctl_json_end(ctl);
	} else if (!r) {
		print_row(version, width, &more);
	}
	rd_buffer_free(&more.tags);
	return r;
}

static int list_versions(struct ctl *ctl, const struct rd_buffer *versions)
{
	const struct ctl_version *list = (const struct ctl_version *)versions->data;
	size_t i, nr = versions->len / sizeof(*list);
	int r = 0, width = strlen("VERSION");

	for (i = 0; i < nr; i++)
		width = rd_max(width, strlen(list[i].name));
	if (nr && !ctl->json)
		printf("%-*s  %-19s  %10s  %10s  %10s  %-10s  %s\n", width, "VERSION", "TIME",
		       "SIZE", "CHANGED", "STORED", "STATE", "TAGS");
	for (i = 0; i < nr && !r; i++)
		r = list_version(ctl, &list[i], width);
	return r;
}

static int list_all(struct ctl *ctl, const char *name)
{
	struct rd_buffer volumes = { 0 }, versions = { 0 };
	size_t i, nr;
	int r;

	/* Read one state of the catalog, whatever other commands do meanwhile. */
	r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return r;
	r = ctl_volumes(ctl, name, &volumes);
	nr = volumes.len / sizeof(struct ctl_volume);
	for (i = 0; i < nr && !r; i++)
		r = ctl_versions(ctl, (struct ctl_volume *)volumes.data + i, &versions);
	if (!r)
		r = list_versions(ctl, &versions);
	rd_sql_end_read(ctl->pool->sql);
	rd_buffer_free(&volumes);
	rd_buffer_free(&versions);
	return r;
}

int cmd_list(struct ctl *ctl)
{
	struct ctl_name name;
	int r = 0;

	if (ctl->nr_operands)
		r = ctl_volume_operand(ctl, 0, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = list_all(ctl, ctl->nr_operands ? name.volume : NULL);
	return ctl_close(ctl, r);
}

/* --- show */

struct counts {
	u64 segments, zero, whole;
};

static int count_segments(struct ctl *ctl, const struct rd_version *version,
			  struct counts *counts)
{
	u64 first, nr = rd_nr_segs(version->size);
	i64 recipes[WINDOW];
	unsigned int i, len;
	bool whole;
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
			r = rd_recipe_noted_whole(ctl->pool->sql, recipes[i], &whole);
			counts->whole += !r && whole;
		}
		if (!r)
			r = rd_pool_progress(ctl->pool, "show", (first + len) << RD_SEG_SHIFT,
					     nr << RD_SEG_SHIFT);
	}
	return r;
}

static void show_text(const struct ctl_version *v, const struct counts *counts,
		      struct more *more)
{
	const struct rd_version *version = &v->version;
	char time[CTL_TIME_TEXT], size[CTL_SIZE_TEXT], tracker[RD_UUID_TEXT];
	const char *names = join(&more->tags);

	printf("version:        %s\n", v->name);
	printf("uid:            %016llx\n", (u64)version->uid);
	printf("time:           %s%s\n", ctl_time_print(time, version->time),
	       more->clock_went_back ?
		       ", earlier than the version before it: the clock was set back" :
	       "");
	printf("size:           %llu bytes (%s)\n", version->size,
	       ctl_size_print(size, version->size));
	printf("state:          %s\n", state_of(version));
	printf("protected:      %s\n", version->is_protected ? "yes" : "no");
	printf("tags:           %s\n", names[0] ? names : "-");
	fputs("comment:        ", stdout);
	print_comment(version->comment[0] ? version->comment : "-");
	printf("\nsegments read:  %llu\n", version->dirty);
	printf("bytes read:     %llu (%s)\n", version->bytes_read,
	       ctl_size_print(size, version->bytes_read));
	printf("blocks changed: %llu\n", version->blocks_changed);
	printf("bytes stored:   %llu (%s)\n", version->bytes_stored,
	       ctl_size_print(size, version->bytes_stored));
	printf("segments:       %llu: %llu zeros, %llu in one piece, %llu in several\n",
	       counts->segments, counts->zero, counts->whole,
	       counts->segments - counts->zero - counts->whole);
	printf("consistent:     %s\n", version->is_consistent ? "yes" :
	       "no: it may have been written while it was read");
	if (!rd_version_is_tracked(version))
		return;
	printf("tracker:        %s\n", rd_uuid_print(tracker, version->tracker));
	printf("epoch:          %llu\n", version->epoch);
}

static void show_json(struct ctl *ctl, const struct ctl_version *v, const struct counts *counts,
		      const struct more *more)
{
	char tracker[RD_UUID_TEXT];

	json_begin(ctl, v, more);
	rd_json_u64(&ctl->out, "segments", counts->segments);
	rd_json_u64(&ctl->out, "segments_zero", counts->zero);
	rd_json_u64(&ctl->out, "segments_whole", counts->whole);
	if (rd_version_is_tracked(&v->version)) {
		rd_json_string(&ctl->out, "tracker", rd_uuid_print(tracker, v->version.tracker));
		rd_json_u64(&ctl->out, "epoch", v->version.epoch);
	}
	ctl_json_end(ctl);
}

static int show(struct ctl *ctl, const struct ctl_version *version)
{
	struct more more = { 0 };
	struct counts counts;
	int r;

	r = count_segments(ctl, &version->version, &counts);
	if (!r)
		r = read_more(ctl, &version->version, &more);
	if (!r && ctl->json)
		show_json(ctl, version, &counts, &more);
	else if (!r)
		show_text(version, &counts, &more);
	rd_buffer_free(&more.tags);
	return r;
}

int cmd_show(struct ctl *ctl)
{
	struct ctl_version version;
	struct ctl_name name;
	int r;

	r = ctl_version_operand(ctl, 0, true, &name);
	if (!r)
		r = ctl_open(ctl, RD_POOL_READ);
	if (!r)
		r = rd_sql_begin_read(ctl->pool->sql);
	if (r)
		return ctl_close(ctl, r);
	r = ctl_find(ctl, &name, &version);
	if (!r)
		r = show(ctl, &version);
	rd_sql_end_read(ctl->pool->sql);
	return ctl_close(ctl, r);
}
