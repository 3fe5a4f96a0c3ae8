/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers, sizes and times as people write and read them. */
#ifndef CTL_SIZES_H
#define CTL_SIZES_H

#include "base/units.h"

/* Parsers return 0, -EINVAL, or -ERANGE: more than @max, or than fits. */

/* Decimal digits and nothing else. */
int ctl_number_parse(const char *text, u64 max, u64 *ret);

/* Bytes, or with K, M, G, T or P (also KiB and so on) units of 1024. */
int ctl_size_parse(const char *text, u64 *ret);

/* A size, or a share such as "1%" or "0.5%", up to 100%; the other one is 0 then. */
int ctl_share_parse(const char *text, double *ret_percent, u64 *ret_bytes);

/* Seconds, from a number with h, d, w or y (365 days). */
int ctl_duration_parse(const char *text, i64 *ret);

/* Microseconds, from a number with s, m or h; 0 is -EINVAL. */
int ctl_time_limit_parse(const char *text, u64 *ret_us);

/*
 * These return one of CTL_TEXTS buffers of the thread, in turn: as many results can be used at
 * once, in the arguments of one printf(), and none is kept.
 */
#define CTL_TEXTS	8

/* "312.0 MiB" */
const char *ctl_size(u64 bytes);

/* "2:05:09" or "5:09" */
const char *ctl_duration(u64 seconds);

/* "2026-11-20 02:00:13", local time */
const char *ctl_time(i64 when);

#endif
