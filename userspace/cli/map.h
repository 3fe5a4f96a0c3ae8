/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where on a volume versions changed, as a text with a character for each part of it:
 *
 *	.		nothing
 *	1 ... 9 a ... z	so much of the part, in 35 steps
 *	_		what changed became zeros
 */
#ifndef CTL_MAP_H
#define CTL_MAP_H

#include "describe.h"

struct ctl_map {
	i64 volume;
	u64 nr_segs;		/* of the largest version */
	u64 parts;		/* into which they are divided */
};

/* For the @nr versions of @list, all of the volume, the oldest first; no more than @max_parts. */
void ctl_map_init(struct ctl_map *map, i64 volume, const struct ctl_described *list, size_t nr,
		  u64 max_parts);

/* Count the segments of a part. */
u64 ctl_map_size(const struct ctl_map *map, u64 part);
/* How many steps a share has, and the step of a character; 0 for zeros as well. */
#define CTL_MAP_STEPS	35
unsigned int ctl_map_step(char c);
/* The character for @nr of them. */
char ctl_map_share(const struct ctl_map *map, u64 part, u64 nr);

/*
 * Append a text of where each version has another content than the one before it in @list, each
 * with a zero.
 */
int ctl_map_changes(struct ctl *ctl, const struct ctl_map *map, const struct ctl_described *list,
		    size_t nr, struct rd_buffer *ret);
/* The one of version @i. */
static inline char *ctl_map_text(const struct ctl_map *map, const struct rd_buffer *texts, size_t i)
{
	return (char *)texts->data + i * (map->parts + 1);
}

#endif
