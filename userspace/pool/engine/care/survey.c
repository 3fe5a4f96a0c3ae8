// SPDX-License-Identifier: GPL-2.0
/*
 * Read all that lives.
 *
 * A window is some frames of a group: which of their slots are recipes' is seen in
 * one short transaction, their fingerprints are one read. Frames are read by the
 * ring and hashed by threads, and the next window begins as soon as there is room
 * for it.
 *
 * Packed frames come last. A pack is one read; the threads decode its groups, as far
 * as something in them lives.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/direct.h"
#include "base/sort.h"
#include "pool/catalog/owners.h"
#include "pool/catalog/packs.h"
#include "pool/catalog/recipes.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "survey.h"

#define WINDOW		8
#define NR_PIECES	(2 * WINDOW)
/* Frames between the first of a window and its last. */
#define MAX_SPAN	64
#define MAX_RUNS	(RD_SEG_BLOCKS / 2)
#define PIECE_SIZE	RD_PACK_MAX

struct scan;

/* A frame on its way. */
struct piece {
	struct scan *scan;
	bool in_use;
	u64 frame;
	struct rd_slots live;
	struct rd_pack pack;			/* of a packed frame; no blocks: it has none */
	u8 *data;				/* PIECE_SIZE: slot by slot, or the pack */
	u8 group[RD_PACK_GROUP_SIZE];		/* of the pack, decoded */
	struct rd_fp found[RD_SEG_BLOCKS];	/* of what lives; zeros: it is lost */
	struct rd_fp stored[RD_SEG_BLOCKS];
	unsigned int busy;			/* reads that have not ended */
	bool failed;
	struct rd_job job;
	struct rd_op ops[MAX_RUNS];
};

struct scan {
	struct rd_pool *pool;
	struct rd_survey *survey;
	struct rd_ring *ring;
	struct rd_workers *workers;
	u8 *data;				/* of all pieces */
	struct piece *pieces[NR_PIECES];
	unsigned int busy;
	/* The window that is being begun. */
	unsigned int nr;
	struct piece *window[WINDOW];
	struct rd_fp fps[MAX_SPAN][RD_SEG_BLOCKS];
};

/* --- checking */

static void hash_slots(struct piece *piece, struct rd_hasher *hasher)
{
	unsigned int first, end = 0;

	while (rd_slots_run(&piece->live, &first, &end))
		rd_fp_blocks(hasher, piece->data + (size_t)first * RD_BLOCK_SIZE, end - first,
			     &piece->found[first]);
}

static bool has_live(const struct piece *piece, unsigned int group)
{
	unsigned int slot = group * RD_PACK_GROUP, end = slot + RD_PACK_GROUP;

	while (slot < end && !rd_slots_test(&piece->live, slot))
		slot++;
	return slot < end;
}

static void hash_group(struct piece *piece, struct rd_thread *thread,
		       const struct dmr_pack_head *head, unsigned int group)
{
	const u8 *bytes = piece->data + dmr_pack_offset(head, group);
	unsigned int i, slot = group * RD_PACK_GROUP;
	struct rd_fp fps[RD_PACK_GROUP];

	if (rd_pack_decode(thread->packer, head, group, bytes, piece->group))
		return;
	rd_fp_blocks(thread->hasher, piece->group, rd_pack_group_blocks(head, group), fps);
	for (i = 0; i < RD_PACK_GROUP; i++, slot++)
		if (rd_pack_has(head, slot))
			piece->found[slot] = fps[rd_pack_block_at(head, slot)];
}

/* Groups in which nothing lives may be damaged: they do no harm. */
static void hash_pack(struct piece *piece, struct rd_thread *thread)
{
	size_t len = (size_t)piece->pack.blocks * RD_BLOCK_SIZE;
	struct dmr_pack_head head;
	unsigned int i;

	memset(piece->found, 0, sizeof(piece->found));
	if (rd_pack_read_head(&head, piece->data, len, piece->scan->pool->area.super.uuid,
			      piece->frame))
		return;
	for (i = 0; i < RD_PACK_GROUPS; i++)
		if (has_live(piece, i))
			hash_group(piece, thread, &head, i);
}

