/* SPDX-License-Identifier: GPL-2.0 */
/* UUIDs, by libuuid, as they are written: xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
#ifndef RD_UUID_H
#define RD_UUID_H

#include <linux/types.h>
#include <stdbool.h>

#define RD_UUID_TEXT	37

/* Returns @text. */
const char *rd_uuid_print(char text[RD_UUID_TEXT], const u8 uuid[16]);
/* Upper or lower case, and nothing else around it. */
bool rd_uuid_parse(u8 ret_uuid[16], const char *text);
/* Make a random one. 0 or -errno. */
int rd_uuid_make(u8 ret_uuid[16]);

#endif
