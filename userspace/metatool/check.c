// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta check: print the findings of meta/check.c. */
#include <stdio.h>
#include <linux/kernel.h>

#include "meta/check.h"
#include "metatool.h"

static const char *const severities[RD_SEVERITY_MAX] = {
	[RD_NOTE] = "note",
	[RD_UNREADABLE] = "unreadable",
	[RD_DAMAGE] = "damage",
};

struct check {
	struct rd_check check;
	struct rd_tool *tool;
};

static void report(struct rd_check *check, const struct rd_finding *finding)
{
	struct rd_tool *tool = ((struct check *)check)->tool;

	if (tool->json)
		rd_json_add(&tool->out, "{ severity=%s block=%llu what=%s effect=%s }",
			    severities[finding->severity], finding->block, finding->what,
			    finding->effect);
	else
		printf("%s: block %llu: %s\n    %s\n", severities[finding->severity],
		       finding->block, finding->what, finding->effect);
}

static int verdict(const struct rd_check *check)
{
	if (check->nr[RD_DAMAGE])
		return EXIT_DAMAGE;
	return check->nr[RD_UNREADABLE] ? EXIT_FAILED : EXIT_FINE;
}

static void print_end(struct rd_tool *tool, const struct rd_check *check)
{
	printf("checked: 2 superblocks, %llu bitmap blocks, %llu words, %llu pages\n",
	       check->nr_bitmaps, check->nr_words, check->nr_pages);
	if (verdict(check) == EXIT_FINE)
		printf("'%s' is fine\n", tool->path);
	else
		printf("'%s' is not fine: %llu damaged, %llu unreadable\n",
		       tool->path, check->nr[RD_DAMAGE],
		       check->nr[RD_UNREADABLE]);
}

static void print_json_end(struct rd_tool *tool, const struct rd_check *check)
{
	rd_json_end(&tool->out, ']');
	rd_json_add(&tool->out,
		    "checked={ superblocks=%u bitmap_blocks=%llu words=%llu pages=%llu }", 2,
		    check->nr_bitmaps, check->nr_words, check->nr_pages);
	rd_json_add(&tool->out, "damaged=%llu unreadable=%llu fine=%d",
		    check->nr[RD_DAMAGE], check->nr[RD_UNREADABLE], verdict(check) == EXIT_FINE);
	rd_tool_json_end(tool);
}

int rd_tool_check(struct rd_tool *tool)
{
	struct check check = { .check.report = report, .tool = tool };

	if (tool->meta.r && !rd_meta_is_damaged(&tool->meta))
		return rd_tool_refuse(tool);
	if (tool->json) {
		rd_tool_json_begin(tool);
		rd_json_begin(&tool->out, "findings", '[');
	}
	rd_meta_check(&tool->meta, &check.check);
	if (tool->json)
		print_json_end(tool, &check.check);
	else
		print_end(tool, &check.check);
	return verdict(&check.check);
}
