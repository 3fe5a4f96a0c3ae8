/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shim: what kernel/format.c and kernel/ranges.c need of the kernel's own
 * header. The system's header of the same name gives __le64 and friends, so
 * programs may use other headers of linux/ beside these.
 */
#ifndef DMR_SHIM_LINUX_TYPES_H
#define DMR_SHIM_LINUX_TYPES_H

/* 64-bit types are long long on every architecture, as in the kernel. */
#ifndef __SANE_USERSPACE_TYPES__
#define __SANE_USERSPACE_TYPES__
#endif

#include_next <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#endif