static void hash(struct rd_job *job, struct rd_thread *thread)
{
	struct piece *piece = job->ctx;

	if (rd_frame_is_packed(piece->frame))
		hash_pack(piece, thread);
	else
		hash_slots(piece, thread->hasher);
}

static void find_suspects(struct piece *piece)
{
	struct rd_buffer *suspects = &piece->scan->survey->suspects;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++) {
		rd_place place = rd_place_make(RD_OWN, piece->frame, i);

		if (rd_slots_test(&piece->live, i) &&
		    !rd_fp_agrees(&piece->stored[i], &piece->found[i]))
			rd_buffer_put(suspects, &place, sizeof(place));
	}
}

static void hashed(struct rd_job *job)
{
	struct piece *piece = job->ctx;

	find_suspects(piece);
	piece->in_use = false;
	piece->scan->busy--;
}

static void read_block(struct piece *piece, unsigned int nr, u64 offset)
{
	u8 *to = piece->data + (size_t)nr * RD_BLOCK_SIZE;

	if (rd_area_read(&piece->scan->pool->area, to, RD_BLOCK_SIZE, offset))
		memset(to, 0, RD_BLOCK_SIZE);
}

/*
 * Block by block, so that one that cannot be read spoils no other, or in a pack, only those of
 * its group.
 */
