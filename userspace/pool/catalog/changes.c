// SPDX-License-Identifier: GPL-2.0
/* Changes of the catalog as bytes, and back. */
#include <errno.h>

#include "base/varint.h"
#include "changes.h"

static void get_value(struct rd_reader *reader, struct rd_value *value)
{
	u64 number;

	*value = (struct rd_value){ .type = rd_get_u8(reader) };
	switch (value->type) {
	case RD_VALUE_NULL:
		break;
	case RD_VALUE_NUMBER:
		number = rd_get_varint(reader, 64);
		value->number = rd_unzigzag(number);
		break;
	case RD_VALUE_TEXT:
	case RD_VALUE_BLOB:
		number = rd_get_varint(reader, 64);
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
	struct rd_reader reader = { .at = data, .end = (const u8 *)data + len };
	unsigned int i;

	change->what = rd_get_u8(&reader);
	change->table = rd_get_u8(&reader);
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
