/* SPDX-License-Identifier: GPL-2.0 */
/* The sizes of blocks and segments. See Documentation/pool.rst. */
#ifndef RD_UNITS_H
#define RD_UNITS_H

#include <linux/kernel.h>
#include <linux/types.h>
#include <stdint.h>

typedef long long i64;

#define RD_BLOCK_SHIFT	12
#define RD_BLOCK_SIZE	(1U << RD_BLOCK_SHIFT)

#define RD_SEG_SHIFT	21
#define RD_SEG_SIZE	(1U << RD_SEG_SHIFT)
#define RD_SEG_BLOCKS	(RD_SEG_SIZE / RD_BLOCK_SIZE)	/* 512 */

static inline u64 rd_round_up(u64 value, u64 unit)
{
	return (value + unit - 1) / unit * unit;
}

static inline u64 rd_nr_segs(u64 bytes)
{
	return bytes / RD_SEG_SIZE + (bytes % RD_SEG_SIZE != 0);
}

static inline u64 rd_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 rd_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

#endif
