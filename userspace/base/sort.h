/* SPDX-License-Identifier: GPL-2.0 */
/* Records in order. */
#ifndef RD_SORT_H
#define RD_SORT_H

#include <stddef.h>
#include <stdlib.h>

#include "buffer.h"
#include "units.h"

/* How two values compare: -1, 0 or 1. Of records "? :" goes on with their next member. */
#define rd_order(x, y)								\
({										\
	typeof(x) x_ = (x), y_ = (y);						\
										\
	(x_ > y_) - (x_ < y_);							\
})

static inline int rd_compare_u64(const void *a, const void *b)
{
	return rd_order(*(const u64 *)a, *(const u64 *)b);
}

static inline int rd_compare_at(const void *a, const void *b, void *at)
{
	const size_t offset = *(const size_t *)at;

	return rd_compare_u64((const char *)a + offset, (const char *)b + offset);
}

static inline void rd_sort_at(void *list, size_t nr, size_t size, size_t at)
{
	if (nr)
		qsort_r(list, nr, size, rd_compare_at, &at);
}

/* Sort the records of @size bytes in @buffer. */
static inline void rd_sort_buffer(struct rd_buffer *buffer, size_t size,
				  int (*compare)(const void *a, const void *b))
{
	if (buffer->len)
		qsort(buffer->data, buffer->len / size, size, compare);
}

/* Sort the @nr records at @list by a member of 64 bits that is not negative. */
#define rd_sort(list, nr, member)						\
	rd_sort_at(list, nr, sizeof(*(list)), offsetof(typeof(*(list)), member))

/*
 * Search @nr records that are in order: count the first ones for which @is_below, an expression of
 * the number @i of a record, is true.
 */
#define rd_count_below(nr, i, is_below)						\
({										\
	size_t low_ = 0, high_ = (nr), i;					\
										\
	while (low_ < high_) {							\
		i = low_ + (high_ - low_) / 2;					\
		if (is_below)							\
			low_ = i + 1;						\
		else								\
			high_ = i;						\
	}									\
	low_;									\
})

static inline void *rd_find_at(void *list, size_t nr, size_t size, size_t at, u64 value)
{
	char *members = (char *)list + at;
	size_t found = rd_count_below(nr, i, *(const u64 *)(members + i * size) < value);

	return found < nr && *(const u64 *)(members + found * size) == value ?
		(char *)list + found * size : NULL;
}

/* Find a record whose member is @value; NULL: there is none. */
#define rd_find(list, nr, member, value)					\
	rd_find_at((void *)(list), nr, sizeof(*(list)), offsetof(typeof(*(list)), member), value)

#endif
