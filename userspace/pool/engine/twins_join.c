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
#define MAX_CONTENTS	699050U		/* a table of 2^20 slots, two thirds of it full */

struct content {
	u8 key[12];
	u32 lives;
	rd_block_id keeper;	/* 0: the slot is free */
};

struct table {
	u32 mask;
	u32 nr;
	struct content *contents;
};

static int make_table(struct table *table, u64 nr)
{
	u32 size = 1024;

	while (size < rd_min(nr, MAX_CONTENTS) * 3 / 2)
		size *= 2;
	table->mask = size - 1;
	table->nr = 0;
	table->contents = calloc(size, sizeof(*table->contents));
	return table->contents ? 0 : -ENOMEM;
}

/* The bytes behind those that have chosen the bucket. */
static struct content *find(const struct table *table, const u8 *key)
{
	struct content *content;
	u32 i;

	memcpy(&i, key + 4, sizeof(i));
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
static unsigned int offer(struct table *table, const struct rd_twin_entry *entry)
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

static int choose_keepers(struct rd_twins_join *join, unsigned int bucket, struct table *table)
{
	const struct rd_twin_entry *entries;
	const void *records;
	unsigned int i, nr;
	int r;

	rd_spill_rewind(join->entries, bucket);
	while (!(r = rd_spill_next(join->entries, &records, &nr)) && nr) {
		entries = records;
		for (i = 0; i < nr; i++)
			join->counts->passed_by += offer(table, &entries[i]);
		r = rd_twins_check(join->pool, join->until_us);
		if (r)
			break;
	}
	return r;
}

static unsigned int bucket_of(const struct rd_twins_join *join, rd_block_id block)
{
	/* Some recipes in a row, so that a bucket has runs; old ones own little, new ones much. */
	return (block >> 9 >> 3) % join->nr_buckets;
}

static int put(struct rd_twins_join *join, const struct rd_twin_entry *entry,
	       const struct content *content)
{
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

static int put_others(struct rd_twins_join *join, unsigned int bucket, const struct table *table)
{
	const struct rd_twin_entry *entries;
	const void *records;
	unsigned int i, nr;
	int r;

	rd_spill_rewind(join->entries, bucket);
	while (!(r = rd_spill_next(join->entries, &records, &nr)) && nr) {
		entries = records;
		for (i = 0; i < nr && !r; i++)
			r = put(join, &entries[i], find(table, entries[i].key));
		if (!r)
			r = rd_twins_check(join->pool, join->until_us);
		if (r)
			break;
	}
	return r;
}

int rd_twins_join(struct rd_twins_join *join, unsigned int bucket)
{
	u64 nr = rd_spill_nr(join->entries, bucket);
	struct table table;
	int r;

	if (!nr)
		return 0;
	r = make_table(&table, nr);
	if (!r)
		r = choose_keepers(join, bucket, &table);
	if (!r)
		r = put_others(join, bucket, &table);
	free(table.contents);
	return r;
}
