// SPDX-License-Identifier: GPL-2.0
/*
 * Read a version and write it somewhere.
 *
 * Windows of WINDOW segments are resolved in one short transaction. What they
 * need of the pool is read in the order in which it lies there, neighbours
 * together; a segment that has all of its blocks is checked by a thread and goes
 * on to the target. Windows are small, and several are under way at a time: the
 * next one begins as soon as there is room for it.
 *
 * Places are read without a lock, so a block may have moved, and its place may
 * have something else by now. Then the fingerprint of the segment is wrong; it is
 * resolved and read again, alone. What is wrong at places that did not change is
 * damage.
 *
 * For a delta the target is read first, and compared with the fingerprints that
 * the pool keeps beside its blocks; segments that a file has as a hole are known without that.
 * Long stretches that are zeros in the version and that a file has as a hole, or is new and has
 * not at all, are passed by.
 */
#include <errno.h>
#include <unistd.h>

#include "base/direct.h"
#include "base/log.h"
#include "pool/catalog/segments.h"
#include "proof.h"
#include "restore_pieces.h"

/* --- the pipeline */

static bool window_is_free(struct restore *restore)
{
	unsigned int i;

	for (i = 0; i < WINDOW; i++)
		if (restore->pieces[(restore->next + i) % NR_PIECES].state != PIECE_FREE)
			return false;
	return true;
}

static bool needs_zeros(const struct restore *restore)
{
	return restore->options->mode != RD_RESTORE_NEW &&
		restore->options->mode != RD_RESTORE_NONE;
}

/* Can the target have holes? */
static bool has_holes(const struct restore *restore)
{
	return !restore->options->is_device || restore->options->store;
}

static off_t seek_data(struct restore *restore, off_t offset)
{
	struct rd_store *store = restore->options->store;

	return store ? rd_store_seek(store, offset, SEEK_DATA) :
		lseek(restore->options->fd, offset, SEEK_DATA);
}

/* The first segment from @from on that the target has data in; @from: it cannot say so. */
static u64 next_data(struct restore *restore, u64 from)
{
	off_t data;

	if (from < restore->hole || from >= restore->hole_end) {
		data = seek_data(restore, from << RD_SEG_SHIFT);
		if (data < 0 && errno != ENXIO)
			return from;
		restore->hole = from;
		restore->hole_end = data < 0 ? U64_MAX : (u64)data >> RD_SEG_SHIFT;
	}
	return restore->hole_end;
}

/* A hole is neither read nor hashed: it is zeros, and has all blocks that are to be zeros. */
static void begin_delta(struct restore *restore, struct piece *piece)
{
	unsigned int i;

	if (!has_holes(restore) ||
	    next_data(restore, piece->segment) == piece->segment) {
		rd_restore_read_target(piece);
		return;
	}
	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		piece->need[i] = rd_place_kind(piece->map.at[i]) != RD_ZERO;
		if (!piece->need[i])
			restore->report->bytes_same += RD_BLOCK_SIZE;
	}
	if (piece->recipe)
		rd_restore_want(piece);
	else
		piece->state = PIECE_CHECKED;
}

static int begin_piece(struct restore *restore, u64 segment, i64 recipe)
{
	struct piece *piece = &restore->pieces[segment % NR_PIECES];
	u64 left = restore->options->version.size - (segment << RD_SEG_SHIFT);
	int r;

	piece->segment = segment;
	piece->recipe = recipe;
	piece->len = rd_round_up(rd_min(left, RD_SEG_SIZE), RD_BLOCK_SIZE);
	piece->busy = 0;
	piece->r = 0;
	piece->is_unknown = false;
	memset(piece->bad, 0, sizeof(piece->bad));
	memset(piece->need, 1, sizeof(piece->need));
	r = rd_restore_resolve(restore, piece);
	if (r == -EUCLEAN || r == -ENOENT) {
		/* It will be found to be damaged. */
		piece->r = -EUCLEAN;
		piece->state = PIECE_CHECKED;
		return 0;
	}
	if (r)
		return r;
	if (restore->options->mode == RD_RESTORE_DELTA) {
		begin_delta(restore, piece);
	} else {
		/* Zeros need no check, and a target that is all zeros needs no zeros. */
		if (recipe || needs_zeros(restore))
			rd_restore_want(piece);
		if (!recipe)
			piece->state = PIECE_CHECKED;
	}
	return 0;
}

