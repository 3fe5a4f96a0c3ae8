/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: userspace/base/crc32c.c implements it. */
#ifndef DMR_SHIM_LINUX_CRC32C_H
#define DMR_SHIM_LINUX_CRC32C_H

#include <linux/types.h>

/* As in the kernel: neither the seed nor the result is inverted. */
u32 crc32c(u32 crc, const void *data, size_t len);

#endif
