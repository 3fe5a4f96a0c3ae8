// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta table: print where the blocks of the volume are. */
#include <stdio.h>
#include <linux/kernel.h>

#include "meta/table_read.h"
#include "metatool.h"

struct totals {
	u64 places[DMR_NR_KINDS];
	u64 damaged;
	u64 unreadable;
};

static void count(struct totals *totals, const struct rd_run *run)
{
	if (run->state == RD_RUN_KNOWN)
		totals->places[run->place.kind] += run->len;
	else if (run->state == RD_RUN_DAMAGED)
		totals->damaged += run->len;
	else
		totals->unreadable += run->len;
}

void rd_tool_bad_run(const struct rd_run *run)
{
	fprintf(stderr,
		"revdedup-meta: the location of blocks %llx,%llx is unknown: block %llu of the metadata %s\n",
		run->first, run->len, run->block,
		run->state == RD_RUN_DAMAGED ? "is damaged" : "cannot be read");
}

static void print_run(struct rd_tool *tool, const struct rd_run *run)
{
	bool known = run->state == RD_RUN_KNOWN;
	char text[DMR_PLACE_TEXT];

	if (known)
		dmr_place_print(text, run->place);
	if (!tool->json) {
		if (known)
			printf("%llx,%llx,%s\n", run->first, run->len, text);
		else
			rd_tool_bad_run(run);
		return;
	}
	rd_json_add(&tool->out, "[ %llu %llu %s ]", run->first, run->len,
		    known ? text : NULL);
}

static void begin(struct rd_tool *tool, u64 nr_blocks)
{
	bool incomplete = tool->meta.super.flags & DMR_FLAG_INCOMPLETE;

	if (!tool->json) {
		if (incomplete)
			fprintf(stderr, "revdedup-meta: warning: '%s': %s\n", tool->path,
				tool->meta.refused);
		return;
	}
	rd_tool_json_begin(tool);
	rd_json_add(&tool->out, "volume_blocks=%llu incomplete=%d", nr_blocks, incomplete);
	rd_json_begin(&tool->out, "ranges", '[');
}

static void end(struct rd_tool *tool, const struct totals *totals)
{
	if (!tool->json)
		return;
	rd_json_end(&tool->out, ']');
	rd_json_add(&tool->out, "base=%llu zero=%llu pool=%llu damaged=%llu unreadable=%llu",
		    totals->places[DMR_BASE], totals->places[DMR_ZERO],
		    totals->places[DMR_POOL] + totals->places[DMR_PACK], totals->damaged,
		    totals->unreadable);
	rd_tool_json_end(tool);
}

/* Parse the two arguments; without them it is the whole volume, or the rest of it. */
static int parse(struct rd_tool *tool, u64 *first, u64 *count)
{
	*first = 0;
	*count = U64_MAX;
	if (tool->args[0] && dmr_parse_u64(tool->args[0], first))
		return rd_tool_misused("not a block number: '%s'", tool->args[0]);
	if (tool->args[0] && tool->args[1] && dmr_parse_u64(tool->args[1], count))
		return rd_tool_misused("not a number of blocks: '%s'", tool->args[1]);
	return EXIT_FINE;
}

int rd_tool_table(struct rd_tool *tool)
{
	struct totals totals = { 0 };
	struct rd_table_walk walk;
	u64 first, nr, nr_blocks;
	struct rd_run run;
	int r = parse(tool, &first, &nr);

	if (r)
		return r;
	if (tool->meta.r)
		return rd_tool_refuse(tool);
	nr_blocks = dmr_nr_blocks(tool->meta.super.volume_sectors);
	if (first >= nr_blocks)
		return rd_tool_fail("block %llu does not exist: the volume has %llu blocks",
				    first, nr_blocks);
	begin(tool, nr_blocks);
	rd_table_walk_init(&walk, &tool->meta, first, nr);
	while (rd_table_walk_next(&walk, &run)) {
		count(&totals, &run);
		print_run(tool, &run);
	}
	end(tool, &totals);
	if (totals.damaged)
		return EXIT_DAMAGE;
	return totals.unreadable ? EXIT_FAILED : EXIT_FINE;
}
