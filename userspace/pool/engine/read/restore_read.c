// SPDX-License-Identifier: GPL-2.0
/* What segments need of the pool: where it is, reading it, and whether it is good. */
#include <errno.h>

#include "base/sort.h"
#include "pool/catalog/segments.h"
#include "pool/data/blame.h"
#include "restore_pieces.h"

#define MAX_TRIES	5
#define MAX_IOVS	256

/*
 * A read of neighbours, which may be several pieces'. Small gaps between them are read as well, as
 * that takes less than another read: on a rotating disk a seek. All in all it reads no more of gaps
 * than of what is wanted.
 */
struct gather {
	struct restore *restore;
	struct rd_op op;
	unsigned int nr;
	unsigned int blocks;		/* that are wanted */
	unsigned int skipped;
	struct iovec iov[MAX_IOVS];
	struct iovec used[MAX_IOVS];	/* op uses its own up */
	struct piece *owner[MAX_IOVS];	/* NULL: a gap */
	struct gather *next;		/* that is spare */
	struct gather *made_before;
};

/* --- what to read */

static bool is_wanted(const struct piece *piece, unsigned int block)
{
	return rd_place_kind(piece->map.at[block]) == RD_OWN && piece->need[block];
}

int rd_restore_resolve(struct restore *restore, struct piece *piece)
{
	unsigned int i;

	if (piece->recipe)
		return rd_resolve(restore->resolver, piece->recipe, &piece->map, &piece->want);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		piece->map.at[i] = rd_place_make(RD_ZERO, 0, 0);
	return 0;
}

void rd_restore_read_ended(struct piece *piece, unsigned int blocks, int r)
{
	if (r && !piece->r)
		piece->r = r;
	piece->busy -= blocks;
	if (!piece->busy)
		rd_restore_hash(piece);
}

static void gather_done(struct rd_op *op, int r)
{
	struct gather *gather = op->ctx;
	struct restore *restore = gather->restore;
	unsigned int i;

	for (i = 0; i < gather->nr; i++)
		if (gather->owner[i])
			rd_restore_read_ended(gather->owner[i],
					      gather->iov[i].iov_len / RD_BLOCK_SIZE, r);
	gather->next = restore->spare;
	restore->spare = gather;
}

static struct gather *get_gather(struct restore *restore)
{
	struct gather *gather = restore->spare;

	if (gather) {
		restore->spare = gather->next;
	} else {
		gather = malloc(sizeof(*gather));
		if (!gather)
			return NULL;
		gather->made_before = restore->made;
		restore->made = gather;
	}
	gather->restore = restore;
	gather->nr = 0;
	gather->blocks = 0;
	gather->skipped = 0;
	return gather;
}

static void submit_gather(struct gather *gather, u64 offset)
{
	memcpy(gather->used, gather->iov, gather->nr * sizeof(*gather->iov));
	gather->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = gather->restore->pool->area.store,
		.offset = offset,
		.iov = gather->used,
		.nr_iov = gather->nr,
		.done = gather_done,
		.ctx = gather,
	};
	rd_ring_submit(gather->restore->ring, &gather->op);
}

static void add_to_gather(struct gather *gather, const struct want *want)
{
	u8 *to = want->piece->data + (size_t)want->block * RD_BLOCK_SIZE;
	struct iovec *last = gather->nr ? &gather->iov[gather->nr - 1] : NULL;

	gather->restore->report->bytes_read += RD_BLOCK_SIZE;
	gather->blocks++;
	/* Buffers of two segments are neighbours in memory, too. */
	if (last && gather->owner[gather->nr - 1] == want->piece &&
	    (u8 *)last->iov_base + last->iov_len == to) {
		last->iov_len += RD_BLOCK_SIZE;
		return;
	}
	gather->iov[gather->nr] = (struct iovec){ .iov_base = to, .iov_len = RD_BLOCK_SIZE };
	gather->owner[gather->nr++] = want->piece;
}

/* Read on to @want, if it is near. */
static bool reaches(struct gather *gather, u64 end, const struct want *want)
{
	u64 gap = (want->offset - end) / RD_BLOCK_SIZE;

	if (!gap)
		return gather->nr < MAX_IOVS;
	if (gap > RD_RESTORE_GAP || gather->skipped + gap > gather->blocks ||
	    gather->nr + 1 >= MAX_IOVS)
		return false;
	gather->iov[gather->nr] = (struct iovec){
		.iov_base = gather->restore->gap_data,
		.iov_len = gap * RD_BLOCK_SIZE,
	};
	gather->owner[gather->nr++] = NULL;
	gather->skipped += gap;
	return true;
}