static void read_again(struct piece *piece)
{
	unsigned int i;

	if (rd_frame_is_packed(piece->frame)) {
		for (i = 0; i < piece->pack.blocks; i++)
			read_block(piece, i, rd_pack_offset(&piece->pack) + i * RD_BLOCK_SIZE);
		return;
	}
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (rd_slots_test(&piece->live, i))
			read_block(piece, i, rd_slot_offset(piece->frame, i));
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

/* Read @nr_blocks blocks at @offset to block @first of the piece's data. */
static void read_run(struct piece *piece, unsigned int first, unsigned int nr_blocks, u64 offset)
{
	unsigned int nr = piece->busy++;

	piece->scan->survey->bytes_read += (u64)nr_blocks * RD_BLOCK_SIZE;
	piece->ops[nr] = (struct rd_op){
		.kind = RD_OP_READ,
		.store = piece->scan->pool->area.store,
		.offset = offset,
		.own = { piece->data + (size_t)first * RD_BLOCK_SIZE,
			 (size_t)nr_blocks * RD_BLOCK_SIZE },
		.done = read_ended,
		.ctx = piece,
	};
	rd_ring_submit(piece->scan->ring, &piece->ops[nr]);
}

/* A frame whose pack the catalog does not know is lost as a whole. */
static void read_pack(struct piece *piece)
{
	if (!piece->pack.blocks) {
		memset(piece->found, 0, sizeof(piece->found));
		find_suspects(piece);
		return;
	}
	piece->scan->survey->bytes_read += RD_FPS_SIZE;
	read_run(piece, 0, piece->pack.blocks, rd_pack_offset(&piece->pack));
}

static void read_piece(struct piece *piece)
{
	unsigned int first, end = 0;

	piece->failed = false;
	piece->busy = 0;
	if (rd_frame_is_packed(piece->frame))
		read_pack(piece);
	else
		while (rd_slots_run(&piece->live, &first, &end))
			read_run(piece, first, end - first, rd_slot_offset(piece->frame, first));
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
	int r;

	r = rd_recipe_load(scan->pool->sql, id, &recipe);
	/* Pass by a recipe that cannot be read: following the recipes finds it. */
	if (r)
		return r == -EUCLEAN || r == -ENOENT ? 0 : r;
	rd_map_add_slots(&recipe.map, piece->frame, &piece->live);
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

/* Add a piece for @frame to the window. */
static int add_piece(struct scan *scan, u64 frame, struct piece **ret)
{
	struct piece *piece = free_piece(scan);
	int r = 0;

	piece->in_use = true;
	piece->frame = frame;
	memset(&piece->live, 0, sizeof(piece->live));
	scan->window[scan->nr++] = piece;
	*ret = piece;
	if (rd_frame_is_packed(frame))
		r = rd_pack_find(scan->pool->sql, frame, &piece->pack);
	if (r != -ENOENT && r != -EUCLEAN)
		return r;
	piece->pack.blocks = 0;
	return 0;
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
	u64 frame, next = U64_MAX;
	struct piece *piece = NULL;
	i64 recipe;
	int r;

	scan->nr = 0;
	r = rd_owners(scan->pool->sql, &rows, survey->next_frame);
	while (!r && (r = rd_next_owner(rows, &frame, &recipe)) > 0) {
		r = 0;
		if (!rd_area_has_frame(&scan->pool->area, frame) || rd_owner_is_pack(recipe))
			continue;
		if (!piece || piece->frame != frame) {
			if (!fits(scan, frame)) {
				next = frame;
				break;
			}
			r = add_piece(scan, frame, &piece);
		}
		if (!r)
			r = add_live(scan, piece, recipe);
	}
	survey->next_frame = next;
	return r;
}

static int begin_window(struct scan *scan)
{
	unsigned int i;
	int r;

	r = rd_sql_look(scan->pool->sql, find_window(scan));
	if (r || !scan->nr)
		return r;
	read_fps(scan);
	for (i = 0; i < scan->nr; i++)
		read_piece(scan->window[i]);
	return 0;
}

bool rd_survey_is_over(const struct rd_survey *survey)
{
	return survey->next_frame == U64_MAX ||
		(survey->max_bytes && survey->bytes_read >= survey->max_bytes) ||
		(survey->until_us && rd_now_us() >= survey->until_us);
}

static int run(struct scan *scan, size_t max_suspects)
{
	struct rd_survey *survey = scan->survey;
	struct rd_buffer *suspects = &survey->suspects;
	bool more = !rd_survey_is_over(survey);
	u64 paid = survey->bytes_read;
	int r = 0;

	while (!r && (more || scan->busy)) {
		if (more && scan->busy <= NR_PIECES - WINDOW)
			r = begin_window(scan);
		else
			r = rd_ring_wait(scan->ring);
		rd_pace(&scan->pool->pace, survey->bytes_read - paid);
		paid = survey->bytes_read;
		if (!r && suspects->failed)
			r = -ENOMEM;
		if (!r)
			r = rd_pool_progress(scan->pool, "scrub", survey->bytes_read,
					     survey->bytes_total);
		more = !rd_survey_is_over(survey) &&
			suspects->len / sizeof(rd_place) < max_suspects;
	}
	return r;
}

/* --- */

static int set_up(struct scan *scan)
{
	unsigned int i;
	u64 blocks;
	int r;

	r = rd_blocks_owned(scan->pool->sql, &blocks);
	if (r)
		return r;
	scan->survey->bytes_total = blocks * RD_BLOCK_SIZE;
	if (scan->survey->max_bytes)
		scan->survey->bytes_total = rd_min(scan->survey->bytes_total,
						   scan->survey->max_bytes);
	scan->data = rd_alloc_direct((size_t)NR_PIECES * PIECE_SIZE);
	if (!scan->data)
		return -ENOMEM;
	for (i = 0; i < NR_PIECES; i++) {
		struct piece *piece = calloc(1, sizeof(*piece));

		scan->pieces[i] = piece;
		if (!piece)
			return -ENOMEM;
		piece->scan = scan;
		piece->data = scan->data + (size_t)i * PIECE_SIZE;
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
	rd_sort_buffer(&survey->suspects, sizeof(rd_place), rd_compare_u64);
	return r;
}
