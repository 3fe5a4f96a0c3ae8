// SPDX-License-Identifier: GPL-2.0
/*
 * A record of a stream of versions, or its preamble: the first byte says which, the rest is the
 * payload. Whatever can be read is written as it was.
 */
#include "base/buffer.h"
#include "pool/stream/record.h"
#include "fuzz.h"

/* What was read from @record, put again, is in @again. */
static void must_be(const struct rd_record *record, struct rd_buffer *again)
{
	must(!again->failed && again->len == record->len);
	must(!memcmp(again->data, record->data, record->len));
}

static void read_offer(const struct rd_record *record, struct rd_buffer *again)
{
	struct rd_offer offer;
	const char *tag;

	if (rd_offer_get(record, &offer))
		return;
	for (tag = offer.tags; tag < offer.tags + offer.tags_len; tag += strlen(tag) + 1)
		;
	must(tag == offer.tags + offer.tags_len);
	rd_offer_put(again, &offer);
	must_be(record, again);
}

static void read_blocks(const struct rd_record *record, struct rd_buffer *again)
{
	struct rd_fp fps[RD_SEG_BLOCKS] = { 0 };
	struct rd_blocks_of blocks;
	unsigned int i, at = 0;

	if (rd_blocks_of_get(record, &blocks))
		return;
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(&blocks.slots, i))
			memcpy(&fps[i], blocks.fps + at++ * sizeof(*fps), sizeof(*fps));
	must(at == blocks.nr);
	rd_blocks_of_put(again, blocks.segment, &blocks.slots, fps);
	must_be(record, again);
}

static void read_data(const struct rd_record *record)
{
	u8 head[RD_DATA_HEAD], groups[RD_DATA_GROUPS];
	struct rd_slots slots;
	struct rd_data data;

	if (rd_data_get(record, &data))
		return;
	slots = rd_pack_slots(&data.head);
	must(data.bytes + data.len == record->data + record->len);
	rd_data_head_put(head, data.segment, &slots, data.codec);
	must(!memcmp(head, record->data, sizeof(head)));
	if (data.codec != RD_DATA_PACK)
		return;
	rd_data_groups_put(groups, &data.head);
	must(!memcmp(groups, record->data + sizeof(head), sizeof(groups)));
}

/* Those of one size. */
static void read_small(const struct rd_record *record, struct rd_buffer *again)
{
	struct rd_begin begin;
	struct rd_want want;
	struct rd_need need;

	if (record->type == RD_REC_VERSION && !rd_begin_get(record, &begin))
		rd_begin_put(again, &begin);
	else if (record->type == RD_REC_WANT && !rd_want_get(record, &want))
		rd_want_put(again, &want);
	else if (record->type == RD_REC_NEED && !rd_need_get(record, &need))
		rd_need_put(again, &need);
	else
		return;
	must_be(record, again);
}

static void read_rows(const struct rd_record *record, struct rd_buffer *again)
{
	bool names = record->type == RD_REC_SEGMENTS;
	unsigned int size = names ? RD_NAMED_SIZE : RD_KNOWN_SIZE;
	struct rd_named named;
	struct rd_known known;
	u32 at;

	for (at = 0; at + size <= record->len; at += size) {
		if (names) {
			rd_named_get(record->data + at, &named);
			rd_named_put(again, &named);
		} else {
			rd_known_get(record->data + at, &known);
			rd_known_put(again, &known);
		}
	}
	must(again->len == at && (!at || !memcmp(again->data, record->data, at)));
}

static void read_record(const struct rd_record *record, struct rd_buffer *again)
{
	const char *text = rd_text_get(record);

	must(!text || strlen(text) + 1 == record->len);
	switch (record->type) {
	case RD_REC_OFFER:
		return read_offer(record, again);
	case RD_REC_BLOCKS:
		return read_blocks(record, again);
	case RD_REC_DATA:
		return read_data(record);
	case RD_REC_SEGMENTS:
	case RD_REC_HAS:
		return read_rows(record, again);
	}
	read_small(record, again);
}

