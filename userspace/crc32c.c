// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C (Castagnoli) by table, for the kernel's pure code in user space. The
 * largest thing it ever sees is a bitmap block, so the plain way will do.
 */
#include <linux/crc32c.h>
#include <linux/kernel.h>

#define POLYNOMIAL	0x82f63b78U	/* reflected */

static u32 table[256];

/* At load, not at first use: a reader may have threads. */
__attribute__((constructor))
static void fill_table(void)
{
	unsigned int i, bit;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		u32 crc = i;

		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[i] = crc;
	}
}

u32 crc32c(u32 crc, const void *data, size_t len)
{
	const u8 *byte = data;

	while (len--)
		crc = crc >> 8 ^ table[(crc ^ *byte++) & 0xff];
	return crc;
}
