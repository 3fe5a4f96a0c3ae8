// SPDX-License-Identifier: GPL-2.0
/* Changes of the catalog as bytes, and back. */
#include <errno.h>

#include "changes.h"

struct reader {
	const u8 *at;
	const u8 *end;
	bool bad;
};

static u8 get_u8(struct reader *reader)
{
	if (reader->at == reader->end) {
		reader->bad = true;
		return 0;
	}
	return *reader->at++;
}

static u64 get_varint(struct reader *reader)
{
	unsigned int shift;
	u64 value = 0;

	for (shift = 0; shift < 64 && !reader->bad; shift += 7) {
		u8 byte = get_u8(reader);

		value |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	reader->bad = true;
	return 0;
}

static void get_value(struct reader *reader, struct rd_value *value)
{
	u64 number;

	*value = (struct rd_value){ .type = get_u8(reader) };
	switch (value->type) {
	case RD_VALUE_NULL:
		break;
	case RD_VALUE_NUMBER:
		number = get_varint(reader);
		value->number = (i64)(number >> 1) ^ -(i64)(number & 1);
		break;
	case RD_VALUE_TEXT:
	case RD_VALUE_BLOB:
		number = get_varint(reader);
		if (number > (u64)(reader->end - reader->at)) {
			reader->bad = true;
			break;
		}
		value->data = reader->at;
		value->len = number;
		reader->at += number;
		break;
	default:
		reader->bad = true;
	}
}

ssize_t rd_change_unpack(struct rd_change *change, const struct rd_sql_table *tables,
			 unsigned int nr_tables, const void *data, size_t len)
{
	struct reader reader = { .at = data, .end = (const u8 *)data + len };
	unsigned int i;

	change->what = get_u8(&reader);
	change->table = get_u8(&reader);
	if (reader.bad || change->table >= nr_tables)
		return -EBADMSG;
	switch (change->what) {
	case RD_CHANGE_PUT:
		change->nr_values = tables[change->table].nr_columns;
		break;
	case RD_CHANGE_DELETE:
		change->nr_values = tables[change->table].nr_keys;
		break;
	default:
		return -EBADMSG;
	}
	for (i = 0; i < change->nr_values; i++)
		get_value(&reader, &change->values[i]);
	return reader.bad ? -EBADMSG : reader.at - (const u8 *)data;
}
