// SPDX-License-Identifier: GPL-2.0
/*
 * Segments that a reader has looked up: a table of sets, from which the segment that was used
 * least lately goes. 12 KiB a segment; as many as here are 4 GiB of a disk, in 24 MiB.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "random_parts.h"

#define WAYS		4
#define NR_SETS		512U

struct segment {
	i64 version;		/* 0: none */
	u64 number;
	u64 used;
	rd_place at[RD_SEG_BLOCKS];
	struct rd_fp fps[RD_SEG_BLOCKS];
};

int rd_random_make_known(struct rd_random *random)
{
	/* Pages that are never touched take no memory. */
	random->segments = calloc(NR_SETS * WAYS, sizeof(*random->segments));
	return random->segments ? 0 : -ENOMEM;
}

void rd_random_free_known(struct rd_random *random)
{
	free(random->segments);
}

static struct segment *set_of(struct rd_random *random, i64 version, u64 number)
{
	u64 hash = (number + (u64)version * 0x9e3779b97f4a7c15ULL);

	return &random->segments[hash % NR_SETS * WAYS];
}

/* Find it, or NULL; *@ret_oldest: the one to replace. */
static struct segment *find(struct rd_random *random, i64 version, u64 number,
			    struct segment **ret_oldest)
{
	struct segment *set = set_of(random, version, number);
	unsigned int i;

	*ret_oldest = set;
	for (i = 0; i < WAYS; i++) {
		if (set[i].version == version && set[i].number == number)
			return &set[i];
		if (set[i].used < (*ret_oldest)->used)
			*ret_oldest = &set[i];
	}
	return NULL;
}

bool rd_random_get_known(struct rd_random *random, i64 version, u64 number, unsigned int first,
			 unsigned int nr, struct known *ret)
{
	struct segment *segment, *oldest;

	pthread_mutex_lock(&random->lock);
	segment = find(random, version, number, &oldest);
	if (segment) {
		segment->used = ++random->clock;
		memcpy(ret->at, &segment->at[first], nr * sizeof(*ret->at));
		memcpy(ret->fps, &segment->fps[first], nr * sizeof(*ret->fps));
	}
	pthread_mutex_unlock(&random->lock);
	return segment;
}

void rd_random_put_known(struct rd_random *random, i64 version, u64 number,
			 const struct rd_map *map, const struct rd_fp fps[RD_SEG_BLOCKS])
{
	struct segment *segment, *oldest;

	pthread_mutex_lock(&random->lock);
	segment = find(random, version, number, &oldest);
	if (!segment)
		segment = oldest;
	segment->version = version;
	segment->number = number;
	segment->used = ++random->clock;
	memcpy(segment->at, map->at, sizeof(segment->at));
	memcpy(segment->fps, fps, sizeof(segment->fps));
	pthread_mutex_unlock(&random->lock);
}
