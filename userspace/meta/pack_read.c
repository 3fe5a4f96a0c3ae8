// SPDX-License-Identifier: GPL-2.0
/* Blocks of packs; see pack_read.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>

#include "base/direct.h"
#include "base/unpack.h"
#include "pack_read.h"

/* No pack is longer. */
#define PACK_BLOCKS	DMR_SEG_BLOCKS

struct rd_pack_reader {
	int fd;
	u64 pool_blocks;
	u8 uuid[DMR_UUID_SIZE];
	ZSTD_DCtx *decoder;
	u8 *bytes;			/* of the pack: blocks, as far as they are needed */
	u64 at;				/* the pack: block of the pool */
	struct dmr_pack_head head;
	u8 blocks[DMR_PACK_GROUP_SIZE];
	char what[128];
};

struct rd_pack_reader *rd_pack_reader_new(int pool_fd, u64 pool_blocks,
					  const u8 uuid[DMR_UUID_SIZE])
{
	struct rd_pack_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->fd = pool_fd;
	reader->pool_blocks = pool_blocks;
	memcpy(reader->uuid, uuid, sizeof(reader->uuid));
	reader->decoder = ZSTD_createDCtx();
	reader->bytes = rd_alloc_direct((size_t)PACK_BLOCKS << DMR_BLOCK_SHIFT);
	if (reader->decoder && reader->bytes)
		return reader;
	rd_pack_reader_free(reader);
	return NULL;
}

void rd_pack_reader_free(struct rd_pack_reader *reader)
{
	if (!reader)
		return;
	ZSTD_freeDCtx(reader->decoder);
	free(reader->bytes);
	free(reader);
}

const char *rd_pack_read_what(const struct rd_pack_reader *reader)
{
	return reader->what;
}

__attribute__((format(printf, 3, 4)))
static int fail(struct rd_pack_reader *reader, int r, const char *fmt, ...)
{
	int len = snprintf(reader->what, sizeof(reader->what), "the pack at block %llx of the pool ",
			   reader->at);
	va_list args;

	va_start(args, fmt);
	vsnprintf(reader->what + len, sizeof(reader->what) - len, fmt, args);
	va_end(args);
	return r;
}

/* Read the blocks of the pack that have its bytes @from to @end. */
static int read_bytes(struct rd_pack_reader *reader, u32 from, u32 end)
{
	u32 first = from >> DMR_BLOCK_SHIFT << DMR_BLOCK_SHIFT;
	u32 len = ((end - 1) >> DMR_BLOCK_SHIFT << DMR_BLOCK_SHIFT) + DMR_BLOCK_SIZE - first;
	int r = rd_read_direct(reader->fd, reader->bytes + first, len,
			       (reader->at << DMR_BLOCK_SHIFT) + first);

	return r ? fail(reader, r, "cannot be read") : 0;
}

static int read_head(struct rd_pack_reader *reader)
{
	u64 blocks = reader->pool_blocks - reader->at;
	int r = read_bytes(reader, 0, DMR_PACK_HEAD);

	if (r)
		return r;
	if (blocks > PACK_BLOCKS)
		blocks = PACK_BLOCKS;
	if (dmr_pack_head_unpack((const struct dmr_pack_disk *)reader->bytes,
				 blocks << DMR_BLOCK_SHIFT, &reader->head))
		return fail(reader, -EBADMSG, "has no head, or a damaged one");
	if (!dmr_is_zero(reader->uuid, DMR_UUID_SIZE) &&
	    memcmp(reader->head.uuid, reader->uuid, DMR_UUID_SIZE))
		return fail(reader, -EBADMSG, "is one of another pool");
	return 0;
}

static int take_group(struct rd_pack_reader *reader, unsigned int nr,
		      const struct rd_pack_want *wants, unsigned int nr_wants)
{
	struct dmr_pack_group group;
	unsigned int i;
	int r;

	dmr_pack_group(&reader->head, nr, &group);
	if (!rd_group_is_sound(&group, reader->bytes + group.offset))
		return fail(reader, -EBADMSG, "is damaged in its group %u", nr);
	r = rd_group_decode(reader->decoder, &group, reader->bytes + group.offset, reader->blocks);
	if (r)
		return fail(reader, r, "cannot be decoded in its group %u", nr);
	for (i = 0; i < nr_wants; i++) {
		if (!dmr_group_has(&group, wants[i].slot, 1))
			return fail(reader, -EBADMSG, "has no block in slot %x", wants[i].slot);
		memcpy(wants[i].to, reader->blocks + (size_t)DMR_BLOCK_SIZE *
		       dmr_group_block_at(&group, wants[i].slot), DMR_BLOCK_SIZE);
	}
	return 0;
}

static unsigned int group_of(const struct rd_pack_want *want)
{
	return want->slot / DMR_PACK_GROUP_BLOCKS;
}

/* Find the end of the groups in a row that @wants, of @nr, begin with. */
static unsigned int row_end(const struct rd_pack_want *wants, unsigned int nr)
{
	unsigned int i = 1;

	while (i < nr && group_of(&wants[i]) - group_of(&wants[i - 1]) <= 1)
		i++;
	return i;
}

static int read_row(struct rd_pack_reader *reader, const struct rd_pack_want *wants,
		    unsigned int nr)
{
	struct dmr_pack_group first, last;
	unsigned int i = 0, end;
	int r = 0;

	dmr_pack_group(&reader->head, group_of(&wants[0]), &first);
	dmr_pack_group(&reader->head, group_of(&wants[nr - 1]), &last);
	if (last.offset + last.len > first.offset)
		r = read_bytes(reader, first.offset, last.offset + last.len);
	for (; i < nr && !r; i = end) {
		for (end = i + 1; end < nr && group_of(&wants[end]) == group_of(&wants[i]);)
			end++;
		r = take_group(reader, group_of(&wants[i]), wants + i, end - i);
	}
	return r;
}

int rd_pack_read(struct rd_pack_reader *reader, const struct rd_pack_want *wants, unsigned int nr)
{
	unsigned int i = 0, row;
	int r;

	reader->at = wants->head;
	r = read_head(reader);
	for (; i < nr && !r; i += row) {
		row = row_end(wants + i, nr - i);
		r = read_row(reader, wants + i, row);
	}
	return r;
}
