/* SPDX-License-Identifier: GPL-2.0 */
/* A set of slots of a frame: a bit each. */
#ifndef RD_SLOTS_H
#define RD_SLOTS_H

#include <stdbool.h>

#include "base/units.h"

struct rd_slots {
	u64 bits[RD_SEG_BLOCKS / 64];
};

static inline void rd_slots_set(struct rd_slots *slots, unsigned int slot)
{
	slots->bits[slot / 64] |= 1ULL << slot % 64;
}

static inline void rd_slots_clear(struct rd_slots *slots, unsigned int slot)
{
	slots->bits[slot / 64] &= ~(1ULL << slot % 64);
}

static inline bool rd_slots_test(const struct rd_slots *slots, unsigned int slot)
{
	return slots->bits[slot / 64] >> slot % 64 & 1;
}

/* Find the next slots in a row, from *@first up to *@end, behind what *@end was; false: none. */
static inline bool rd_slots_run(const struct rd_slots *slots, unsigned int *first,
				unsigned int *end)
{
	unsigned int i = *end;

	while (i < RD_SEG_BLOCKS && !rd_slots_test(slots, i))
		i++;
	*first = i;
	while (i < RD_SEG_BLOCKS && rd_slots_test(slots, i))
		i++;
	*end = i;
	return *first < i;
}

static inline bool rd_slots_are_none(const struct rd_slots *slots)
{
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		if (slots->bits[i])
			return false;
	return true;
}

static inline unsigned int rd_slots_count(const struct rd_slots *slots)
{
	unsigned int i, nr = 0;

	for (i = 0; i < RD_SEG_BLOCKS / 64; i++)
		nr += __builtin_popcountll(slots->bits[i]);
	return nr;
}

#endif
