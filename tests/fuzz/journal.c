// SPDX-License-Identifier: GPL-2.0
/*
 * The journal. The first byte says whether the input is what the disk has, or what
 * is in parts whose checksums are right, which the fuzzer would never guess.
 */
#include <unistd.h>

#include "pool/catalog/catalog.h"
#include "pool/catalog/changes.h"
#include "pool/engine/journal/journal_part.h"
#include "pool/engine/journal/journal_read.h"
#include "fuzz.h"

#define NR_FRAMES	4
#define JOURNAL		0x0123456789abcdefULL

static struct rd_area area = {
	.super = { .nr_frames = NR_FRAMES, .journal_id = JOURNAL },
};

static u64 nr_changes;

static void put(const void *data, size_t len, u64 offset)
{
	must(pwrite(area.store->fd, data, len, offset) == (ssize_t)len);
}

/* Kind, length, link: then what is in it. */
static void put_parts(struct fuzz_input *input)
{
	struct rd_journal_part *part =
		calloc(1, rd_journal_part_blocks(RD_JOURNAL_PART_MAX) * RD_BLOCK_SIZE);
	struct rd_journal_end end = { .frame = 0 };

	while (input->len && end.block < RD_SEG_BLOCKS) {
		size_t len;

		part->kind = cpu_to_le32(fuzz_take(input, 1));
		len = fuzz_take(input, 2);
		part->link = cpu_to_le64(fuzz_take(input, 1));
		part->generation = cpu_to_le64(end.seq + 1);
		len = rd_min(rd_min(len, input->len),
			     (RD_SEG_BLOCKS - end.block) * RD_BLOCK_SIZE - sizeof(*part));
		part->magic = cpu_to_le32(RD_JOURNAL_MAGIC);
		part->journal = cpu_to_le64(JOURNAL);
		part->seq = cpu_to_le64(end.seq++);
		part->len = cpu_to_le32(len);
		memcpy(part->payload, input->at, len);
		input->at += len;
		input->len -= len;
		part->crc = cpu_to_le32(rd_journal_part_crc(part, len));
		put(part, sizeof(*part) + len, rd_frame_offset(end.frame) +
		    (u64)end.block * RD_BLOCK_SIZE);
		end.block += rd_journal_part_blocks(len);
		if (le32_to_cpu(part->kind) == RD_PART_LINK &&
		    le64_to_cpu(part->link) < NR_FRAMES) {
			end.frame = le64_to_cpu(part->link);
			end.block = 0;
		}
	}
	free(part);
}

static int change(void *ctx, const struct rd_change *change)
{
	(void)ctx;
	must(change->table < RD_NR_TABLES);
	nr_changes++;
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct rd_journal_reader reader = { .change = change }, skimmer = { .change = NULL };
	struct rd_journal_end end = { .frame = 0 }, skimmed = { .frame = 0 };
	u8 how = fuzz_take(&input, 1);
	bool cut;
	int r;

	/* What was there is gone. */
	must(!ftruncate(area.store->fd, 0) &&
	     !ftruncate(area.store->fd, rd_frame_offset(NR_FRAMES - 1) + RD_SEG_SIZE));
	if (how % 4)
		put_parts(&input);
	else
		put(input.at, rd_min(input.len, RD_SEG_SIZE), rd_frame_offset(0));
	r = rd_journal_read(&area, &end, &reader);
	must(r <= 0 && end.block <= RD_SEG_BLOCKS);
	must(end.seq <= size);
	/* Who does not look at the changes comes at least as far. */
	if (!rd_journal_read(&area, &skimmed, &skimmer))
		must(r || (skimmed.seq == end.seq && skimmed.generation == end.generation));
	/* Slow. */
	if (how >= 0xe0)
		must(!rd_journal_is_cut(&area, &end, &cut));
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const u8 parts[] = {
		1, RD_PART_DUMP, 0, 4, 0, '-', RD_TABLE_RECIPE, RD_VALUE_NUMBER, 8,
		RD_PART_MORE, 0, 2, 0, '-', RD_TABLE_RECIPE,
		RD_PART_CHANGES, 0, 2, 0, RD_VALUE_NUMBER, 8,
		RD_PART_LINK, 0, 0, 2,
		RD_PART_CHANGES, 0, 4, 0, '-', RD_TABLE_VOLUME, RD_VALUE_NUMBER, 2,
	};

	(void)argc;
	(void)argv;
	must(!rd_store_use(&area.store, fuzz_file(0)));
	fuzz_seed(parts, sizeof(parts));
	return 0;
}
