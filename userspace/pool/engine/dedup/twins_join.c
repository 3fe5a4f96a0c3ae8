// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks with the same fingerprint: see twins.h. A bucket is read twice: the first time the keeper
 * of each content is chosen, the second time all others get it. So memory is needed for each
 * content once, however often it is there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "twins_parts.h"

/* With more contents in a bucket, those that come last are passed by. */
#define MAX_CONTENTS	349525U		/* a table of 2^19 slots, two thirds of it full */
/* So many entries ahead a slot is fetched: each is a miss of the caches. */
#define AHEAD		8

struct content {
	u8 key[12];
	u32 lives;
	rd_block_id keeper;	/* 0: the slot is free */
};

struct rd_twins_table {
	u32 mask;
	u32 nr;
	u32 room;		/* slots */
	struct content *contents;
};

static struct rd_twins_table *make_table(struct rd_twins_join *join, u64 nr)
{
	struct rd_twins_table *table = join->table;
	u32 size = 1024;

	while (size < rd_min(nr, MAX_CONTENTS) * 3 / 2)
		size *= 2;
	if (!table || table->room < size) {
		rd_twins_join_free(join);
		table = calloc(1, sizeof(*table));
		join->table = table;
		if (table)
			table->contents = calloc(size, sizeof(*table->contents));
		if (!table || !table->contents)
			return NULL;
		table->room = size;
	} else {
		memset(table->contents, 0, size * sizeof(*table->contents));
	}
	table->mask = size - 1;
	table->nr = 0;
	return table;
}

void rd_twins_join_free(struct rd_twins_join *join)
{
	if (join->table)
		free(join->table->contents);
	free(join->table);
	join->table = NULL;
}

static u32 slot_of(const struct rd_twins_table *table, const u8 *key)
{
	u32 i;

	/* The bytes behind those that have chosen the bucket. */
	memcpy(&i, key + 4, sizeof(i));
	return i & table->mask;
}

static void fetch(const struct rd_twins_table *table, const struct rd_twin_entry *entries,
		  unsigned int i, unsigned int nr)
{
	if (i + AHEAD < nr)
		__builtin_prefetch(&table->contents[slot_of(table, entries[i + AHEAD].key)]);
}

static struct content *find(const struct rd_twins_table *table, const u8 *key)
{
	struct content *content;
	u32 i = slot_of(table, key);

	for (;; i++) {
		content = &table->contents[i & table->mask];
		if (!content->keeper || !memcmp(content->key, key, sizeof(content->key)))
			return content;
	}
}

static bool is_better(const struct rd_twin_entry *entry, const struct content *content)
{
	if (entry->lives != content->lives)
		return entry->lives > content->lives;
	return entry->block < content->keeper;
}

/* 1: the table is full, and has not this content; else 0. */
static unsigned int offer(struct rd_twins_table *table, const struct rd_twin_entry *entry)
{
	struct content *content = find(table, entry->key);

	if (content->keeper && !is_better(entry, content))
		return 0;
	if (!content->keeper && table->nr == MAX_CONTENTS)
		return 1;
	table->nr += !content->keeper;
	memcpy(content->key, entry->key, sizeof(content->key));
	content->lives = entry->lives;
	content->keeper = entry->block;
	return 0;
}

/* What is done with each entry of a bucket: 0 to go on. */
typedef int entry_fn(struct rd_twins_join *join, struct rd_twins_table *table,
		     const struct rd_twin_entry *entry);

static int for_entries(struct rd_twins_join *join, unsigned int bucket,
		       struct rd_twins_table *table, entry_fn *fn)
{
	const struct rd_twin_entry *entries;
	const void *records;
	unsigned int i, nr;
	int r;

	rd_spill_rewind(join->entries, bucket);
	while (!(r = rd_spill_next(join->entries, &records, &nr)) && nr) {
		entries = records;
		for (i = 0; i < nr && !r; i++) {
			fetch(table, entries, i, nr);
			r = fn(join, table, &entries[i]);
		}
		if (!r)
			r = rd_twins_check(join->pool, join->until_us);
		if (r)
			break;
	}
	return r;
}

static int choose_keeper(struct rd_twins_join *join, struct rd_twins_table *table,
			 const struct rd_twin_entry *entry)
{
	join->counts->passed_by += offer(table, entry);
	return 0;
}

static unsigned int bucket_of(const struct rd_twins_join *join, rd_block_id block)
{
	/* Some recipes in a row, so that a bucket has runs; old ones own little, new ones much. */
	return (block >> 9 >> 3) % join->nr_buckets;
}

static int put_other(struct rd_twins_join *join, struct rd_twins_table *table,
		     const struct rd_twin_entry *entry)
{
	const struct content *content = find(table, entry->key);
	struct rd_twin twin = { .block = entry->block, .keeper = content->keeper };

	if (!content->keeper || content->keeper == entry->block)
		return 0;
	if (entry->lives == RD_LIVES_NEWEST)
		join->counts->newest_twice++;
	else if (content->lives == RD_LIVES_NEWEST)
		join->counts->old_newest++;
	else
		join->counts->old_twice++;
	if (entry->lives == RD_LIVES_NEWEST && !join->all)
		return 0;
	return rd_spill_put(join->twins, bucket_of(join, entry->block), &twin);
}

int rd_twins_join(struct rd_twins_join *join, unsigned int bucket)
{
	u64 nr = rd_spill_nr(join->entries, bucket);
	struct rd_twins_table *table;
	int r;

	if (!nr)
		return 0;
	table = make_table(join, nr);
	if (!table)
		return -ENOMEM;
	r = for_entries(join, bucket, table, choose_keeper);
	return r ? r : for_entries(join, bucket, table, put_other);
}
