/* SPDX-License-Identifier: GPL-2.0 */
/* Shim: limits, byte order and snprintf(). See types.h. */
#ifndef DMR_SHIM_LINUX_KERNEL_H
#define DMR_SHIM_LINUX_KERNEL_H

#include <endian.h>
#include <stdio.h>
#include <linux/types.h>

#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#ifdef __CHECKER__
#define DMR_SHIM_FORCE	__attribute__((force))
#else
#define DMR_SHIM_FORCE
#endif

#define cpu_to_le16(x)	((DMR_SHIM_FORCE __le16)htole16(x))
#define cpu_to_le32(x)	((DMR_SHIM_FORCE __le32)htole32(x))
#define cpu_to_le64(x)	((DMR_SHIM_FORCE __le64)htole64(x))
#define le16_to_cpu(x)	((u16)le16toh((DMR_SHIM_FORCE u16)(x)))
#define le32_to_cpu(x)	((u32)le32toh((DMR_SHIM_FORCE u32)(x)))
#define le64_to_cpu(x)	((u64)le64toh((DMR_SHIM_FORCE u64)(x)))

#endif
