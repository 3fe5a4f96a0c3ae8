// SPDX-License-Identifier: GPL-2.0
/* UUIDs, as they are written. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "uuid.h"

static bool has_dash_before(unsigned int byte)
{
	return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

const char *rd_uuid_print(char text[RD_UUID_TEXT], const u8 uuid[16])
{
	unsigned int i, at = 0;

	for (i = 0; i < 16; i++)
		at += sprintf(text + at, "%s%02x", has_dash_before(i) ? "-" : "", uuid[i]);
	return text;
}

static int hex_value(char c)
{
	const char *digits = "0123456789abcdef", *digit;

	digit = c ? strchr(digits, c | 0x20) : NULL;
	return digit ? digit - digits : -1;
}

bool rd_uuid_parse(u8 ret_uuid[16], const char *text)
{
	unsigned int i;

	for (i = 0; i < 16; i++) {
		if (has_dash_before(i) && *text++ != '-')
			return false;
		if (hex_value(text[0]) < 0 || hex_value(text[1]) < 0)
			return false;
		ret_uuid[i] = hex_value(text[0]) << 4 | hex_value(text[1]);
		text += 2;
	}
	return !*text;
}

/* As generate_random_uuid() of the kernel makes them. */
int rd_uuid_make(u8 ret_uuid[16])
{
	if (getrandom(ret_uuid, 16, 0) != 16)
		return -errno;
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x40;
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
	return 0;
}
