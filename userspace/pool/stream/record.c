// SPDX-License-Identifier: GPL-2.0
/* The stream of versions, byte by byte: see record.h. */
#include <linux/crc32c.h>

#include <errno.h>
#include <string.h>

#include "record.h"

static const char magic[8] = "RDSTRM1\n";

/* Where the magic has the format. */
#define FORMAT_AT	6

#define KNOWN_FEATURES	0

/* --- preamble and heads */

void rd_preamble_put(u8 to[RD_PREAMBLE], char who)
{
	memset(to, 0, RD_PREAMBLE);
	memcpy(to, magic, sizeof(magic));
	to[8] = who;
	rd_put_u32(to + 12, KNOWN_FEATURES);
	rd_put_u32(to + 16, ~crc32c(~0U, to, 16));
}

int rd_preamble_get(const u8 from[RD_PREAMBLE], char *ret_who)
{
	if (memcmp(from, magic, FORMAT_AT) || from[FORMAT_AT + 1] != magic[FORMAT_AT + 1])
		return -EMEDIUMTYPE;
	if (rd_get_u32(from + 16) != ~crc32c(~0U, from, 16))
		return -EBADMSG;
	if (from[FORMAT_AT] != magic[FORMAT_AT])
		return -EPROTONOSUPPORT;
	if (rd_get_u32(from + 12) & ~KNOWN_FEATURES)
		return -EOPNOTSUPP;
	*ret_who = from[8];
	return rd_is_zero(from + 9, 3) && strchr("FSRN", *ret_who) && *ret_who ? 0 : -EBADMSG;
}

static u32 sum_of(const u8 *head, const void *data, size_t len)
{
	return ~crc32c(crc32c(~0U, head, 8), data, len);
}

void rd_record_put(struct rd_buffer *to, enum rd_record_type type, const void *data, size_t len)
{
	u8 head[RD_RECORD_HEAD] = { type };

	rd_put_u32(head + 4, len);
	rd_put_u32(head + 8, sum_of(head, data, len));
	rd_buffer_put(to, head, sizeof(head));
	rd_buffer_put(to, data, len);
}

int rd_record_head(const u8 from[RD_RECORD_HEAD], struct rd_record *ret)
{
	ret->type = from[0];
	ret->len = rd_get_u32(from + 4);
	return rd_is_zero(from + 1, 3) && ret->len <= RD_RECORD_MAX ? 0 : -EBADMSG;
}

bool rd_record_is_sound(const u8 *head, const struct rd_record *record)
{
	return rd_get_u32(head + 8) == sum_of(head, record->data, record->len);
}

const char *rd_text_get(const struct rd_record *record)
{
	const char *text = (const char *)record->data;

	return record->len && strnlen(text, record->len) == record->len - 1 ? text : NULL;
}

/* --- parts of payloads */

static void put_u64(struct rd_buffer *to, u64 value)
{
	u8 bytes[8];

	rd_put_u64(bytes, value);
	rd_buffer_put(to, bytes, sizeof(bytes));
}

static void put_text(struct rd_buffer *to, const char *text)
{
	rd_buffer_put(to, text, strlen(text) + 1);
}

static void put_slots(struct rd_buffer *to, const struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		put_u64(to, slots->bits[i]);
}

static void get_slots(const u8 *from, struct rd_slots *ret)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		ret->bits[i] = rd_get_u64(from + 8 * i);
}

/* Take the text at *@at, which must end before @end. NULL: it does not. */
static const char *take_text(const u8 **at, const u8 *end)
{
	const char *text = (const char *)*at;
	size_t len = strnlen(text, end - *at);

	if (len == (size_t)(end - *at))
		return NULL;
	*at += len + 1;
	return text;
}

void rd_known_put(struct rd_buffer *to, const struct rd_known *known)
{
	put_u64(to, known->uid);
	put_u64(to, known->number);
	put_u64(to, known->pin);
	put_u64(to, known->pin >> 64);
}

void rd_known_get(const u8 *from, struct rd_known *ret)
{
	ret->uid = rd_get_u64(from);
	ret->number = rd_get_u64(from + 8);
	ret->pin = (rd_sum)rd_get_u64(from + 24) << 64 | rd_get_u64(from + 16);
}

/* --- offer */

#define OFFER_HEAD	56

void rd_offer_put(struct rd_buffer *to, const struct rd_offer *offer)
{
	rd_known_put(to, &offer->known);
	put_u64(to, offer->size);
	put_u64(to, offer->time);
	put_u64(to, offer->is_consistent);
	put_text(to, offer->volume);
	put_text(to, offer->comment);
	rd_buffer_put(to, offer->tags, offer->tags_len);
}

int rd_offer_get(const struct rd_record *record, struct rd_offer *ret)
{
	const u8 *at = record->data, *end = at + record->len;

	if (record->len < OFFER_HEAD || !rd_is_zero(at + 49, 7) || at[48] > 1)
		return -EBADMSG;
	rd_known_get(at, &ret->known);
	ret->size = rd_get_u64(at + 32);
	ret->time = rd_get_u64(at + 40);
	ret->is_consistent = at[48];
	at += OFFER_HEAD;
	ret->volume = take_text(&at, end);
	ret->comment = ret->volume ? take_text(&at, end) : NULL;
	if (!ret->comment)
		return -EBADMSG;
	ret->tags = (const char *)at;
	ret->tags_len = end - at;
	while (at < end)
		if (!take_text(&at, end))
			return -EBADMSG;
	return 0;
}

