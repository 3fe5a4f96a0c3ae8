// SPDX-License-Identifier: GPL-2.0
/* UUIDs, as they are written. */
#include <errno.h>
#include <sys/random.h>
#include <uuid/uuid.h>

#include "uuid.h"

const char *rd_uuid_print(char text[RD_UUID_TEXT], const u8 uuid[16])
{
	uuid_unparse_lower(uuid, text);
	return text;
}

bool rd_uuid_parse(u8 ret_uuid[16], const char *text)
{
	return !uuid_parse(text, ret_uuid);
}

/*
 * As generate_random_uuid() of the kernel makes them. uuid_generate_random() has no way
 * to fail: without good random numbers it takes others.
 */
int rd_uuid_make(u8 ret_uuid[16])
{
	if (getrandom(ret_uuid, 16, 0) != 16)
		return -errno;
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x40;
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
	return 0;
}
