// SPDX-License-Identifier: GPL-2.0
/* Blocks that stay, read and hashed, or written just now: see keepers.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/direct.h"
#include "base/sort.h"
#include "blocks.h"
#include "keepers.h"

struct rd_keepers {
	struct rd_pool *pool;
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	u8 *data;			/* a block a keeper */
	struct rd_fp fps[RD_KEEPERS];	/* of these */
	struct rd_keeper **list;	/* in the order of places */
	unsigned int nr;
};

struct rd_keepers *rd_keepers_new(struct rd_pool *pool)
{
	struct rd_keepers *keepers = calloc(1, sizeof(*keepers));

	if (!keepers)
		return NULL;
	keepers->pool = pool;
	keepers->blocks = rd_blocks_new(pool);
	keepers->hasher = rd_hasher_new();
	keepers->data = rd_alloc_direct((size_t)RD_KEEPERS * RD_BLOCK_SIZE);
	if (keepers->blocks && keepers->hasher && keepers->data)
		return keepers;
	rd_keepers_free(keepers);
	return NULL;
}

void rd_keepers_free(struct rd_keepers *keepers)
{
	if (!keepers)
		return;
	rd_blocks_free(keepers->blocks);
	rd_hasher_free(keepers->hasher);
	free(keepers->data);
	free(keepers);
}

static int compare_places(const void *a, const void *b)
{
	const struct rd_keeper *x = *(struct rd_keeper *const *)a;
	const struct rd_keeper *y = *(struct rd_keeper *const *)b;

	return rd_order(x->at, y->at);
}

static u8 *data_of(struct rd_keepers *keepers, unsigned int i)
{
	return keepers->data + (size_t)i * RD_BLOCK_SIZE;
}

/* A block that cannot be read is zeros, of which no block has the fingerprint. */
static int read_alone(struct rd_keepers *keepers, unsigned int i)
{
	int r = rd_blocks_read(keepers->blocks, keepers->list[i]->at, data_of(keepers, i));

	if (r)
		memset(data_of(keepers, i), 0, RD_BLOCK_SIZE);
	return r == -ENOMEM ? r : 0;
}

/*
 * Read the raw blocks from number @first on that are in a row, some perhaps more than once.
 * *@ret_nr: how many keepers that is.
 */
static int read_run(struct rd_keepers *keepers, unsigned int first, unsigned int *ret_nr)
{
	struct rd_keeper **list = &keepers->list[first];
	const struct rd_area *area = &keepers->pool->area;
	rd_place at = list[0]->at;
	unsigned int nr = 1, len, i;

	*ret_nr = 1;
	if (rd_frame_is_packed(rd_place_id(at)) || !rd_area_has_frame(area, rd_place_id(at)))
		return read_alone(keepers, first);
	while (first + nr < keepers->nr && list[nr]->at - list[nr - 1]->at <= 1 &&
	       rd_place_id(list[nr]->at) == rd_place_id(at))
		nr++;
	len = list[nr - 1]->at - at + 1;
	if (rd_area_read(area, data_of(keepers, first), (size_t)len * RD_BLOCK_SIZE,
			 rd_place_offset(at)))
		return read_alone(keepers, first);
	/* From behind, as there are no more blocks than keepers. */
	for (i = nr; i-- > 0;)
		memmove(data_of(keepers, first + i),
			data_of(keepers, first + (list[i]->at - at)), RD_BLOCK_SIZE);
	*ret_nr = nr;
	return 0;
}

/* A pack may have moved since it was looked for: then its blocks are elsewhere. */
static int read_again(struct rd_keepers *keepers, unsigned int i)
{
	struct rd_keeper *keeper = keepers->list[i];
	int r;

	if (keeper->is_sound || !rd_frame_is_packed(rd_place_id(keeper->at)))
		return 0;
	rd_blocks_forget(keepers->blocks);
	r = read_alone(keepers, i);
	rd_fp_blocks(keepers->hasher, data_of(keepers, i), 1, &keepers->fps[i]);
	keeper->is_sound = rd_fp_equal(&keepers->fps[i], &keeper->fp);
	return r;
}

int rd_keepers_read(struct rd_keepers *keepers, struct rd_keeper **list, unsigned int nr,
		    struct rd_pace *pace)
{
	unsigned int i, len;
	int r = 0;

	keepers->list = list;
	keepers->nr = nr;
	rd_blocks_forget(keepers->blocks);
	qsort(list, nr, sizeof(*list), compare_places);
	for (i = 0; i < nr && !r; i += len) {
		r = read_run(keepers, i, &len);
		rd_pace(pace, (u64)len * RD_BLOCK_SIZE);
	}
	if (r)
		return r;
	rd_fp_blocks(keepers->hasher, keepers->data, nr, keepers->fps);
	for (i = 0; i < nr && !r; i++) {
		list[i]->is_sound = rd_fp_equal(&keepers->fps[i], &list[i]->fp);
		r = read_again(keepers, i);
	}
	return r;
}

/* --- what a command has written */

struct rd_written_run {
	u64 first, nr;
};

static struct rd_written_run *runs_of(const struct rd_written *written, size_t *ret_nr)
{
	*ret_nr = written->runs.len / sizeof(struct rd_written_run);
	return (struct rd_written_run *)written->runs.data;
}

void rd_written_add(struct rd_written *written, u64 frame)
{
	struct rd_written_run *runs, run = { frame, 1 };
	size_t nr, i;

	runs = runs_of(written, &nr);
	/* Raw frames and packs, or packs and what gains nothing as one, take turns. */
	for (i = nr; i-- > 0 && i + 2 >= nr;)
		if (runs[i].first + runs[i].nr == frame) {
			runs[i].nr++;
			return;
		}
	rd_buffer_put(&written->runs, &run, sizeof(run));
	written->is_sorted = false;
}

bool rd_written_has(struct rd_written *written, u64 frame)
{
	struct rd_written_run *runs;
	size_t nr, at;

	runs = runs_of(written, &nr);
	if (!written->is_sorted)
		rd_sort(runs, nr, first);
	written->is_sorted = true;
	at = rd_count_below(nr, i, runs[i].first <= frame);
	return at && frame - runs[at - 1].first < runs[at - 1].nr;
}

void rd_written_free(struct rd_written *written)
{
	rd_buffer_free(&written->runs);
}
