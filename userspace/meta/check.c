// SPDX-License-Identifier: GPL-2.0
/*
 * Check a metadata device, block after block. A block gives one finding, however many
 * of its entries are wrong, so that the report on an overwritten part of the device
 * stays short.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>

#include "check.h"
#include "table_read.h"

#define __printf(fmt, first)	__attribute__((format(printf, fmt, first)))

#define GOES_ON(other)							\
	"a target uses copy " other				\
	", treats every segment as dirty (tracking lost), and rewrites this copy"

#define ALL_DIRTY	"a target treats the segments of the group as dirty"

__printf(5, 6)
static void found(struct rd_check *check, enum rd_severity severity, u64 block,
		  const char *effect, const char *fmt, ...)
{
	char what[256];
	struct rd_finding finding = {
		.severity = severity,
		.block = block,
		.what = what,
		.effect = effect,
	};
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	check->nr[severity]++;
	check->report(check, &finding);
}

bool rd_meta_is_damaged(const struct rd_meta *meta)
{
	switch (-meta->r) {
	case EEXIST:
	case EBADMSG:
		return true;
	case ENOSPC:
		return !meta->a.r;
	case EMEDIUMTYPE:
		return !meta->b.r;
	}
	return false;
}

/* Superblocks */

static void check_copy(struct rd_check *check, const struct rd_meta *meta, char name)
{
	const struct dmr_super_copy *copy = name == 'A' ? &meta->a : &meta->b;
	const struct rd_meta_raw *raw = name == 'A' ? &meta->raw_a : &meta->raw_b;
	const char *goes_on = name == 'A' ? GOES_ON("B") : GOES_ON("A");

	if (copy->r) {
		found(check, copy->r == -EIO ? RD_UNREADABLE : RD_DAMAGE,
		      copy->block, meta->r ? "see below" : goes_on,
		      "superblock copy %c: %s", name, copy->why);
		return;
	}
	if (name == 'B' && meta->other_life)
		found(check, RD_DAMAGE, copy->block, goes_on,
		      "superblock copy B was left by an earlier format of the device (other metadata UUID)");
	if (!raw->rest_is_zero)
		found(check, RD_DAMAGE, copy->block,
		      "a target ignores it, and clears it with its next write",
		      "superblock copy %c: the rest of its block is not zero", name);
	if (!dmr_is_zero(raw->disk.reserved, sizeof(raw->disk.reserved)))
		found(check, RD_NOTE, copy->block,
		      "a target ignores them, and clears them with its next write",
		      "superblock copy %c: reserved bytes are not zero", name);
}

static void check_sequence(struct rd_check *check, const struct rd_meta *meta)
{
	const struct dmr_super_copy *a = &meta->a, *b = &meta->b;

	if (a->r || b->r || meta->other_life || a->super.seq == b->super.seq)
		return;
	if (a->super.seq > b->super.seq)
		found(check, RD_NOTE, b->block,
		      "a target loads copy A and rewrites copy B",
		      "superblock copy B is %llu behind copy A: a crash came between their writes, or one failed",
		      a->super.seq - b->super.seq);
	else
		found(check, RD_NOTE, a->block,
		      "a target loads copy B and rewrites copy A",
		      "superblock copy A is %llu behind copy B: a write of it failed",
		      b->super.seq - a->super.seq);
}

static void check_features(struct rd_check *check, const struct rd_meta *meta)
{
	const struct dmr_super *super = &meta->super;
	u64 block = meta->chosen == 'A' ? meta->a.block : meta->b.block;

	if (super->compat)
		found(check, RD_NOTE, block, "a target ignores them",
		      "unknown features, which do no harm (compat %#x)", super->compat);
	if (super->compat_ro)
		found(check, RD_NOTE, block,
		      "a target accepts only a read-only table",
		      "unknown features that allow reading only (compat_ro %#x)",
		      super->compat_ro);
	if (super->meta_blocks < meta->source->nr_blocks)
		found(check, RD_NOTE, block,
		      "a target uses the new space after its next resume",
		      "the device has grown from %llu to %llu blocks",
		      super->meta_blocks, meta->source->nr_blocks);
}

