// SPDX-License-Identifier: GPL-2.0
/* revdedup-meta dirty: print the ranges that a target would call dirty. */
#include <stdio.h>

#include "metatool.h"

static void print_range(struct rd_tool *tool, const struct dmr_range *range)
{
	if (!tool->json) {
		printf("%llx,%llx\n", range->first, range->len);
		return;
	}
	rd_json_begin(&tool->out, NULL, '[');
	rd_json_u64(&tool->out, NULL, range->first);
	rd_json_u64(&tool->out, NULL, range->len);
	rd_json_end(&tool->out, ']');
}

static void begin(struct rd_tool *tool)
{
	const struct dmr_super *super = &tool->meta.super;
	bool lost = super->flags & DMR_FLAG_LOST;

	if (!tool->json) {
		if (lost && !tool->frozen)
			fprintf(stderr,
				"revdedup-meta: tracking was lost in epoch %llu: every segment counts as dirty\n",
				super->lost_epoch);
		return;
	}
	rd_tool_json_begin(tool);
	rd_json_add(&tool->out, "set=%s epoch=%llu tracking=%s segments=%llu",
		    tool->frozen ? "frozen" : "current", super->epoch - tool->frozen,
		    lost ? "lost" : "ok", tool->meta.nr_segs);
	rd_json_begin(&tool->out, "ranges", '[');
}

static void end(struct rd_tool *tool, u64 nr_dirty)
{
	if (!tool->json)
		return;
	rd_json_end(&tool->out, ']');
	rd_json_u64(&tool->out, "dirty", nr_dirty);
	rd_tool_json_end(tool);
}

int rd_tool_dirty(struct rd_tool *tool)
{
	struct rd_meta_walk walk;
	struct dmr_range range;
	u64 nr_dirty = 0;

	if (tool->meta.r)
		return rd_tool_refuse(tool);
	if (tool->frozen && !(tool->meta.super.flags & DMR_FLAG_FROZEN)) {
		fprintf(stderr, "revdedup-meta: '%s': no checkpoint is pending, so there is no frozen set\n",
			tool->path);
		return EXIT_FAILED;
	}
	begin(tool);
	rd_meta_walk_init(&walk, &tool->meta,
			  tool->frozen ? RD_META_FROZEN : RD_META_CURRENT);
	while (rd_meta_walk_next(&walk, &range)) {
		print_range(tool, &range);
		nr_dirty += range.len;
	}
	end(tool, nr_dirty);
	return EXIT_FINE;
}
