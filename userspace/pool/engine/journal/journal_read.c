// SPDX-License-Identifier: GPL-2.0
/* Read the copy of the catalog in the data area. */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/catalog.h"
#include "pool/catalog/changes.h"
#include "pool/data/rados.h"
#include "journal_part.h"
#include "journal_read.h"

static int read_changes(const struct rd_journal_reader *reader, const u8 *data, size_t len)
{
	struct rd_change change;
	int r = 0;

	while (len && !r) {
		ssize_t used = rd_change_unpack(&change, rd_tables, RD_NR_TABLES, data, len);

		if (used < 0)
			return rd_err(used, "the journal is damaged");
		r = reader->change(reader->ctx, &change);
		data += used;
		len -= used;
	}
	return r;
}

/* Pass on a transaction, which ends with @part. */
static int pass_entry(const struct rd_journal_reader *reader, const struct rd_journal_part *part,
		      const struct rd_buffer *whole)
{
	struct rd_journal_entry entry = {
		.generation = le64_to_cpu(part->generation),
		.session = le64_to_cpu(part->session),
		.changes = whole->data,
		.len = whole->len,
	};
	int r = 0;

	if (reader->change)
		r = read_changes(reader, whole->data, whole->len);
	return r || !reader->entry ? r : reader->entry(reader->ctx, &entry);
}

/* Take @part in: @whole collects the changes of a transaction until its last part. */
static int take_part(const struct rd_journal_reader *reader, const struct rd_journal_part *part,
		     struct rd_journal_end *end, struct rd_buffer *whole)
{
	size_t len = le32_to_cpu(part->len);
	int r = 0;

	rd_journal_part_pass(end, part);
	switch (le32_to_cpu(part->kind)) {
	case RD_PART_LINK:
		end->frame = le64_to_cpu(part->link);
		end->block = 0;
		if (end->frame >= 1ULL << 40)
			return -EBADMSG;
		return reader->frame ? reader->frame(reader->ctx, end->frame) : 0;
	case RD_PART_DUMP:
		end->dump_blocks += rd_journal_part_blocks(len);
		end->generation = le64_to_cpu(part->generation);
		return reader->change ? read_changes(reader, part->payload, len) : 0;
	case RD_PART_MORE:
		if (reader->change || reader->entry)
			rd_buffer_put(whole, part->payload, len);
		return whole->failed ? -ENOMEM : 0;
	case RD_PART_CHANGES:
		end->generation = le64_to_cpu(part->generation);
		if (reader->change || reader->entry)
			rd_buffer_put(whole, part->payload, len);
		r = whole->failed ? -ENOMEM : pass_entry(reader, part, whole);
		whole->len = 0;
		return r;
	default:
		return -EBADMSG;
	}
}

int rd_journal_read(const struct rd_area *area, struct rd_journal_end *end,
		    const struct rd_journal_reader *reader)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
	struct rd_journal_end whole_end = *end;
	struct rd_buffer whole = { 0 };
	int r = part ? 0 : -ENOMEM;
	bool goes_on = false;

	while (!r) {
		r = rd_journal_part_read(area, end, part);
		if (!r)
			r = take_part(reader, part, end, &whole);
		if (r)
			break;
		/* A transaction with parts missing is not there, nor are links within it. */
		if (le32_to_cpu(part->kind) != RD_PART_LINK)
			goes_on = le32_to_cpu(part->kind) == RD_PART_MORE;
		if (!goes_on)
			whole_end = *end;
	}
	rd_buffer_free(&whole);
	*end = whole_end;
	return r == -ENODATA ? 0 : r;
}

/* --- what comes after the end */

static bool is_later(const struct rd_area *area, const struct rd_journal_part *part, u64 seq)
{
	return le32_to_cpu(part->magic) == RD_JOURNAL_MAGIC && le64_to_cpu(part->seq) > seq &&
		le64_to_cpu(part->journal) == area->super.journal_id;
}

/* Look in the rest of the frame. */
static int find_later(const struct rd_area *area, const struct rd_journal_end *end, bool *ret)
{
	size_t len = (RD_SEG_BLOCKS - end->block) * RD_BLOCK_SIZE, at;
	RD_FREE u8 *rest = rd_alloc_direct(RD_SEG_SIZE);

	if (!rest)
		return -ENOMEM;
	/* A block that cannot be read may have been a part. */
	*ret = len && rd_area_read(area, rest, len, rd_slot_offset(end->frame, end->block));
	for (at = 0; at < len && !*ret; at += RD_BLOCK_SIZE) {
		const struct rd_journal_part *part = (struct rd_journal_part *)(rest + at);

		*ret = is_later(area, part, end->seq) ||
			(!at && rd_journal_part_is_next(area, part, end->seq));
	}
	return 0;
}

/*
 * Look in all frames: the link to the next one may be what is lost, if it was to be near
 * the end of its frame.
 */
static int find_next_frame(const struct rd_area *area, const struct rd_journal_end *end,
			   bool *ret)
{
	u8 block[RD_BLOCK_SIZE];
	struct rd_journal_part *part = (struct rd_journal_part *)block;
	off_t data = 0;
	u64 frame;

	if (end->block + rd_journal_part_blocks(RD_JOURNAL_PART_MAX) <= RD_JOURNAL_LAST_BLOCK)
		return 0;
	for (frame = 0; frame < area->super.nr_frames && !*ret; frame++) {
		if ((u64)data < rd_frame_offset(frame))
			data = rd_store_seek(area->store, rd_frame_offset(frame), SEEK_DATA);
		/* Holes, as far as the store says so. */
		if (data < 0 && errno == ENXIO)
			break;
		if (data > (off_t)rd_frame_offset(frame))
			continue;
		if (rd_area_read(area, block, sizeof(block), rd_frame_offset(frame)))
			continue;
		*ret = is_later(area, part, end->seq);
	}
	return 0;
}

/*
 * Each frame was cleared before a link led there. Where a host can lose a single one it is not
 * zeros then, but gone.
 */
static int find_lost(const struct rd_area *area, const struct rd_journal_end *end, bool *ret)
{
	*ret = false;
	if (!rd_area_can(area, RD_STORE_FENCED))
		return 0;
	return rd_shard_is_lost(area->store, rd_frame_offset(end->frame), ret);
}

int rd_journal_skip(const struct rd_area *area, struct rd_journal_end *at)
{
	RD_FREE struct rd_journal_part *part = rd_journal_part_new();
	struct rd_journal_reader reader = { .change = NULL };
	struct rd_buffer unused = { 0 };
	int r = part ? 0 : -ENOMEM;

	while (!r) {
		r = rd_journal_part_read(area, at, part);
		if (!r)
			r = take_part(&reader, part, at, &unused);
	}
	return r == -ENOMEM ? r : 0;
}

int rd_journal_is_cut(const struct rd_area *area, const struct rd_journal_end *end, bool *ret)
{
	struct rd_journal_end at = *end;
	u64 seen = U64_MAX;
	int r;

	/* What is found may have been appended since the parts were read: look once more. */
	for (;;) {
		r = rd_journal_skip(area, &at);
		if (!r)
			r = find_lost(area, &at, ret);
		if (!r && !*ret)
			r = find_later(area, &at, ret);
		if (!r && !*ret)
			r = find_next_frame(area, &at, ret);
		if (r || !*ret || at.seq == seen)
			return r;
		seen = at.seq;
	}
}
