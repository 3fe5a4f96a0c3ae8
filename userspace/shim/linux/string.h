/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: the C library's and memchr_inv(). */
#ifndef DMR_SHIM_LINUX_STRING_H
#define DMR_SHIM_LINUX_STRING_H

#include <stddef.h>
#include <string.h>

/* The first byte of @p that is not @c, or NULL. */
static inline void *memchr_inv(const void *p, int c, size_t len)
{
	const unsigned char *byte = p;

	for (; len; len--, byte++)
		if (*byte != (unsigned char)c)
			return (void *)byte;
	return NULL;
}

#endif
