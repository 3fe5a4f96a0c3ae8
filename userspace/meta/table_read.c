// SPDX-License-Identifier: GPL-2.0
/* Find where the blocks of a volume are; see table_read.h. */
#include <string.h>
#include <linux/kernel.h>

#include "table_read.h"

void rd_table_walk_init(struct rd_table_walk *walk, const struct rd_meta *meta,
			u64 first, u64 len)
{
	u64 nr_blocks = dmr_nr_blocks(meta->super.volume_sectors);

	memset(walk, 0, sizeof(*walk));
	walk->meta = meta;
	walk->next = first < nr_blocks ? first : nr_blocks;
	walk->end = len < nr_blocks - walk->next ? walk->next + len : nr_blocks;
}

static void load(const struct rd_meta *meta, u64 block, struct rd_entries *to)
{
	if (to->block == block)
		return;
	to->block = block;
	to->r = meta->source->read(meta->source->ctx, block, to->entries);
}

/* Look one block up in the page. A page that cannot be read is one run. */
static void look_in_page(struct rd_table_walk *walk, struct rd_run *run)
{
	const struct rd_meta *meta = walk->meta;

	load(meta, dmr_page_block(run->first / DMR_SEG_BLOCKS), &walk->page);
	run->block = walk->page.block;
	if (walk->page.r) {
		run->state = RD_RUN_UNREADABLE;
		return;
	}
	run->len = 1;
	if (!dmr_entry_unpack(meta->seed, false, run->first,
			      le64_to_cpu(walk->page.entries[run->first % DMR_SEG_BLOCKS]),
			      &run->place))
		run->state = RD_RUN_DAMAGED;
}

/* Fill @run from one entry for block @first, to the end of its segment at most. */
static void look(struct rd_table_walk *walk, u64 first, struct rd_run *run)
{
	const struct rd_meta *meta = walk->meta;
	u64 seg = first / DMR_SEG_BLOCKS, left = walk->end - first, word;

	*run = (struct rd_run){ .first = first, .len = left, .state = RD_RUN_KNOWN };
	run->place.kind = DMR_BASE;
	/* Words and pages may hold anything. */
	if (meta->super.flags & DMR_FLAG_LINEAR_OK)
		return;
	load(meta, dmr_word_block(seg), &walk->words);
	run->block = walk->words.block;
	run->len = DMR_SEG_BLOCKS - first % DMR_SEG_BLOCKS;
	if (run->len > left)
		run->len = left;
	word = le64_to_cpu(walk->words.entries[seg % DMR_SEG_BLOCKS]);
	if (walk->words.r)
		run->state = RD_RUN_UNREADABLE;
	else if (!dmr_word_unpack(meta->seed, seg, word, &run->place))
		run->state = RD_RUN_DAMAGED;
	else if (run->place.kind == DMR_PAGE)
		look_in_page(walk, run);
	else
		run->place = dmr_entry_plus(run->place, first % DMR_SEG_BLOCKS);
}

static bool continues(const struct rd_run *run, const struct rd_run *more)
{
	if (run->state != more->state)
		return false;
	if (run->state != RD_RUN_KNOWN)
		return run->block == more->block;
	return dmr_entry_goes_on(run->place, run->len, more->place);
}

bool rd_table_walk_next(struct rd_table_walk *walk, struct rd_run *run)
{
	struct rd_run more;

	if (walk->next >= walk->end)
		return false;
	look(walk, walk->next, run);
	while (run->first + run->len < walk->end) {
		look(walk, run->first + run->len, &more);
		if (!continues(run, &more))
			break;
		run->len += more.len;
	}
	walk->next = run->first + run->len;
	return true;
}

static bool is_away(const struct rd_meta *meta, const struct rd_entries *words, u64 seg)
{
	struct dmr_entry place;

	return words->r ||
		!dmr_word_unpack(meta->seed, seg,
				 le64_to_cpu(words->entries[seg % DMR_SEG_BLOCKS]), &place) ||
		place.kind != DMR_BASE;
}

u64 rd_table_count_away(const struct rd_meta *meta)
{
	struct rd_entries words = { 0 };
	u64 seg, nr = 0;

	if (meta->super.flags & DMR_FLAG_LINEAR_OK || !(meta->super.flags & DMR_FLAG_TABLE))
		return 0;
	for (seg = 0; seg < meta->nr_segs; seg++) {
		load(meta, dmr_word_block(seg), &words);
		nr += is_away(meta, &words, seg);
	}
	return nr;
}
