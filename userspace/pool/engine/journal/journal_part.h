/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of the journal, as the data area has it: the format is described in journal.h.
 * Only the journal's own files and their tests use this.
 */
#ifndef RD_JOURNAL_PART_H
#define RD_JOURNAL_PART_H

#include "pool/catalog/state.h"
#include "pool/data/area.h"

#define RD_JOURNAL_MAGIC	0x314a4452U	/* "RDJ1" */
#define RD_JOURNAL_PART_MAX	(256U << 10)	/* payload */
/* Kept for a link. In tests a journal is short, and has some all the same. */
#ifdef RD_TEST
#define RD_JOURNAL_LAST_BLOCK	79
#else
#define RD_JOURNAL_LAST_BLOCK	(RD_SEG_BLOCKS - 1)
#endif

enum rd_journal_part_kind {
	RD_PART_CHANGES = 1,
	RD_PART_MORE,
	RD_PART_DUMP,
	RD_PART_LINK,
};

struct rd_journal_part {
	__le32 magic;
	__le32 crc;
	__le64 journal;
	__le64 seq;
	__le64 generation;
	__le32 len;
	__le32 kind;
	__le64 link;
	__le64 session;
	__le32 before;
	u8 zeros[4];
	u8 payload[];
};

_Static_assert(sizeof(struct rd_journal_part) == 64, "journal part");

/* Allocate room for the longest part. NULL: no memory. */
struct rd_journal_part *rd_journal_part_new(void);

/* How many blocks a part with @len bytes of payload takes. */
unsigned int rd_journal_part_blocks(size_t len);

/* Compute what the field crc must hold. */
u32 rd_journal_part_crc(struct rd_journal_part *part, size_t len);

/*
 * Read the part at @end into @part, which has room for any. -ENODATA: that is the end of
 * the journal.
 */
int rd_journal_part_read(const struct rd_area *area, const struct rd_journal_end *end,
			 struct rd_journal_part *part);

/* Move @end, where @part is, behind it. */
void rd_journal_part_pass(struct rd_journal_end *end, const struct rd_journal_part *part);

/*
 * Is this a block of the part numbered @seq, even of a damaged one? A bit that has
 * flipped leaves two of the three fields as they were, and so does a crash in the middle
 * of writing the block.
 */
bool rd_journal_part_is_next(const struct rd_area *area, const struct rd_journal_part *part,
			     u64 seq);

#endif
