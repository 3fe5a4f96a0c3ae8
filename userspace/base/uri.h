/* SPDX-License-Identifier: GPL-2.0 */
/* URIs. */
#ifndef RD_URI_H
#define RD_URI_H

#include <stdio.h>
#include <string.h>

#include "units.h"

/* Append @text to @uri, with what has a meaning in a URI escaped. */
static inline void rd_uri_put(char *uri, size_t size, const char *text)
{
	static const char plain[] = "/-._~@+";
	size_t len = strlen(uri);

	for (; *text && len + 4 < size; text++) {
		bool is_plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			(*text >= '0' && *text <= '9') || strchr(plain, *text);

		len += snprintf(uri + len, size - len, is_plain ? "%c" : "%%%02X", (u8)*text);
	}
}

#endif
