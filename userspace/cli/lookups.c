// SPDX-License-Identifier: GPL-2.0
/* Print what inline snapshots looked up; see lookups.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lookups.h"

/* Of a volume, or of all. */
struct sum {
	char volume[RD_LOOKUP_VOLUME];
	u64 snapshots;
	i64 since;		/* the time of the first */
	struct rd_lookup_counts counts;
};

/* --- adding up */

static void add(struct sum *sum, const struct rd_lookup_entry *entry)
{
	if (!sum->snapshots++ || entry->time < sum->since)
		sum->since = entry->time;
	rd_lookup_counts_add(&sum->counts, &entry->counts);
}

static struct sum *sum_of(struct rd_buffer *sums, const char *volume)
{
	struct sum *sum;

	rd_each(sum, sums)
		if (!strcmp(sum->volume, volume))
			return sum;
	sum = (struct sum *)rd_buffer_grow(sums, sizeof(*sum));
	if (!sum)
		return NULL;
	memset(sum, 0, sizeof(*sum));
	snprintf(sum->volume, sizeof(sum->volume), "%s", volume);
	return sum;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct sum *)a)->volume, ((const struct sum *)b)->volume);
}

/* Append a struct sum for each volume, or for @name, by name. */
static int add_up(const struct rd_buffer *entries, const char *name, struct rd_buffer *ret,
		  struct sum *total)
{
	const struct rd_lookup_entry *entry;
	struct sum *sum;

	rd_each(entry, entries) {
		if (name && strcmp(entry->volume, name))
			continue;
		sum = sum_of(ret, entry->volume);
		if (!sum)
			return -ENOMEM;
		add(sum, entry);
		add(total, entry);
	}
	if (ret->len)
		qsort(ret->data, ret->len / sizeof(*sum), sizeof(*sum), compare);
	return 0;
}

/* --- JSON */

static void print_reads(struct rd_json *out, const struct rd_lookup_counts *counts)
{
	rd_json_add(out, "index_reads={ neither=%llu vector=%llu cache=%llu both=%llu }",
		    rd_lookup_reads(counts, false, false), rd_lookup_reads(counts, true, false),
		    rd_lookup_reads(counts, false, true), rd_lookup_reads(counts, true, true));
}

void ctl_json_lookups(struct rd_json *out, const struct rd_lookup_counts *counts)
{
	rd_json_begin(out, "lookups", '{');
	rd_json_add(out, "asked=%llu same_offset=%llu cache=%llu cache_sampled=%llu unsampled=%llu",
		    counts->asked, counts->same_offset, counts->cache, counts->cache_sampled,
		    counts->unsampled);
	rd_json_add(out, "vector_no=%llu index_asked=%llu index_found=%llu false_positive=%llu",
		    counts->vector_no, counts->index_asked, counts->index_found,
		    counts->false_positive);
	rd_json_add(out, "pages_read=%llu stale=%llu found=%llu refused=%llu",
		    counts->pages_read, counts->stale, counts->found, counts->refused);
	print_reads(out, counts);
	rd_json_end(out, '}');
}

static void print_object(struct ctl *ctl, const char *type, const char *volume,
			 const struct sum *sum)
{
	struct rd_json *out = &ctl->out;

	ctl_json_begin(ctl, type);
	if (volume)
		rd_json_string(out, "volume", volume);
	rd_json_u64(out, "snapshots", sum->snapshots);
	if (sum->snapshots)
		rd_json_u64(out, "since", sum->since);
	ctl_json_lookups(out, &sum->counts);
	ctl_json_end(ctl);
}

static void print_json(struct ctl *ctl, const char *name, const struct rd_buffer *sums,
		       const struct sum *total)
{
	const struct sum *sum;

	if (name) {
		print_object(ctl, "lookups", name, total);
		return;
	}
	rd_each(sum, sums)
		print_object(ctl, "lookups", sum->volume, sum);
	print_object(ctl, "lookups_total", NULL, total);
}