static void read_heads(const u8 *data, size_t size)
{
	u8 again[RD_PREAMBLE];
	struct rd_record record;
	char who;

	if (size >= RD_PREAMBLE && !rd_preamble_get(data, &who)) {
		rd_preamble_put(again, who);
		must(!memcmp(again, data, sizeof(again)));
	}
	if (size < RD_RECORD_HEAD || rd_record_head(data, &record))
		return;
	must(record.len <= RD_RECORD_MAX);
	record.data = data + RD_RECORD_HEAD;
	if (record.len <= size - RD_RECORD_HEAD)
		rd_record_is_sound(data, &record);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct rd_buffer again = { 0 };
	struct rd_record record;
	u8 *copy;

	if (!size)
		return 0;
	/* Of its own size, so that a read beyond its end is seen. */
	copy = malloc(size - 1 + (size == 1));
	must(copy);
	memcpy(copy, data + 1, size - 1);
	record = (struct rd_record){ .type = data[0], .len = size - 1, .data = copy };
	read_heads(copy, size - 1);
	read_record(&record, &again);
	rd_buffer_free(&again);
	free(copy);
	return 0;
}

/* What was put is a record with its head, of which the type stays. */
static void seed(enum rd_record_type type, struct rd_buffer *payload)
{
	struct rd_buffer input = { 0 };

	rd_buffer_put_u8(&input, type);
	rd_buffer_put(&input, payload->data, payload->len);
	must(!input.failed);
	fuzz_seed(input.data, input.len);
	input.len = 1;
	rd_record_put(&input, type, payload->data, payload->len);
	must(!input.failed);
	fuzz_seed(input.data, input.len);
	rd_buffer_free(&input);
	payload->len = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct rd_offer offer = { .known = { 1, 2, 3 }, .size = 4096, .volume = "vm1",
				  .comment = "c", .tags = "a\0b", .tags_len = 4 };
	struct rd_begin begin = { .is_delta = true, .base = { 4, 5, 6 } };
	struct rd_blocks_of blocks = { .segment = 7 };
	struct rd_fp fps[RD_SEG_BLOCKS] = { 0 };
	struct rd_want want = { .from = 8 };
	struct rd_need need = { .segment = 9 };
	struct rd_buffer payload = { 0 };
	u8 bytes[RD_PREAMBLE + 1] = { 0 };
	u8 head[RD_DATA_HEAD], groups[RD_DATA_GROUPS];
	struct dmr_pack_head pack = { .groups[3] = { .len = 20, .codec = DMR_CODEC_ZSTD } };

	(void)argc;
	(void)argv;
	rd_preamble_put(bytes + 1, 'S');
	fuzz_seed(bytes, sizeof(bytes));
	rd_slots_set(&blocks.slots, 3);
	rd_slots_set(&blocks.slots, 500);
	rd_slots_set(&need.prove, 3);
	rd_offer_put(&payload, &offer);
	seed(RD_REC_OFFER, &payload);
	rd_begin_put(&payload, &begin);
	seed(RD_REC_VERSION, &payload);
	rd_blocks_of_put(&payload, 7, &blocks.slots, fps);
	seed(RD_REC_BLOCKS, &payload);
	rd_want_put(&payload, &want);
	seed(RD_REC_WANT, &payload);
	rd_need_put(&payload, &need);
	seed(RD_REC_NEED, &payload);
	rd_known_put(&payload, &begin.base);
	seed(RD_REC_HAS, &payload);
	rd_data_head_put(head, 7, &blocks.slots, RD_DATA_ZSTD);
	rd_buffer_put(&payload, head, sizeof(head));
	seed(RD_REC_DATA, &payload);
	rd_data_head_put(head, 7, &blocks.slots, RD_DATA_PACK);
	rd_data_groups_put(groups, &pack);
	rd_buffer_put(&payload, head, sizeof(head));
	rd_buffer_put(&payload, groups, sizeof(groups));
	rd_buffer_put(&payload, groups, 20);
	seed(RD_REC_DATA, &payload);
	rd_buffer_free(&payload);
	return 0;
}
