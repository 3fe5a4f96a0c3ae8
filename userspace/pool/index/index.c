// SPDX-License-Identifier: GPL-2.0
/* The index: what is in memory, and the runs; see index.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/sort.h"
#include "index_parts.h"

int rd_index_open(struct rd_index **ret, const char *pool_path, const u8 uuid[16])
{
	struct rd_index *index = calloc(1, sizeof(*index));
	int r;

	if (!index)
		return -ENOMEM;
	index->fan = RD_MERGE_FAN;
	r = rd_files_open(&index->files, pool_path, uuid);
	if (r)
		free(index);
	else
		*ret = index;
	return r;
}

void rd_index_close(struct rd_index *index)
{
	if (!index)
		return;
	rd_gather_clear(&index->gather);
	rd_files_close(&index->files);
	free(index);
}

void rd_index_prune_by(struct rd_index *index, struct rd_sql *sql)
{
	index->sql = sql;
}

void rd_index_without_vector(struct rd_index *index)
{
	index->without_vector = true;
}

void rd_index_counts(const struct rd_index *index, struct rd_index_counts *ret)
{
	*ret = index->counts;
}

bool rd_index_exists(const char *pool_path)
{
	return rd_files_is_whole(pool_path);
}

/* --- finding */

/* A fingerprint that is asked for. */
struct query {
	u64 key;
	unsigned int nr;	/* of the caller's */
	bool asked, found;
	u64 place;
};

/*
 * Ask for all keys first whether the run may have them, then in its pages: a vector that is not in
 * memory is read forward, and so are the pages.
 */
static int ask_run(struct rd_index *index, struct rd_index_run *run, struct query *queries,
		   unsigned int nr)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < nr && r >= 0; i++) {
		if (queries[i].found)
			continue;
		r = index->without_vector ? 1 : rd_index_run_may_have(run, queries[i].key);
		/* Marks those that the pages are asked for. */
		queries[i].place = r > 0;
	}
	for (i = 0; i < nr && r >= 0; i++) {
		if (queries[i].found || !queries[i].place)
			continue;
		queries[i].asked = true;
		r = rd_index_run_find(run, queries[i].key, &queries[i].place);
		queries[i].found = r > 0;
	}
	return r < 0 ? r : 0;
}

static void ask_runs(struct rd_index *index, struct query *queries, unsigned int nr)
{
	unsigned int i = 0;
	int r;

	while (i < index->files.nr) {
		r = ask_run(index, index->files.runs[i], queries, nr);
		/* The next one is in its place then. */
		if (r)
			rd_files_drop(&index->files, index->files.runs[i], r);
		else
			i++;
	}
}

static void count_query(struct rd_index_counts *counts, const struct query *query)
{
	counts->vector_no += !query->asked && !query->found;
	counts->asked += query->asked;
	counts->found += query->asked && query->found;
}

void rd_index_find(struct rd_index *index, const struct rd_fp *fps, unsigned int nr,
		   rd_place *places)
{
	RD_FREE struct query *queries = calloc(nr, sizeof(*queries));
	unsigned int i;

	memset(places, 0, nr * sizeof(*places));
	if (!queries)
		return;
	for (i = 0; i < nr; i++) {
		queries[i].nr = i;
		queries[i].key = rd_index_run_key(&fps[i]);
		queries[i].found = rd_gather_find(&index->gather, queries[i].key,
						  &queries[i].place);
	}
	/* Who only adds needs none of them. */
	rd_files_load_vectors(&index->files);
	rd_sort(queries, nr, key);
	ask_runs(index, queries, nr);
	for (i = 0; i < nr; i++) {
		const struct query *query = &queries[i];

		count_query(&index->counts, query);
		if (query->found)
			places[query->nr] = rd_place_make(RD_OWN, query->place / RD_SEG_BLOCKS,
							  query->place % RD_SEG_BLOCKS);
	}
}

/* --- adding */

static void write_gathered(struct rd_index *index)
{
	struct rd_gather *gather = &index->gather;
	struct rd_new_run new;
	u64 i, nr = gather->nr;
	int r;

	if (!nr)
		return;
	r = rd_files_begin(&index->files, &new, nr, 0);
	if (!r) {
		rd_gather_sort(gather);
		for (i = 0; i < nr && !r; i++)
			r = rd_index_run_put(&new.writer, &gather->entries[i]);
		r = rd_files_end(&index->files, &new, r);
	}
	index->lost |= r != 0;
	rd_gather_clear(gather);
}

void rd_index_add(struct rd_index *index, const struct rd_fp *fp, rd_place place)
{
	u64 at = rd_place_id(place) * RD_SEG_BLOCKS + rd_place_slot(place);
	u64 key = rd_index_run_key(fp);

	if (!rd_gather_add(&index->gather, key, at))
		return;
	rd_index_flush(index);
	/* Without memory, too, all that is lost is a hint. */
	rd_gather_add(&index->gather, key, at);
}

void rd_index_flush(struct rd_index *index)
{
	write_gathered(index);
	rd_merge(&index->files, index->sql, index->fan);
}

void rd_index_clear(struct rd_index *index)
{
	rd_gather_clear(&index->gather);
	rd_files_clear(&index->files);
}