static void check_flags(struct rd_check *check, const struct rd_meta *meta)
{
	const struct dmr_super *super = &meta->super;
	u64 block = meta->chosen == 'A' ? meta->a.block : meta->b.block;
	bool one_copy = meta->a.r || meta->b.r || meta->other_life;

	/* If a copy is missing, the finding about that copy says it. */
	if ((super->flags & DMR_FLAG_LOST) && !one_copy)
		found(check, RD_NOTE, block,
		      "a target treats every segment as dirty until a later checkpoint is committed",
		      "tracking was lost in epoch %llu", super->lost_epoch);
	if (super->flags & DMR_FLAG_FROZEN)
		found(check, RD_NOTE, block,
		      "a target keeps the frozen set until commit or abort",
		      "checkpoint %llu is neither committed nor aborted",
		      super->epoch);
	if (super->flags & DMR_FLAG_INCOMPLETE)
		found(check, RD_DAMAGE, block,
		      "a target refuses the device until the batch is repeated",
		      "a batch of changes to the remap table was cut off");
	if ((super->flags & DMR_FLAG_HYDRATE) && !(super->flags & DMR_FLAG_LINEAR_OK))
		found(check, RD_NOTE, block, "a target continues to copy them",
		      "blocks were being copied back to the base");
}

/* Bitmaps */

static void report_bits(struct rd_check *check, const struct rd_meta_bits *bits,
			u64 group, const char *role, const char *effect)
{
	check->nr_bitmaps++;
	switch (bits->state) {
	case RD_BITS_GOOD:
	case RD_BITS_OLDER:
		return;
	case RD_BITS_UNREADABLE:
		found(check, RD_UNREADABLE, bits->block, effect,
		      "%s bitmap of group %llu cannot be read: %s", role, group,
		      strerror(-bits->r));
		return;
	case RD_BITS_COMING:
		found(check, RD_DAMAGE, bits->block, effect,
		      "%s bitmap of group %llu is of epoch %llu, which has not begun",
		      role, group, bits->epoch);
		return;
	case RD_BITS_DAMAGED:
		found(check, RD_DAMAGE, bits->block, effect,
		      "%s bitmap of group %llu is damaged (checksum)", role,
		      group);
	}
}

static void check_group(struct rd_check *check, const struct rd_meta *meta,
			u64 group)
{
	u64 epoch = meta->super.epoch;
	struct rd_meta_bits bits;

	rd_meta_read_bits(meta, group, epoch, &bits);
	report_bits(check, &bits, group, "current", ALL_DIRTY);
	if (meta->super.flags & DMR_FLAG_FROZEN) {
		rd_meta_read_bits(meta, group, epoch - 1, &bits);
		report_bits(check, &bits, group, "frozen", ALL_DIRTY " in the frozen set");
	} else {
		/* The next epoch will use this block; any older epoch is right there. */
		rd_meta_read_bits(meta, group, epoch + 1, &bits);
		if (bits.state == RD_BITS_GOOD)
			bits.state = RD_BITS_COMING;
		report_bits(check, &bits, group, "spare",
			    "no effect now; " ALL_DIRTY " if it loads after the next checkpoint");
	}
}

/* Words and pages */

static int read_entries(const struct rd_meta *meta, u64 block,
			struct rd_entries *to)
{
	to->block = block;
	return meta->source->read(meta->source->ctx, block, to->entries);
}

/* The entries of a page, counted by what they say. */
struct tally {
	unsigned int nr[DMR_NR_KINDS];
	unsigned int nr_bad, first_bad;
	unsigned int nr_beyond;		/* past the end of the volume, and not BASE */
};

static void tally_page(const struct rd_meta *meta, u64 seg,
		       const struct rd_entries *page, struct tally *tally)
{
	unsigned int nr = dmr_blocks_in_seg(meta->super.volume_sectors, seg), i;

	for (i = 0; i < DMR_SEG_BLOCKS; i++) {
		struct dmr_entry entry = { .kind = DMR_PAGE };
		bool good = dmr_entry_unpack(meta->seed, false, seg * DMR_SEG_BLOCKS + i,
					     le64_to_cpu(page->entries[i]), &entry);

		tally->nr[entry.kind]++;
		if (i >= nr)
			tally->nr_beyond += !good || entry.kind != DMR_BASE;
		else if (!good && !tally->nr_bad++)
			tally->first_bad = i;
	}
}