/* Read restore->wants, in the order of their places. */
int rd_restore_read(struct restore *restore)
{
	struct gather *gather = NULL;
	u64 start = 0, end = 0;
	unsigned int i;

	rd_sort(restore->wants, restore->nr_wants, offset);
	for (i = 0; i < restore->nr_wants; i++) {
		const struct want *want = &restore->wants[i];

		if (gather && (end - start >= RD_SEG_SIZE || !reaches(gather, end, want))) {
			submit_gather(gather, start);
			gather = NULL;
		}
		if (!gather) {
			gather = get_gather(restore);
			if (!gather)
				return -ENOMEM;
			start = want->offset;
		}
		add_to_gather(gather, want);
		end = want->offset + RD_BLOCK_SIZE;
	}
	if (gather)
		submit_gather(gather, start);
	restore->nr_wants = 0;
	return rd_restore_read_packs(restore);
}

static void want_block(struct piece *piece, unsigned int block)
{
	struct restore *restore = piece->restore;
	struct want want = { .place = piece->map.at[block], .piece = piece, .block = block };

	piece->busy++;
	if (rd_frame_is_packed(rd_place_id(want.place))) {
		restore->packed_wants[restore->nr_packed_wants++] = want;
		return;
	}
	want.offset = rd_place_offset(want.place);
	restore->wants[restore->nr_wants++] = want;
}

void rd_restore_want(struct piece *piece)
{
	unsigned int i;

	piece->state = PIECE_READ;
	piece->r = 0;
	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		if (is_wanted(piece, i))
			want_block(piece, i);
		else if (rd_place_kind(piece->map.at[i]) == RD_ZERO)
			memset(piece->data + (size_t)i * RD_BLOCK_SIZE, 0, RD_BLOCK_SIZE);
	}
}

/* --- checking */

static void check(struct rd_job *job, struct rd_thread *thread)
{
	struct rd_hasher *hasher = thread->hasher;
	struct piece *piece = job->ctx;

	rd_fp_segment(hasher, piece->data, piece->len, piece->fps, &piece->fp);
}

static void checked(struct rd_job *job)
{
	struct piece *piece = job->ctx;

	piece->state = piece->state == PIECE_TARGET ? PIECE_COMPARE : PIECE_CHECKED;
}

void rd_restore_hash(struct piece *piece)
{
	if (piece->state == PIECE_READ)
		piece->state = PIECE_CHECK;
	piece->job = (struct rd_job){ .run = check, .done = checked, .ctx = piece };
	rd_workers_give(piece->restore->workers, &piece->job);
}

/*
 * Blocks of the pool that are not what they were; what was not read is not asked. *@ret_truth:
 * what all should be; zeros, where that is not proven.
 */
static bool find_bad(struct restore *restore, struct piece *piece,
		     struct rd_fp ret_truth[RD_SEG_BLOCKS])
{
	struct rd_fp stored[RD_SEG_BLOCKS], found[RD_SEG_BLOCKS];
	unsigned int i, nr = piece->len / RD_BLOCK_SIZE;
	struct rd_blame blame;
	bool any = false;

	memset(ret_truth, 0, RD_FPS_SIZE);

	rd_read_map_fps(&restore->pool->area, &piece->map, stored);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		found[i] = i < nr && is_wanted(piece, i) ? piece->fps[i] : stored[i];
	if (rd_blame(restore->hasher, &piece->map, &piece->want, stored, found, &blame))
		memcpy(ret_truth, blame.truth, RD_FPS_SIZE);
	else if (rd_area_can(&restore->pool->area, RD_STORE_FENCED))
		rd_blame_all(&piece->map, &blame);
	for (i = 0; i < nr; i++) {
		piece->bad[i] = is_wanted(piece, i) && blame.bad[i] & RD_BAD_CONTENT;
		any |= piece->bad[i];
	}
	return any;
}

bool rd_restore_is_good(struct restore *restore, struct piece *piece)
{
	struct rd_fp truth[RD_SEG_BLOCKS];

	if (!piece->recipe)
		return true;
	if (!piece->r && rd_seg_fp_equal(&piece->fp, &piece->want))
		return true;
	/* Of a delta not all is here. */
	if (restore->options->mode != RD_RESTORE_DELTA)
		return false;
	return !find_bad(restore, piece, truth) && !piece->r;
}

