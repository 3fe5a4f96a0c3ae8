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
	struct rd_blocks *blocks;
	struct rd_hasher *hasher;
	rd_place places[RD_KEEPERS];	/* in order, each once */
	u8 *data;			/* a block a place */
	struct rd_fp fps[RD_KEEPERS];	/* of these */
};

struct rd_keepers *rd_keepers_new(struct rd_pool *pool)
{
	struct rd_keepers *keepers = calloc(1, sizeof(*keepers));

	if (!keepers)
		return NULL;
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

/* With a rate, little at once. */
static int read_places(struct rd_keepers *keepers, unsigned int nr, struct rd_pace *pace)
{
	unsigned int at_once = rd_pace_at_once(pace, RD_KEEPERS * RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	unsigned int i, len;
	int r = 0;

	for (i = 0; i < nr && r >= 0; i += len) {
		len = rd_min(nr - i, at_once);
		r = rd_blocks_read_all(keepers->blocks, &keepers->places[i], len,
				       data_of(keepers, i));
		rd_pace(pace, (u64)len * RD_BLOCK_SIZE);
	}
	return r < 0 ? r : 0;
}

/* A pack may have moved since it was looked for: then its blocks are elsewhere. */
static int read_again(struct rd_keepers *keepers, unsigned int i)
{
	u8 *data = data_of(keepers, i);
	int r;

	rd_blocks_forget(keepers->blocks);
	r = rd_blocks_read_all(keepers->blocks, &keepers->places[i], 1, data);
	rd_fp_blocks(keepers->hasher, data, 1, &keepers->fps[i]);
	return r < 0 ? r : 0;
}

int rd_keepers_read(struct rd_keepers *keepers, struct rd_keeper **list, unsigned int nr,
		    struct rd_pace *pace)
{
	unsigned int i, at = 0, nr_places = 0;
	int r;

	qsort(list, nr, sizeof(*list), compare_places);
	for (i = 0; i < nr; i++)
		if (!nr_places || list[i]->at != keepers->places[nr_places - 1])
			keepers->places[nr_places++] = list[i]->at;
	rd_blocks_forget(keepers->blocks);
	r = read_places(keepers, nr_places, pace);
	if (r)
		return r;
	rd_fp_blocks(keepers->hasher, keepers->data, nr_places, keepers->fps);
	for (i = 0; i < nr && !r; i++) {
		while (keepers->places[at] != list[i]->at)
			at++;
		if (!rd_fp_equal(&keepers->fps[at], &list[i]->fp) &&
		    rd_frame_is_packed(rd_place_id(list[i]->at)))
			r = read_again(keepers, at);
		list[i]->is_sound = rd_fp_equal(&keepers->fps[at], &list[i]->fp);
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