static void check_page(struct rd_check *check, const struct rd_meta *meta,
		       u64 seg, u64 hints)
{
	struct tally tally = { .nr_bad = 0 };
	struct rd_entries page;
	int r = read_entries(meta, dmr_page_block(seg), &page);

	check->nr_pages++;
	if (r) {
		found(check, RD_UNREADABLE, page.block,
		      "the location of the segment's blocks is unknown",
		      "the page of segment %llu cannot be read: %s", seg,
		      strerror(-r));
		return;
	}
	tally_page(meta, seg, &page, &tally);
	check->nr_packed += tally.nr[DMR_PACK];
	if (tally.nr_bad)
		found(check, RD_DAMAGE, page.block,
		      "the location of these blocks is unknown",
		      "the page of segment %llu: %u of %u entries are invalid, the first is that of block %llu of the volume",
		      seg, tally.nr_bad, dmr_blocks_in_seg(meta->super.volume_sectors, seg),
		      seg * DMR_SEG_BLOCKS + tally.first_bad);
	else if (tally.nr_beyond)
		found(check, RD_NOTE, page.block,
		      "no effect unless the volume grows",
		      "the page of segment %llu: %u entries beyond the end of the volume are not BASE",
		      seg, tally.nr_beyond);
	else if (dmr_hint_base(hints) != tally.nr[DMR_BASE] ||
		 dmr_hint_zero(hints) != tally.nr[DMR_ZERO])
		found(check, RD_NOTE, dmr_word_block(seg),
		      "the counts of a target are wrong until it reads the page",
		      "the word of segment %llu counts %u blocks on the base and %u of zeros, its page has %u and %u: a crash came between their writes",
		      seg, dmr_hint_base(hints), dmr_hint_zero(hints),
		      tally.nr[DMR_BASE], tally.nr[DMR_ZERO]);
}

/* Check the words of one block, from segment @first on, and the pages that they name. */
static void check_words(struct rd_check *check, const struct rd_meta *meta,
			u64 first)
{
	u64 seg, end = first + DMR_SEG_BLOCKS, nr_bad = 0, first_bad = 0;
	struct rd_entries words;
	struct dmr_entry entry;
	int r = read_entries(meta, dmr_word_block(first), &words);

	if (end > meta->nr_segs)
		end = meta->nr_segs;
	check->nr_words += end - first;
	if (r) {
		found(check, RD_UNREADABLE, words.block,
		      "the location of the segments' blocks is unknown",
		      "the words of segments %llu to %llu cannot be read: %s",
		      first, end - 1, strerror(-r));
		return;
	}
	for (seg = first; seg < end; seg++) {
		u64 word = le64_to_cpu(words.entries[seg - first]);

		if (!dmr_word_unpack(meta->seed, seg, word, &entry)) {
			if (!nr_bad++)
				first_bad = seg;
		} else if (entry.kind == DMR_PAGE) {
			check_page(check, meta, seg, entry.block);
		} else if (entry.kind == DMR_PACK) {
			check->nr_packed += dmr_blocks_in_seg(meta->super.volume_sectors, seg);
		}
	}
	if (nr_bad)
		found(check, RD_DAMAGE, words.block,
		      "the location of these segments' blocks is unknown",
		      "the words of segments %llu to %llu: %llu are invalid, the first is that of segment %llu",
		      first, end - 1, nr_bad, first_bad);
}

/* The bit is set before the first entry is written. */
static void check_packed(struct rd_check *check, const struct rd_meta *meta)
{
	if (check->nr_packed && !(meta->super.incompat & DMR_INCOMPAT_PACK))
		found(check, RD_DAMAGE, meta->chosen == 'A' ? meta->a.block : meta->b.block,
		      "a target that decodes nothing takes the device, and calls these entries damaged",
		      "%llu blocks are in packs, and the superblock does not say so (incompat)",
		      check->nr_packed);
}

void rd_meta_check(const struct rd_meta *meta, struct rd_check *check)
{
	u64 group, seg;

	check_copy(check, meta, 'A');
	check_copy(check, meta, 'B');
	if (meta->r) {
		found(check, RD_DAMAGE, 0, rd_meta_advice(meta),
		      "a target refuses the device: %s", meta->why);
		return;
	}
	check_sequence(check, meta);
	check_features(check, meta);
	check_flags(check, meta);
	for (group = 0; group < meta->nr_groups; group++)
		check_group(check, meta, group);
	if (meta->super.flags & DMR_FLAG_LINEAR_OK)
		return;
	/* The words of a group fill whole blocks. */
	for (seg = 0; seg < meta->nr_segs; seg += DMR_SEG_BLOCKS)
		check_words(check, meta, seg);
	check_packed(check, meta);
}
