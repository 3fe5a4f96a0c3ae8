/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of segments as messages carry them: "<first>,<len>;<first>,<len>...",
 * numbers in hex without 0x. Pure; also built in user space.
 */
#ifndef RDD_RANGES_H
#define RDD_RANGES_H

#include <linux/types.h>

struct rdd_range {
	u64 first;
	u64 len;
};

/* An unsigned decimal number and nothing else; 0 or -EINVAL. */
int rdd_parse_u64(const char *text, u64 *ret);

/*
 * Read the range at *@text and step over it and its separator. Returns 1 with
 * *@range filled, 0 at the end of the text, -EINVAL for anything that is not
 * exactly the grammar above or lies beyond @limit.
 */
int rdd_range_next(const char **text, u64 limit, struct rdd_range *range);

/* Check a whole text before anything of it is used; at least one range. */
int rdd_ranges_check(const char *text, u64 limit);

#endif
