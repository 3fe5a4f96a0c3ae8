/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers in as many bytes as they need: 7 bits in each byte, low ones first; the upper
 * bit says that more follow. A zigzag number has its sign in the lowest bit.
 */
#ifndef RD_VARINT_H
#define RD_VARINT_H

#include <stdbool.h>

#include "units.h"

/* No number has more bytes. */
#define RD_VARINT_MAX	10

/* Write @value to @to; return the byte after it. */
static inline u8 *rd_put_varint(u8 *to, u64 value)
{
	for (; value >= 0x80; value >>= 7)
		*to++ = value | 0x80;
	*to++ = value;
	return to;
}

static inline u64 rd_zigzag(i64 value)
{
	return (u64)value << 1 ^ (u64)(value >> 63);
}

static inline i64 rd_unzigzag(u64 value)
{
	return (i64)(value >> 1) ^ -(i64)(value & 1);
}

/* Bytes that are read one after the other. @bad is set once they did not suffice. */
struct rd_reader {
	const u8 *at;
	const u8 *end;
	bool bad;
};

static inline u8 rd_get_u8(struct rd_reader *reader)
{
	if (reader->at == reader->end) {
		reader->bad = true;
		return 0;
	}
	return *reader->at++;
}

/* Read a number; one that needs more than @bits is bad. */
static inline u64 rd_get_varint(struct rd_reader *reader, unsigned int bits)
{
	unsigned int shift;
	u64 value = 0;

	for (shift = 0; shift < bits && !reader->bad; shift += 7) {
		u8 byte = rd_get_u8(reader);

		value |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	reader->bad = true;
	return 0;
}

#endif
