// SPDX-License-Identifier: GPL-2.0
/* Print what fstrim in the guests would save. */
#include <stdio.h>

#include "pool/engine/trim.h"
#include "trim.h"

struct printer {
	struct ctl *ctl;
	struct ctl_trim *trim;
	bool has_title;
};

/* For people; the other states have a text of their own. */
static const char *text_of(const struct rd_trim_part *part)
{
	switch (part->found.state) {
	case RD_FS_OTHER:
		return "not looked into";
	case RD_FS_DAMAGED:
		return "damaged, or cut off";
	default:
		return "no file system that is known";
	}
}

static void print_part(const struct rd_trim_volume *volume, const struct rd_trim_part *part)
{
	const struct rd_fs_found *found = &part->found;
	char what[CTL_VERSION_TEXT + 80], number[32] = "", size[CTL_SIZE_TEXT];

	if (part->number)
		snprintf(number, sizeof(number), ", partition %u", part->number);
	snprintf(what, sizeof(what), "  %s@%lld%s%s%s%s:", volume->name, volume->version->number,
		 number, found->kind ? ", " : "", found->kind ? found->kind : "",
		 found->has_journal ? ", in use, about" : "");
	if (found->state == RD_FS_READ)
		printf("%-46s %10s\n", what, ctl_size_print(size, part->leftover * RD_BLOCK_SIZE));
	else
		printf("%s %s\n", what, text_of(part));
}

static void print_text(struct printer *printer, const struct rd_trim_volume *volume)
{
	unsigned int i;

	if (!printer->has_title)
		puts("free in guests' file systems, and yet stored:");
	printer->has_title = true;
	for (i = 0; i < volume->nr; i++)
		print_part(volume, &volume->parts[i]);
	if (volume->is_unreadable || volume->has_bad_table)
		printf("  %s@%lld: %s\n", volume->name, volume->version->number,
		       volume->is_unreadable ? "cannot be read" : "its partition table is damaged");
}

static void print_json(struct ctl *ctl, const struct rd_trim_volume *volume)
{
	static const char *const states[] = {
		[RD_FS_READ] = "read", [RD_FS_OTHER] = "other",
		[RD_FS_UNKNOWN] = "unknown", [RD_FS_DAMAGED] = "damaged",
	};
	struct rd_json *out = &ctl->out;
	unsigned int i;

	ctl_json_begin(ctl, "free_space");
	rd_json_string(out, "volume", volume->name);
	rd_json_u64(out, "number", volume->version->number);
	rd_json_bool(out, "readable", !volume->is_unreadable);
	rd_json_bool(out, "table_damaged", volume->has_bad_table);
	rd_json_begin(out, "partitions", '[');
	for (i = 0; i < volume->nr; i++) {
		const struct rd_trim_part *part = &volume->parts[i];

		rd_json_begin(out, NULL, '{');
		rd_json_u64(out, "partition", part->number);
		rd_json_string(out, "kind", part->found.kind);
		rd_json_string(out, "state", states[part->found.state]);
		rd_json_bool(out, "journal", part->found.has_journal);
		rd_json_u64(out, "bytes_free", part->free);
		rd_json_u64(out, "bytes_leftover", part->leftover * RD_BLOCK_SIZE);
		rd_json_u64(out, "bytes_alone", part->alone * RD_BLOCK_SIZE);
		rd_json_u64(out, "bytes_share", part->share);
		rd_json_end(out, '}');
	}
	rd_json_end(out, ']');
	ctl_json_end(ctl);
}

static int take(void *ctx, const struct rd_trim_volume *volume)
{
	struct printer *printer = ctx;
	struct ctl *ctl = printer->ctl;
	unsigned int i;

	for (i = 0; i < volume->nr; i++) {
		printer->trim->leftover += volume->parts[i].leftover;
		printer->trim->alone += volume->parts[i].alone;
		printer->trim->share += volume->parts[i].share;
	}
	printer->trim->is_unreadable |= volume->is_unreadable;
	ctl_progress_clear(&ctl->progress);
	if (ctl->json)
		print_json(ctl, volume);
	else if (!ctl->quiet)
		print_text(printer, volume);
	return 0;
}

int ctl_trim(struct ctl *ctl, const struct rd_pass_options *options, struct ctl_trim *ret)
{
	struct printer printer = { .ctl = ctl, .trim = ret };

	*ret = (struct ctl_trim){ 0 };
	return rd_trim_run(ctl->pool, options->rate, options->until_us, take, &printer);
}

void ctl_trim_print(const struct ctl_trim *trim)
{
	char size[CTL_SIZE_TEXT];

	printf("%-46s %10s\n", "fstrim in the guests would free, at least:",
	       ctl_size_print(size, trim->alone * RD_BLOCK_SIZE));
	printf("%-46s %10s\n", "  and at most, if all clones are trimmed:",
	       ctl_size_print(size, trim->share));
	if (trim->share)
		puts("  run it, take new versions, and delete the old ones in time");
}

void ctl_trim_json(struct ctl *ctl, const struct ctl_trim *trim)
{
	rd_json_u64(&ctl->out, "bytes_leftover", trim->leftover * RD_BLOCK_SIZE);
	rd_json_u64(&ctl->out, "bytes_leftover_alone", trim->alone * RD_BLOCK_SIZE);
	rd_json_u64(&ctl->out, "bytes_leftover_share", trim->share);
}
