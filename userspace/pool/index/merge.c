// SPDX-License-Identifier: GPL-2.0
/* Merge runs; see merge.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/inject.h"
#include "merge.h"
#include "owned.h"

/* Runs up to this size are of the least size. */
#define LEAST		4096
/* It does not pay to look for frames that are free for fewer entries. */
#define LEAST_PRUNED	65536

struct merge {
	struct rd_files *files;
	const struct rd_owned *owned;	/* NULL: all stay */
	unsigned int nr;
	struct rd_index_run *runs[RD_MERGE_WIDE];	/* the newest first */
	struct rd_index_run_reader readers[RD_MERGE_WIDE];
	struct rd_index_run_entry next[RD_MERGE_WIDE];
	/* The runs that have a next one: a heap, with the one whose turn it is on top. */
	unsigned int heap[RD_MERGE_WIDE];
	unsigned int nr_heap;
};

/* --- entries of all runs, in order */

/* Of the same key, that of the newest run is the first. */
static bool is_before(const struct merge *merge, unsigned int a, unsigned int b)
{
	u64 x = merge->next[a].key, y = merge->next[b].key;

	return x < y || (x == y && a < b);
}

/* Move what is @at in the heap down to its place. */
static void sift(struct merge *merge, unsigned int at)
{
	unsigned int *heap = merge->heap, run = heap[at], child;

	while ((child = 2 * at + 1) < merge->nr_heap) {
		if (child + 1 < merge->nr_heap && is_before(merge, heap[child + 1], heap[child]))
			child++;
		if (is_before(merge, run, heap[child]))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = run;
}

/* Read the next entry of a run: 1, or 0: it ended. One that cannot be read is dropped: -EAGAIN. */
static int step(struct merge *merge, unsigned int i)
{
	int r = rd_index_run_next(&merge->readers[i], &merge->next[i]);

	if (r < 0 && r != -ENOMEM) {
		rd_files_drop(merge->files, merge->runs[i], r);
		return -EAGAIN;
	}
	return r;
}

static int start(struct merge *merge)
{
	unsigned int i;
	int r = 0;

	merge->nr_heap = 0;
	for (i = 0; i < merge->nr && r >= 0; i++) {
		r = rd_index_run_read(&merge->readers[i], merge->runs[i]);
		if (!r)
			r = step(merge, i);
		if (r > 0)
			merge->heap[merge->nr_heap++] = i;
	}
	for (i = merge->nr_heap / 2; i-- > 0;)
		sift(merge, i);
	return r < 0 ? r : 0;
}

static void stop(struct merge *merge)
{
	unsigned int i;

	for (i = 0; i < merge->nr; i++)
		rd_index_run_reader_free(&merge->readers[i]);
}

/* Step to the next entry of all. */
static int step_top(struct merge *merge)
{
	int r = step(merge, merge->heap[0]);

	if (!r)
		merge->heap[0] = merge->heap[--merge->nr_heap];
	if (r >= 0 && merge->nr_heap)
		sift(merge, 0);
	return r < 0 ? r : 0;
}

/* 1, 0: no more, or -errno. */
static int next_of_all(struct merge *merge, struct rd_index_run_entry *ret)
{
	int r;

	if (!merge->nr_heap)
		return 0;
	*ret = merge->next[merge->heap[0]];
	do
		r = step_top(merge);
	while (!r && merge->nr_heap && merge->next[merge->heap[0]].key == ret->key);
	return r ? r : 1;
}

static int next_kept(struct merge *merge, struct rd_index_run_entry *ret)
{
	int r;

	do
		r = next_of_all(merge, ret);
	while (r > 0 && merge->owned && !rd_owned_has(merge->owned, ret->place / RD_SEG_BLOCKS));
	return r;
}

/* --- one merge */

static int count(struct merge *merge, u64 *ret)
{
	struct rd_index_run_entry entry;
	int r;

	*ret = 0;
	r = start(merge);
	while (!r && (r = next_kept(merge, &entry)) > 0) {
		++*ret;
		r = 0;
	}
	stop(merge);
	return r;
}

static int put_all(struct merge *merge, struct rd_index_run_writer *writer)
{
	struct rd_index_run_entry entry;
	int r;

	r = start(merge);
	while (!r && (r = next_kept(merge, &entry)) > 0)
		r = rd_index_run_put(writer, &entry);
	stop(merge);
	return r;
}

static int merge_runs(struct merge *merge)
{
	struct rd_new_run new;
	unsigned int i;
	u64 nr;
	int r;

	r = rd_failpoint("index-merge");
	if (!r)
		r = count(merge, &nr);
	if (!r)
		r = rd_files_begin(merge->files, &new, nr, merge->runs[0]->head.generation);
	if (r)
		return r;
	r = put_all(merge, &new.writer);
	r = rd_files_end(merge->files, &new, r);
	for (i = 0; i < merge->nr && !r; i++)
		rd_files_remove(merge->files, merge->runs[i]);
	return r;
}

static u64 entries_of(const struct merge *merge)
{
	u64 nr = 0;
	unsigned int i;

	for (i = 0; i < merge->nr; i++)
		nr += merge->runs[i]->head.nr_entries;
	return nr;
}

static int merge_pruned(struct merge *merge, struct rd_sql *sql)
{
	struct rd_owned owned = { 0 };
	int r = 0;

	if (sql && entries_of(merge) >= LEAST_PRUNED) {
		r = rd_owned_load(&owned, sql);
		merge->owned = &owned;
	}
	if (!r)
		r = merge_runs(merge);
	rd_owned_free(&owned);
	merge->owned = NULL;
	return r;
}

/* --- which ones */

static unsigned int size_of(const struct rd_index_run *run)
{
	u64 nr = run->head.nr_entries;
	unsigned int size = 0;

	for (; nr > LEAST; nr /= 4)
		size++;
	return size;
}

/* Find @fan runs of a size, and more if there are. */
static bool choose(struct merge *merge, unsigned int fan)
{
	const struct rd_files *files = merge->files;
	unsigned int size, i;

	for (size = 0; size < 32; size++) {
		merge->nr = 0;
		for (i = 0; i < files->nr && merge->nr < RD_MERGE_WIDE; i++)
			if (size_of(files->runs[i]) == size)
				merge->runs[merge->nr++] = files->runs[i];
		if (merge->nr >= fan)
			return true;
	}
	return false;
}

static bool choose_any(struct merge *merge)
{
	const struct rd_files *files = merge->files;
	unsigned int i;

	merge->nr = 0;
	for (i = 0; i < files->nr && i < RD_MERGE_WIDE; i++)
		merge->runs[merge->nr++] = files->runs[i];
	return merge->nr > 1;
}

static void run_merges(struct rd_files *files, struct rd_sql *sql, unsigned int fan)
{
	struct merge *merge = calloc(1, sizeof(*merge));
	struct rd_lock lock = RD_LOCK_NONE;
	int r = 0;

	if (!merge || !rd_files_lock_merge(files, &lock)) {
		free(merge);
		return;
	}
	merge->files = files;
	rd_files_refresh(files);
	while ((!r || r == -EAGAIN) && (fan ? choose(merge, fan) : choose_any(merge)))
		r = merge_pruned(merge, sql);
	rd_lock_drop(&lock);
	free(merge);
}

void rd_merge(struct rd_files *files, struct rd_sql *sql, unsigned int fan)
{
	if (files->nr >= fan)
		run_merges(files, sql, fan);
}

void rd_merge_all(struct rd_files *files)
{
	run_merges(files, NULL, 0);
}