static int note_bad(struct restore *restore, const struct piece *piece)
{
	struct rd_buffer *list = &restore->report->bad;
	struct rd_bad_range range;
	unsigned int i;

	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		u64 offset = piece_offset(piece) + (u64)i * RD_BLOCK_SIZE;
		struct rd_bad_range *last;

		if (!piece->bad[i])
			continue;
		last = list->len ? (struct rd_bad_range *)(list->data + list->len) - 1 : NULL;
		if (last && last->offset + last->len == offset) {
			last->len += RD_BLOCK_SIZE;
			continue;
		}
		range = (struct rd_bad_range){ .offset = offset, .len = RD_BLOCK_SIZE };
		rd_buffer_put(list, &range, sizeof(range));
	}
	return list->failed ? -ENOMEM : 0;
}

/* What cannot be read is zeros, and spoils no other block. */
static int read_alone(struct restore *restore, struct piece *piece)
{
	rd_place places[RD_SEG_BLOCKS];
	unsigned int i, nr = piece->len / RD_BLOCK_SIZE;
	int r;

	for (i = 0; i < nr; i++)
		places[i] = is_wanted(piece, i) ? piece->map.at[i] : 0;
	memset(piece->data, 0, piece->len);
	rd_blocks_forget(restore->blocks);
	r = rd_blocks_read_all(restore->blocks, places, nr, piece->data);
	if (r < 0)
		return r;
	piece->r = 0;
	rd_fp_segment(restore->hasher, piece->data, piece->len, piece->fps, &piece->fp);
	return 0;
}

static int copies_step(void *ctx, u32 i)
{
	struct restore *restore = ctx;

	return rd_pool_progress(restore->pool, "search copies", (u64)i * RD_FPS_SIZE,
				(u64)restore->copies.nr_frames * RD_FPS_SIZE);
}

/* What is wrong with them is told once. */
static bool open_copies(struct restore *restore)
{
	const struct rd_pool *pool = restore->pool;

	if (!restore->looked_for_copies)
		restore->has_copies = !rd_copies_open(&restore->copies, pool->path,
						      pool->area.super.uuid, false);
	restore->looked_for_copies = true;
	restore->copies.step = copies_step;
	restore->copies.ctx = restore;
	return restore->has_copies;
}

/*
 * Take what is bad from the copies on another disk, as far as they have it. Whoever only checks
 * is told of the damage.
 */
static int take_copies(struct restore *restore, struct piece *piece,
		       const struct rd_fp truth[RD_SEG_BLOCKS])
{
	int r;

	if (restore->options->mode == RD_RESTORE_NONE || rd_is_zero(truth, RD_FPS_SIZE) ||
	    !open_copies(restore))
		return 0;
	r = rd_copies_find(&restore->copies, &piece->map, truth, piece->bad, piece->data);
	if (r < 0)
		return r;
	restore->report->blocks_copied += r;
	return 0;
}

static int resolve_again(struct restore *restore, struct piece *piece)
{
	int r = rd_sql_begin_read(restore->pool->sql);

	if (r)
		return r;
	rd_resolver_forget(restore->resolver);
	r = rd_segments_read(restore->pool->sql, restore->options->version.volume,
			     restore->options->version.number, piece->segment, 1, &piece->recipe);
	if (!r)
		r = rd_restore_resolve(restore, piece);
	rd_sql_end_read(restore->pool->sql);
	return r;
}

/* It was not what it should be: look whether it has moved. */
int rd_restore_try_again(struct restore *restore, struct piece *piece)
{
	struct rd_fp truth[RD_SEG_BLOCKS];
	struct rd_map before;
	unsigned int tries;
	bool any = false;
	int r;

	for (tries = 0; tries < MAX_TRIES; tries++) {
		before = piece->map;
		r = resolve_again(restore, piece);
		/*
		 * Nothing moved while the blocks, and the fingerprints beside them, were read. They
		 * are read twice, because no map tells where a pack is.
		 */
		if (r || (tries > 1 && !memcmp(&before, &piece->map, sizeof(before))))
			break;
		r = read_alone(restore, piece);
		if (r)
			return r;
		if (rd_restore_is_good(restore, piece)) {
			/* What looked bad was elsewhere. */
			memset(piece->bad, 0, sizeof(piece->bad));
			return 0;
		}
		any = find_bad(restore, piece, truth);
	}
	if (r && r != -EUCLEAN && r != -ENOENT)
		return r;
	piece->is_unknown = r;
	if (r)
		/* Where its blocks are is not known: all of them are lost. */
		memset(piece->bad, 1, sizeof(piece->bad));
	else if (any)
		r = take_copies(restore, piece, truth);
	return r == -EINTR ? r : note_bad(restore, piece);
}

void rd_restore_free_reads(struct restore *restore)
{
	struct gather *gather;

	/* Also those whose reads were not waited for, as something had failed. */
	while (restore->made) {
		gather = restore->made;
		restore->made = gather->made_before;
		free(gather);
	}
	if (restore->has_copies)
		rd_copies_close(&restore->copies);
}
