// SPDX-License-Identifier: GPL-2.0
/*
 * Read all that lives.
 *
 * A window is some frames of a group: which of their slots are recipes' is seen in
 * one short transaction, their fingerprints are one read. Frames are read by the
 * ring and hashed by threads, and the next window begins as soon as there is room
 * for it.
 */
#include <errno.h>

#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/frames.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/recipes.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "survey.h"

#define WINDOW		8
#define NR_PIECES	(2 * WINDOW)
/* Frames between the first of a window and its last. */
#define MAX_SPAN	64
#define MAX_RUNS	(RD_SEG_BLOCKS / 2)

struct scan;

/* A frame on its way. */
struct piece {
	struct scan *scan;
	bool in_use;
	u64 frame;
	struct rd_slots live;
	u8 *data;
	struct rd_fp found[RD_SEG_BLOCKS];	/* of what is live in data */
	struct rd_fp stored[RD_SEG_BLOCKS];
	unsigned int busy;			/* reads that have not ended */
	bool failed;
	struct rd_job job;
	struct rd_op ops[MAX_RUNS];
	struct iovec iovs[MAX_RUNS];
};

struct scan {
	struct rd_pool *pool;
	struct rd_survey *survey;
	struct rd_ring *ring;
	struct rd_workers *workers;
	u8 *data;				/* a segment for each piece */
	struct piece *pieces[NR_PIECES];
	unsigned int busy;
	/* The window that is being begun. */
	unsigned int nr;
	struct piece *window[WINDOW];
	struct rd_fp fps[MAX_SPAN][RD_SEG_BLOCKS];
};

/* The next slots in a row that live, from *@first up to *@end; false: none. */
static bool next_run(const struct piece *piece, unsigned int *first, unsigned int *end)
{
	unsigned int i = *end;

	while (i < RD_SEG_BLOCKS && !rd_slots_test(&piece->live, i))
		i++;
	*first = i;
	while (i < RD_SEG_BLOCKS && rd_slots_test(&piece->live, i))
		i++;
	*end = i;
	return *first < i;
}

/* --- checking */

static void hash(struct rd_job *job, struct rd_thread *thread)
{
	struct rd_hasher *hasher = thread->hasher;
	struct piece *piece = job->ctx;
	unsigned int first, end = 0;

	while (next_run(piece, &first, &end))
		rd_fp_blocks(hasher, piece->data + (size_t)first * RD_BLOCK_SIZE, end - first,
			     &piece->found[first]);
}

static void hashed(struct rd_job *job)
{
	struct piece *piece = job->ctx;
	struct rd_buffer *suspects = &piece->scan->survey->suspects;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = rd_place_make(RD_OWN, piece->frame, i);

		if (rd_slots_test(&piece->live, i) &&
		    !rd_fp_agrees(&piece->stored[i], &piece->found[i]))
			rd_buffer_put(suspects, &place, sizeof(place));
	}
	piece->in_use = false;
	piece->scan->busy--;
}

/* Block by block, so that one that cannot be read spoils no other. */
static void read_again(struct piece *piece)
{
	const struct rd_area *area = &piece->scan->pool->area;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		u8 *to = piece->data + (size_t)i * RD_BLOCK_SIZE;

		if (rd_slots_test(&piece->live, i) &&
		    rd_area_read(area, to, RD_BLOCK_SIZE, rd_slot_offset(piece->frame, i)))
			memset(to, 0, RD_BLOCK_SIZE);
	}
}

static void read_ended(struct rd_op *op, int r)
{
	struct piece *piece = op->ctx;

	piece->failed |= r != 0;
	if (--piece->busy)
		return;
	if (piece->failed)
		read_again(piece);
	piece->job = (struct rd_job){ .run = hash, .done = hashed, .ctx = piece };
	rd_workers_give(piece->scan->workers, &piece->job);
}

/* --- reading */

static void read_run(struct piece *piece, unsigned int first, unsigned int end)
{
	unsigned int nr = piece->busy++;

	piece->scan->survey->bytes_read += (u64)(end - first) * RD_BLOCK_SIZE;
	piece->iovs[nr] = (struct iovec){
		.iov_base = piece->data + (size_t)first * RD_BLOCK_SIZE,
		.iov_len = (size_t)(end - first) * RD_BLOCK_SIZE,
	};
	piece->ops[nr] = (struct rd_op){
		.kind = RD_OP_READ,
		.fd = piece->scan->pool->area.fd,
		.offset = rd_slot_offset(piece->frame, first),
		.iov = &piece->iovs[nr],
		.nr_iov = 1,
		.done = read_ended,
		.ctx = piece,
	};
	rd_ring_submit(piece->scan->ring, &piece->ops[nr]);
}

static void read_piece(struct piece *piece)
{
	unsigned int first, end = 0;

	piece->failed = false;
	piece->busy = 0;
	while (next_run(piece, &first, &end))
		read_run(piece, first, end);
	if (piece->busy)
		piece->scan->busy++;
	piece->in_use = piece->busy;
}

static void read_fps(struct scan *scan)
{
	u64 first = scan->window[0]->frame, last = scan->window[scan->nr - 1]->frame;
	unsigned int i;

	rd_area_get_fps(&scan->pool->area, first, last - first + 1, scan->fps[0]);
	for (i = 0; i < scan->nr; i++)
		memcpy(scan->window[i]->stored, scan->fps[scan->window[i]->frame - first],
		       RD_FPS_SIZE);
}