/* --- what follows, and what is wanted */

void rd_begin_put(struct rd_buffer *to, const struct rd_begin *begin)
{
	put_u64(to, begin->is_delta);
	put_u64(to, begin->from);
	rd_known_put(to, &begin->base);
}

int rd_begin_get(const struct rd_record *record, struct rd_begin *ret)
{
	u64 kind;

	if (record->len != RD_BEGIN_SIZE)
		return -EBADMSG;
	kind = rd_get_u64(record->data);
	ret->is_delta = kind;
	ret->from = rd_get_u64(record->data + 8);
	rd_known_get(record->data + 16, &ret->base);
	return kind > 1 ? -EBADMSG : 0;
}

void rd_want_put(struct rd_buffer *to, const struct rd_want *want)
{
	put_u64(to, want->from);
	rd_known_put(to, &want->base);
	rd_buffer_put(to, want->nonce, sizeof(want->nonce));
}

int rd_want_get(const struct rd_record *record, struct rd_want *ret)
{
	if (record->len != RD_WANT_SIZE)
		return -EBADMSG;
	ret->from = rd_get_u64(record->data);
	rd_known_get(record->data + 8, &ret->base);
	memcpy(ret->nonce, record->data + 40, sizeof(ret->nonce));
	return 0;
}

/* --- segments and blocks */

void rd_named_put(struct rd_buffer *to, const struct rd_named *named)
{
	put_u64(to, named->segment);
	rd_buffer_put(to, &named->fp, sizeof(named->fp));
}

void rd_named_get(const u8 *from, struct rd_named *ret)
{
	ret->segment = rd_get_u64(from);
	memcpy(&ret->fp, from + 8, sizeof(ret->fp));
}

void rd_blocks_of_put(struct rd_buffer *to, u64 segment, const struct rd_slots *slots,
		      const struct rd_fp fps[RD_SEG_BLOCKS])
{
	unsigned int i;

	put_u64(to, segment);
	put_slots(to, slots);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(slots, i))
			rd_buffer_put(to, &fps[i], sizeof(fps[i]));
}

int rd_blocks_of_get(const struct rd_record *record, struct rd_blocks_of *ret)
{
	if (record->len < 72)
		return -EBADMSG;
	ret->segment = rd_get_u64(record->data);
	get_slots(record->data + 8, &ret->slots);
	ret->nr = rd_slots_count(&ret->slots);
	ret->fps = record->data + 72;
	return record->len == 72 + ret->nr * sizeof(struct rd_fp) ? 0 : -EBADMSG;
}

void rd_need_put(struct rd_buffer *to, const struct rd_need *need)
{
	put_u64(to, need->segment);
	put_slots(to, &need->need);
	put_slots(to, &need->prove);
}

int rd_need_get(const struct rd_record *record, struct rd_need *ret)
{
	unsigned int i;

	if (record->len != RD_NEED_SIZE)
		return -EBADMSG;
	ret->segment = rd_get_u64(record->data);
	get_slots(record->data + 8, &ret->need);
	get_slots(record->data + 72, &ret->prove);
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		if (ret->need.bits[i] & ret->prove.bits[i])
			return -EBADMSG;
	return 0;
}

void rd_data_head_put(u8 to[RD_DATA_HEAD], u64 segment, const struct rd_slots *slots, u8 codec)
{
	unsigned int i;

	memset(to, 0, RD_DATA_HEAD);
	rd_put_u64(to, segment);
	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		rd_put_u64(to + 8 + 8 * i, slots->bits[i]);
	to[72] = codec;
}

void rd_data_groups_put(u8 to[RD_DATA_GROUPS], const struct dmr_pack_head *head)
{
	unsigned int i;

	for (i = 0; i < RD_PACK_GROUPS; i++)
		rd_put_u32(to + 4 * i, head->groups[i].len | (u32)head->groups[i].codec << 24);
}

/* Read the numbers before the groups; @ret->bytes are the groups then. */
static int get_groups(struct rd_data *ret)
{
	size_t len = 0;
	unsigned int i;

	if (ret->len < RD_DATA_GROUPS)
		return -EBADMSG;
	for (i = 0; i < RD_PACK_GROUPS; i++) {
		u32 word = rd_get_u32(ret->bytes + 4 * i);

		ret->head.groups[i].len = word & 0xffffff;
		ret->head.groups[i].codec = word >> 24;
		len += word & 0xffffff;
	}
	ret->bytes += RD_DATA_GROUPS;
	ret->len -= RD_DATA_GROUPS;
	return ret->len == len && len <= RD_PACK_MAX - RD_PACK_HEAD ? 0 : -EBADMSG;
}

int rd_data_get(const struct rd_record *record, struct rd_data *ret)
{
	const u8 *at = record->data;
	struct rd_slots slots;

	if (record->len < RD_DATA_HEAD || at[72] > RD_DATA_PACK || !rd_is_zero(at + 73, 7))
		return -EBADMSG;
	ret->segment = rd_get_u64(at);
	get_slots(at + 8, &slots);
	rd_pack_set_slots(&ret->head, &slots);
	ret->codec = at[72];
	ret->bytes = at + RD_DATA_HEAD;
	ret->len = record->len - RD_DATA_HEAD;
	return ret->codec == RD_DATA_PACK ? get_groups(ret) : 0;
}