static int begin_window(struct restore *restore)
{
	unsigned int i, nr = rd_min(WINDOW, restore->nr_segs - restore->next);
	i64 recipes[WINDOW];
	int r;

	r = rd_sql_begin_read(restore->pool->sql);
	if (r)
		return r;
	rd_resolver_forget(restore->resolver);
	r = rd_segments_read(restore->pool->sql, restore->options->version.volume,
			     restore->options->version.number, restore->next, nr, recipes);
	for (i = 0; i < nr && !r; i++)
		r = begin_piece(restore, restore->next + i, recipes[i]);
	rd_sql_end_read(restore->pool->sql);
	restore->next += nr;
	rd_pace(&restore->pool->pace, restore->report->bytes_read - restore->paid);
	restore->paid = restore->report->bytes_read;
	return r ? r : rd_restore_read(restore);
}

/* The first segment from restore->next on that a version of the volume says something of. */
static int next_row(struct restore *restore, u64 *ret)
{
	u64 from = restore->next, segment;
	int r;

	if (from < restore->row || from >= restore->row_end) {
		r = rd_segment_next(restore->pool->sql, restore->options->version.volume, from,
				    &segment);
		if (r && r != -ENOENT)
			return r;
		restore->row = from;
		restore->row_end = r ? U64_MAX : segment;
	}
	*ret = restore->row_end;
	return 0;
}

/* The same that the target has data in. */
static u64 next_kept(struct restore *restore)
{
	if (restore->options->mode != RD_RESTORE_DELTA)
		return U64_MAX;
	return has_holes(restore) ? next_data(restore, restore->next) : restore->next;
}

/* Pass by what is zeros and is to be zeros. One gap at a time is enough. */
static int skip_zeros(struct restore *restore)
{
	u64 end, size = rd_round_up(restore->options->version.size, RD_BLOCK_SIZE);
	int r;

	if (restore->gap != U64_MAX || restore->options->mode == RD_RESTORE_STREAM ||
	    restore->options->mode == RD_RESTORE_FULL)
		return 0;
	r = next_row(restore, &end);
	if (r)
		return r;
	end = rd_min(restore->nr_segs, rd_min(end, next_kept(restore)));
	if (end <= restore->next)
		return 0;
	if (restore->options->mode == RD_RESTORE_DELTA)
		restore->report->bytes_same += rd_min(end << RD_SEG_SHIFT, size) -
			(restore->next << RD_SEG_SHIFT);
	restore->gap = restore->next;
	restore->gap_end = end;
	restore->next = end;
	return 0;
}

static void leave_gap(struct restore *restore)
{
	if (restore->out != restore->gap)
		return;
	restore->out = restore->gap_end;
	restore->gap = U64_MAX;
}

/* A piece that wanted nothing of the pool needs no check; one that did was busy since. */
static void skip_reading(struct piece *piece)
{
	if (piece->state != PIECE_READ || piece->busy)
		return;
	piece->fp = piece->want;
	piece->state = PIECE_CHECKED;
}

static int step_piece(struct restore *restore, struct piece *piece)
{
	int r = 0;

	if (piece->state == PIECE_COMPARE) {
		r = rd_restore_compare(restore, piece);
		return r ? r : rd_restore_read(restore);
	}
	if (piece->state != PIECE_CHECKED || piece->segment != restore->out)
		return 0;
	restore->out++;
	leave_gap(restore);
	if (piece->recipe && !rd_restore_is_good(restore, piece))
		r = rd_restore_try_again(restore, piece);
	if (r)
		return r;
	restore->is_unknown |= piece->is_unknown;
	if (piece->recipe && !piece->is_unknown)
		restore->sum += rd_fp_sum(restore->hasher, piece->segment, &piece->want);
	return rd_restore_write(piece);
}

static int step_all(struct restore *restore, bool *ret_any)
{
	unsigned int i;
	int r = 0;

	*ret_any = false;
	for (i = 0; i < NR_PIECES && !r; i++) {
		struct piece *piece = &restore->pieces[(restore->out + i) % NR_PIECES];
		enum piece_state before = piece->state;

		if (before == PIECE_FREE)
			continue;
		skip_reading(piece);
		r = step_piece(restore, piece);
		*ret_any |= piece->state != before;
	}
	return r;
}