/* --- windows */

static int add_live(struct scan *scan, struct piece *piece, i64 id)
{
	struct rd_recipe recipe;
	unsigned int i;
	int r;

	r = rd_recipe_load(scan->pool->sql, id, &recipe);
	/* Pass by a recipe that cannot be read: following the recipes finds it. */
	if (r)
		return r == -EUCLEAN || r == -ENOENT ? 0 : r;
	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = recipe.map.at[i];

		if (rd_place_kind(place) == RD_OWN && rd_place_id(place) == piece->frame)
			rd_slots_set(&piece->live, rd_place_slot(place));
	}
	return 0;
}

static struct piece *free_piece(struct scan *scan)
{
	unsigned int i;

	for (i = 0; i < NR_PIECES; i++)
		if (!scan->pieces[i]->in_use)
			return scan->pieces[i];
	return NULL;
}

/* Is @frame one more for the window? */
static bool fits(const struct scan *scan, u64 frame)
{
	u64 first = scan->nr ? scan->window[0]->frame : frame;

	return scan->nr < WINDOW && frame - first < MAX_SPAN &&
		frame / RD_GROUP_FRAMES == first / RD_GROUP_FRAMES;
}

/* The frames from survey->next_frame on, as many as go into a window. */
static int find_window(struct scan *scan)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_survey *survey = scan->survey;
	u64 frame, next = U64_MAX, nr_frames = scan->pool->area.super.nr_frames;
	struct piece *piece = NULL;
	i64 recipe;
	int r;

	scan->nr = 0;
	r = rd_owners(scan->pool->sql, &rows, survey->next_frame);
	while (!r && (r = rd_next_owner(rows, &frame, &recipe)) > 0) {
		r = 0;
		if (frame >= nr_frames)
			continue;
		if (!piece || piece->frame != frame) {
			if (!fits(scan, frame)) {
				next = frame;
				break;
			}
			piece = free_piece(scan);
			piece->in_use = true;
			piece->frame = frame;
			memset(&piece->live, 0, sizeof(piece->live));
			scan->window[scan->nr++] = piece;
		}
		r = add_live(scan, piece, recipe);
	}
	survey->next_frame = next;
	return r;
}

static int begin_window(struct scan *scan)
{
	unsigned int i;
	int r;

	r = rd_sql_begin_read(scan->pool->sql);
	if (r)
		return r;
	r = find_window(scan);
	rd_sql_end_read(scan->pool->sql);
	if (r || !scan->nr)
		return r;
	read_fps(scan);
	for (i = 0; i < scan->nr; i++)
		read_piece(scan->window[i]);
	return 0;
}

static int run(struct scan *scan, size_t max_suspects)
{
	struct rd_survey *survey = scan->survey;
	struct rd_buffer *suspects = &survey->suspects;
	bool more = survey->next_frame != U64_MAX;
	int r = 0;

	while (!r && (more || scan->busy)) {
		if (more && scan->busy <= NR_PIECES - WINDOW)
			r = begin_window(scan);
		else
			r = rd_ring_wait(scan->ring);
		if (!r && suspects->failed)
			r = -ENOMEM;
		if (!r)
			r = rd_pool_progress(scan->pool, "scrub", survey->bytes_read,
					     survey->bytes_total);
		more = survey->next_frame != U64_MAX &&
			suspects->len / sizeof(rd_place) < max_suspects;
	}
	return r;
}

/* --- */

static int compare_places(const void *a, const void *b)
{
	rd_place x = *(const rd_place *)a, y = *(const rd_place *)b;

	return x < y ? -1 : x > y;
}

static int set_up(struct scan *scan)
{
	unsigned int i;
	u64 blocks;
	int r;

	r = rd_blocks_owned(scan->pool->sql, &blocks);
	if (r)
		return r;
	scan->survey->bytes_total = blocks * RD_BLOCK_SIZE;
	scan->data = rd_alloc_direct(NR_PIECES * RD_SEG_SIZE);
	if (!scan->data)
		return -ENOMEM;
	for (i = 0; i < NR_PIECES; i++) {
		struct piece *piece = calloc(1, sizeof(*piece));

		scan->pieces[i] = piece;
		if (!piece)
			return -ENOMEM;
		piece->scan = scan;
		piece->data = scan->data + (size_t)i * RD_SEG_SIZE;
	}
	r = rd_ring_new(&scan->ring, 64);
	return r ? r : rd_workers_new(&scan->workers, scan->ring);
}

static void tear_down(struct scan *scan)
{
	unsigned int i;

	rd_workers_free(scan->workers);
	rd_ring_free(scan->ring);
	for (i = 0; i < NR_PIECES; i++)
		free(scan->pieces[i]);
	free(scan->data);
}

int rd_survey(struct rd_pool *pool, struct rd_survey *survey, size_t max_suspects)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	int r;

	if (!scan)
		return -ENOMEM;
	scan->pool = pool;
	scan->survey = survey;
	survey->suspects.len = 0;
	r = set_up(scan);
	if (!r)
		r = run(scan, max_suspects);
	tear_down(scan);
	free(scan);
	if (!r && survey->suspects.len)
		qsort(survey->suspects.data, survey->suspects.len / sizeof(rd_place),
		      sizeof(rd_place), compare_places);
	return r;
}