/* --- text */

#define SHARE_TEXT	24

/* "99.95 %", of something. */
static const char *print_share(char text[SHARE_TEXT], double part, u64 all)
{
	snprintf(text, SHARE_TEXT, "-");
	if (all)
		snprintf(text, SHARE_TEXT, "%.2f %%", part * 100 / all);
	return text;
}

static void print_headings(void)
{
	printf("%-52s  %s\n", "", "----------- INDEX READS WITH ----------");
	printf("%-16s  %10s  %10s  %10s  %9s  %9s  %9s  %8s  %8s  %8s  %7s\n", "VOLUME", "SAME",
	       "ASKED", "FOUND", "NEITHER", "VECTOR", "CACHE", "BOTH", "FP READS", "AVOIDED",
	       "FALSE");
}

static void print_row(const char *name, const struct sum *sum)
{
	const struct rd_lookup_counts *counts = &sum->counts;
	char avoided[SHARE_TEXT], wrong[SHARE_TEXT];

	print_share(avoided, (double)counts->asked - counts->index_asked - counts->pages_read,
		    counts->asked);
	/* A block that the index has is no question that the vectors could answer wrongly. */
	print_share(wrong, counts->false_positive, counts->false_positive + counts->vector_no);
	printf("%-16s  %10llu  %10llu  %10llu", name, counts->same_offset, counts->asked,
	       counts->found);
	printf("  %9llu  %9llu  %9llu  %8llu", rd_lookup_reads(counts, false, false),
	       rd_lookup_reads(counts, true, false), rd_lookup_reads(counts, false, true),
	       rd_lookup_reads(counts, true, true));
	printf("  %8llu  %8s  %7s\n", counts->pages_read, avoided, wrong);
}

/* Say what the numbers are shares of: it is not all that a snapshot reads. */
static void print_legend(const struct sum *total)
{
	putchar('\n');
	printf("These are blocks of segments that the pool did not have, in %llu inline snapshot%s since\n"
	       "%s, but for zeros. SAME: not looked up, the version before has them at\n"
	       "the same offset. The index has 1 of %u blocks, by their fingerprints, and the others are\n"
	       "found beside these or not at all: NEITHER is less than ASKED by that.\n"
	       "AVOIDED is 1 - (BOTH + FP READS) / ASKED. FALSE is the share of blocks that the index\n"
	       "does not have for which it was read.\n", total->snapshots,
	       total->snapshots == 1 ? "" : "s", ctl_time(total->since),
	       RD_INDEX_SAMPLE);
}

static void print_text(const char *name, const struct rd_buffer *sums, const struct sum *total)
{
	const struct sum *sum;

	if (!total->snapshots) {
		printf("no lookups are recorded%s%s%s: inline snapshots record them\n",
		       name ? " of '" : "", name ? name : "", name ? "'" : "");
		return;
	}
	print_headings();
	rd_each(sum, sums)
		print_row(sum->volume, sum);
	if (!name)
		print_row("TOTAL", total);
	print_legend(total);
}

/* --- */

/* What is recorded outlives the versions, and so the volume. */
static int check_volume(struct ctl *ctl, const char *name, const struct sum *total)
{
	RD_BUFFER struct rd_buffer volumes = { 0 };
	int r = 0;

	if (name && !total->snapshots)
		r = ctl_volumes(ctl, name, &volumes);
	return r;
}

int ctl_lookups_print(struct ctl *ctl, const char *name)
{
	RD_BUFFER struct rd_buffer entries = { 0 }, sums = { 0 };
	struct sum total = { .snapshots = 0 };
	int r;

	r = rd_lookups(ctl->pool, &entries);
	if (!r)
		r = add_up(&entries, name, &sums, &total);
	if (!r)
		r = check_volume(ctl, name, &total);
	if (!r && ctl->json)
		print_json(ctl, name, &sums, &total);
	else if (!r)
		print_text(name, &sums, &total);
	return r;
}
