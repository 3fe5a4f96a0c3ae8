/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A second opinion on the format: checksums bit by bit, numbers byte by byte.
 */
#ifndef DMR_NAIVE_H
#define DMR_NAIVE_H

#include <linux/types.h>

/* CRC-32C bit by bit, not inverted. */
static inline u32 naive_crc(u32 crc, const void *data, size_t len)
{
	const u8 *byte = data;
	int bit;

	for (; len; len--, byte++) {
		for (bit = 0; bit < 8; bit++) {
			bool carry = (crc ^ (*byte >> bit)) & 1;

			crc = (crc >> 1) ^ (carry ? 0x82f63b78 : 0);
		}
	}
	return crc;
}

static inline u32 naive_block_csum(u32 seed, u64 block_nr, const void *block,
				   size_t len)
{
	u8 nr[8];
	int i;

	for (i = 0; i < 8; i++)
		nr[i] = block_nr >> (8 * i);
	return naive_crc(naive_crc(seed, nr, 8), (const u8 *)block + 4, len - 4);
}

static inline void put_le(u8 *to, u64 value, unsigned int bytes)
{
	for (; bytes; bytes--, value >>= 8)
		*to++ = value;
}

static inline u64 get_le(const u8 *from, unsigned int bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | from[bytes];
	return value;
}

static inline void flip(void *p, unsigned int bit)
{
	((u8 *)p)[bit / 8] ^= 1 << bit % 8;
}

#endif
