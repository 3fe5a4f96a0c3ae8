// SPDX-License-Identifier: GPL-2.0
/* Parts of the journal: their format, checked as they are read. */
#include <errno.h>
#include <linux/crc32c.h>
#include <stdlib.h>

#include "journal_part.h"

struct rd_journal_part *rd_journal_part_new(void)
{
	return malloc(rd_journal_part_blocks(RD_JOURNAL_PART_MAX) * RD_BLOCK_SIZE);
}

unsigned int rd_journal_part_blocks(size_t len)
{
	return (sizeof(struct rd_journal_part) + len + RD_BLOCK_SIZE - 1) / RD_BLOCK_SIZE;
}

u32 rd_journal_part_crc(struct rd_journal_part *part, size_t len)
{
	__le32 crc = part->crc;
	u32 sum;

	part->crc = 0;
	sum = ~crc32c(~0U, part, sizeof(*part) + len);
	part->crc = crc;
	return sum;
}

/*
 * Was the part before @part the last one before @end? If not, @part is from before the catalog
 * was made anew from the beginning of this journal, which went on in place of what was lost.
 */
static bool follows(const struct rd_journal_part *part, const struct rd_journal_end *end)
{
	return !part->before || !end->last_crc || le32_to_cpu(part->before) == end->last_crc;
}

int rd_journal_part_read(const struct rd_area *area, const struct rd_journal_end *end,
			 struct rd_journal_part *part)
{
	u64 offset = rd_slot_offset(end->frame, end->block);
	unsigned int blocks;
	size_t len;
	int r;

	r = rd_area_read(area, part, RD_BLOCK_SIZE, offset);
	if (r)
		return r;
	len = le32_to_cpu(part->len);
	blocks = rd_journal_part_blocks(len);
	if (le32_to_cpu(part->magic) != RD_JOURNAL_MAGIC || len > RD_JOURNAL_PART_MAX ||
	    le64_to_cpu(part->journal) != area->super.journal_id ||
	    le64_to_cpu(part->seq) != end->seq || end->block + blocks > RD_SEG_BLOCKS ||
	    !follows(part, end))
		return -ENODATA;
	if (blocks > 1)
		r = rd_area_read(area, (u8 *)part + RD_BLOCK_SIZE, (blocks - 1) * RD_BLOCK_SIZE,
				 offset + RD_BLOCK_SIZE);
	if (!r && rd_journal_part_crc(part, len) != le32_to_cpu(part->crc))
		r = -ENODATA;
	return r;
}

void rd_journal_part_pass(struct rd_journal_end *end, const struct rd_journal_part *part)
{
	end->last_frame = end->frame;
	end->last_block = end->block;
	end->last_crc = le32_to_cpu(part->crc);
	end->seq++;
	end->block += rd_journal_part_blocks(le32_to_cpu(part->len));
}

bool rd_journal_part_is_next(const struct rd_area *area, const struct rd_journal_part *part,
			     u64 seq)
{
	return (le32_to_cpu(part->magic) == RD_JOURNAL_MAGIC) +
		(le64_to_cpu(part->journal) == area->super.journal_id) +
		(le64_to_cpu(part->seq) == seq) > 1;
}
