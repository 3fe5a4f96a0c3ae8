// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32C (Castagnoli), for the kernel's pure code in user space: by the processor's
 * own instruction if it has one, because every entry of a remap table has a checksum,
 * and by table otherwise. Written by hand, because zlib has only another polynomial,
 * and no other library that revdedup links has any.
 */
#include <string.h>
#include <linux/crc32c.h>
#include <linux/kernel.h>

#define POLYNOMIAL	0x82f63b78U	/* reflected */

static u32 table[256];

static u32 by_table(u32 crc, const void *data, size_t len)
{
	const u8 *byte = data;

	while (len--)
		crc = crc >> 8 ^ table[(crc ^ *byte++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2")))
static u32 by_instruction(u32 crc, const void *data, size_t len)
{
	const u8 *byte = data;

	for (; len >= 8; len -= 8, byte += 8) {
		u64 word;

		memcpy(&word, byte, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	while (len--)
		crc = __builtin_ia32_crc32qi(crc, *byte++);
	return crc;
}

static bool has_instruction(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse4.2");
}
#else
#define by_instruction	by_table

static bool has_instruction(void)
{
	return false;
}
#endif

static bool use_instruction;

/* Set up when the program starts, because at the first use there may be threads. */
__attribute__((constructor))
static void set_up(void)
{
	unsigned int i, bit;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		u32 crc = i;

		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[i] = crc;
	}
	use_instruction = has_instruction();
}

u32 crc32c(u32 crc, const void *data, size_t len)
{
	return use_instruction ? by_instruction(crc, data, len) :
				 by_table(crc, data, len);
}