static bool is_idle(const struct restore *restore)
{
	unsigned int i;

	for (i = 0; i < NR_PIECES; i++)
		if (restore->pieces[i].state != PIECE_FREE)
			return false;
	return true;
}

/* Where no piece can go on, something must be under way. */
static int wait_for_one(struct restore *restore)
{
	if (!rd_ring_busy(restore->ring) && !is_idle(restore))
		return rd_err(-EIO, "segment %llu was not read as a whole", restore->out);
	return rd_ring_wait(restore->ring);
}

static int run(struct restore *restore)
{
	bool any;
	int r = 0;

	while (!r && (restore->next < restore->nr_segs || !is_idle(restore))) {
		if (restore->next < restore->nr_segs && window_is_free(restore)) {
			r = skip_zeros(restore);
			leave_gap(restore);
		}
		if (!r && restore->next < restore->nr_segs && window_is_free(restore))
			r = begin_window(restore);
		if (!r)
			r = step_all(restore, &any);
		if (!r && !any)
			r = wait_for_one(restore);
		if (!r)
			r = restore->r;
		if (!r)
			r = rd_pool_progress(restore->pool, "restore", restore->out << RD_SEG_SHIFT,
					     restore->nr_segs << RD_SEG_SHIFT);
	}
	return r;
}

/* --- */

static int make_pieces(struct restore *restore)
{
	unsigned int i;

	restore->data = rd_alloc_direct(NR_PIECES * RD_SEG_SIZE);
	restore->gap_data = rd_alloc_direct(RD_RESTORE_GAP * RD_BLOCK_SIZE);
	restore->fps = malloc(NR_PIECES * RD_FPS_SIZE);
	restore->pieces = calloc(NR_PIECES, sizeof(*restore->pieces));
	if (!restore->data || !restore->gap_data || !restore->fps || !restore->pieces)
		return -ENOMEM;
	for (i = 0; i < NR_PIECES; i++) {
		struct piece *piece = &restore->pieces[i];

		piece->restore = restore;
		piece->data = restore->data + (size_t)i * RD_SEG_SIZE;
		piece->fps = restore->fps + (size_t)i * RD_SEG_BLOCKS;
	}
	return 0;
}

static int set_up(struct restore *restore)
{
	int r;

	restore->resolver = rd_resolver_new(restore->pool->sql);
	restore->hasher = rd_hasher_new();
	restore->blocks = rd_blocks_new(restore->pool);
	restore->wants = malloc(WINDOW * RD_SEG_BLOCKS * sizeof(*restore->wants));
	restore->packed_wants = malloc(WINDOW * RD_SEG_BLOCKS * sizeof(*restore->wants));
	if (!restore->resolver || !restore->hasher || !restore->blocks || !restore->wants ||
	    !restore->packed_wants)
		return -ENOMEM;
	r = make_pieces(restore);
	if (r)
		return r;
	r = rd_ring_new(&restore->ring, 64);
	if (!r && restore->options->store)
		r = rd_store_begin(restore->options->store, restore->ring);
	return r ? r : rd_workers_new(&restore->workers, restore->ring);
}

static void tear_down(struct restore *restore)
{
	if (restore->options->store)
		rd_store_end(restore->options->store);
	rd_workers_free(restore->workers);
	rd_ring_free(restore->ring);
	free(restore->pieces);
	free(restore->fps);
	free(restore->gap_data);
	free(restore->data);
	rd_restore_free_reads(restore);
	rd_restore_packs_free(restore);
	free(restore->packed_wants);
	free(restore->wants);
	rd_blocks_free(restore->blocks);
	rd_hasher_free(restore->hasher);
	rd_resolver_free(restore->resolver);
}

int rd_restore(struct rd_pool *pool, const struct rd_restore_options *options,
	       struct rd_restore_report *report)
{
	struct restore restore = {
		.pool = pool,
		.options = options,
		.report = report,
		.nr_segs = rd_nr_segs(options->version.size),
		.gap = U64_MAX,
	};
	int r;

	r = set_up(&restore);
	if (!r)
		r = run(&restore);
	if (!r && options->store)
		r = options->store->ops->sync(options->store);
	tear_down(&restore);
	if (!r && restore.is_unknown)
		rd_warn("the catalog has lost the recipes of some segments: it is not proven that all others belong to this version");
	else if (!r && restore.sum != options->version.sum)
		r = rd_version_disproved(pool, &options->version);
	return r;
}
