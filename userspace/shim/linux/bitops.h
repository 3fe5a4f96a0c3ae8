/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: bits.h and a count of bits. */
#ifndef SHIM_LINUX_BITOPS_H
#define SHIM_LINUX_BITOPS_H

#include <linux/bits.h>

static inline unsigned int hweight16(unsigned int w)
{
	return __builtin_popcount(w & 0xffff);
}

#endif
