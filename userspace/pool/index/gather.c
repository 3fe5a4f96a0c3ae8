// SPDX-License-Identifier: GPL-2.0
/* Entries of the index in memory; see gather.h. */
#include <errno.h>
#include <stdlib.h>

#include "gather.h"

#define FIRST_SIZE	4096U
/* The last keys find room behind the table, so that no key is before a smaller one's place. */
#define SLACK		4096U
/* Place 0 is a place; this is none. */
#define USED		(1ULL << 63)

/* Where @key is, or would be; NULL: there is no room for it. */
static struct rd_index_run_entry *look_up(const struct rd_gather *gather, u64 key)
{
	u64 i = rd_index_spread(key, gather->size), end = gather->size + SLACK;

	while (i < end && gather->entries[i].place && gather->entries[i].key != key)
		i++;
	return i < end ? &gather->entries[i] : NULL;
}

static int enlarge(struct rd_gather *gather)
{
	struct rd_gather new = { .size = gather->size ? gather->size * 2 : FIRST_SIZE };
	u64 i;

	new.entries = calloc(new.size + SLACK, sizeof(*new.entries));
	if (!new.entries)
		return -ENOMEM;
	for (i = 0; gather->size && i < gather->size + SLACK; i++) {
		struct rd_index_run_entry *entry = &gather->entries[i], *to;

		/* Only keys that were chosen to have no room have none: hints that are lost. */
		to = entry->place ? look_up(&new, entry->key) : NULL;
		if (to) {
			*to = *entry;
			new.nr++;
		}
	}
	free(gather->entries);
	*gather = new;
	return 0;
}

int rd_gather_add(struct rd_gather *gather, u64 key, u64 place)
{
	struct rd_index_run_entry *entry;
	int r;

	if (gather->nr >= RD_GATHER_MAX)
		return -ENOSPC;
	/* At three quarters the next one is near. */
	if (gather->nr * 4 >= gather->size * 3) {
		r = enlarge(gather);
		if (r)
			return r;
	}
	entry = look_up(gather, key);
	if (!entry)
		return -ENOSPC;
	gather->nr += !entry->place;
	*entry = (struct rd_index_run_entry){ .key = key, .place = place | USED };
	return 0;
}

bool rd_gather_find(const struct rd_gather *gather, u64 key, u64 *ret_place)
{
	const struct rd_index_run_entry *entry = gather->size ? look_up(gather, key) : NULL;

	if (!entry || !entry->place)
		return false;
	*ret_place = entry->place & ~USED;
	return true;
}

/* Each entry is near its place, so few are moved, and not far. */
static void insertion_sort(struct rd_index_run_entry *entries, u64 nr)
{
	u64 i, j;

	for (i = 1; i < nr; i++) {
		struct rd_index_run_entry entry = entries[i];

		for (j = i; j && entries[j - 1].key > entry.key; j--)
			entries[j] = entries[j - 1];
		entries[j] = entry;
	}
}

void rd_gather_sort(struct rd_gather *gather)
{
	u64 i, nr = 0;

	for (i = 0; gather->size && i < gather->size + SLACK; i++)
		if (gather->entries[i].place) {
			gather->entries[nr] = gather->entries[i];
			gather->entries[nr++].place &= ~USED;
		}
	insertion_sort(gather->entries, nr);
}

void rd_gather_clear(struct rd_gather *gather)
{
	free(gather->entries);
	*gather = (struct rd_gather){ 0 };
}
