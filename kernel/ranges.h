/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges as messages carry them: "<first>,<len>;<first>,<len>...", numbers in
 * hex without 0x. Some messages have one place or two behind each range:
 * "<first>,<len>,<place>" or "<first>,<len>,<old>,<new>". A place is b (base), z
 * (zeros), p and the pool block of the range's first block in hex, or k, the pool block
 * of a pack's head, a dot, and the slot of the range's first block there; the other
 * blocks follow in a row. Pure; also built in user space.
 */
#ifndef DMR_RANGES_H
#define DMR_RANGES_H

#include <linux/types.h>

#include "format.h"

struct dmr_range {
	u64 first;
	u64 len;
	struct dmr_entry place[2];
};

/* What the ranges of a message must be. */
struct dmr_range_rules {
	u64 limit;			/* no range reaches beyond this */
	unsigned int nr_places;		/* 0 to 2 */
	u64 pool_blocks;		/* no place reaches beyond this */
};

/* The longest text of a place, with a zero byte. */
#define DMR_PLACE_TEXT	sizeof("k1fffffffff.1ff")

/* Print @place, which is not PAGE, to @text: how long it is. */
int dmr_place_print(char text[DMR_PLACE_TEXT], struct dmr_entry place);

/* Parse an unsigned decimal number and nothing else: 0 or -EINVAL. */
int dmr_parse_u64(const char *text, u64 *ret);

/*
 * Read the range at *@text and step over it and its separator. Returns 1 with
 * *@range filled, 0 at the end of the text, -EINVAL for anything that is not
 * exactly the grammar above or lies beyond the limit, -ERANGE for a place that is
 * not in the pool.
 */
int dmr_range_next(const char **text, const struct dmr_range_rules *rules,
		   struct dmr_range *range);

/* Check a whole text before anything of it is used; at least one range. */
int dmr_ranges_check(const char *text, const struct dmr_range_rules *rules);

#endif
