// SPDX-License-Identifier: GPL-2.0
/* Where on a volume versions changed: see map.h. */
#include <errno.h>
#include <string.h>

#include "pool/catalog/segments.h"
#include "map.h"

struct counts {
	u64 nr, zeros;
};

void ctl_map_init(struct ctl_map *map, i64 volume, const struct ctl_described *list, size_t nr,
		  u64 max_parts)
{
	u64 size = RD_SEG_SIZE;
	size_t i;

	for (i = 0; i < nr; i++)
		size = rd_max(size, list[i].v.version.size);
	map->volume = volume;
	map->nr_segs = rd_nr_segs(size);
	map->parts = rd_min(map->nr_segs, max_parts);
}

u64 ctl_map_size(const struct ctl_map *map, u64 part)
{
	u64 begin = (part * map->nr_segs + map->parts - 1) / map->parts;
	u64 end = ((part + 1) * map->nr_segs + map->parts - 1) / map->parts;

	return end - begin;
}

char ctl_map_share(const struct ctl_map *map, u64 part, u64 nr)
{
	u64 size = ctl_map_size(map, part);
	u64 step = size ? (rd_min(nr, size) * CTL_MAP_STEPS + size - 1) / size : 0;

	return step ? "0123456789abcdefghijklmnopqrstuvwxyz"[step] : '.';
}

unsigned int ctl_map_step(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c >= '1' ? c - '0' : 0;
}

/* Append the text of a version, and begin with the next one. */
static void put_text(const struct ctl_map *map, struct counts *counts, struct rd_buffer *ret)
{
	char *text = (char *)rd_buffer_grow(ret, map->parts + 1);
	u64 part;

	for (part = 0; text && part < map->parts; part++)
		text[part] = counts[part].nr && counts[part].nr == counts[part].zeros ? '_' :
			ctl_map_share(map, part, counts[part].nr);
	if (text)
		text[map->parts] = '\0';
	memset(counts, 0, map->parts * sizeof(*counts));
}

/* A version has what was born in those before it that were deleted. */
int ctl_map_changes(struct ctl *ctl, const struct ctl_map *map, const struct ctl_described *list,
		    size_t nr, struct rd_buffer *ret)
{
	RD_ROW struct rd_row *rows = NULL;
	struct counts *counts = calloc(map->parts, sizeof(*counts));
	struct rd_segment_part part;
	size_t at = 0;
	int r;

	r = !counts ? -ENOMEM : rd_segment_parts(ctl->pool->sql, &rows, map->volume, map->parts,
						 map->nr_segs);
	while (!r && (r = rd_next_segment_part(rows, &part)) > 0) {
		r = 0;
		for (; at < nr && list[at].v.version.number < part.born; at++)
			put_text(map, counts, ret);
		if (part.part >= map->parts)
			continue;
		counts[part.part].nr += part.nr;
		counts[part.part].zeros += part.zeros;
	}
	for (; at < nr && !r; at++)
		put_text(map, counts, ret);
	free(counts);
	return r ? r : ret->failed ? -ENOMEM : 0;
}
