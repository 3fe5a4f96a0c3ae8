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
 * the pool keeps beside its blocks. Long stretches that are zeros in the version and
 * that a file has as a hole, or is new and has not at all, are passed by.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/direct.h"
#include "base/log.h"
#include "pool/data/blame.h"
#include "pool/data/ring.h"
#include "pool/data/workers.h"
#include "proof.h"
#include "resolve.h"
#include "restore.h"

#define WINDOW		4
#define NR_PIECES	(8 * WINDOW)
#define MAX_TRIES	5
#define MAX_IOVS	256

enum piece_state {
	PIECE_FREE,
	PIECE_TARGET,		/* the target is read and fingerprinted */
	PIECE_COMPARE,		/* that is done */
	PIECE_READ,		/* the pool is read */
	PIECE_CHECK,
	PIECE_CHECKED,
	PIECE_WRITE,
};

struct restore;

/* A segment on its way. */
struct piece {
	struct restore *restore;
	enum piece_state state;
	u64 segment;
	i64 recipe;
	size_t len;			/* of it, whole blocks */
	struct rd_map map;		/* resolved */
	struct rd_seg_fp want;
	u8 *data;
	struct rd_fp *fps;		/* of what is in data */
	bool need[RD_SEG_BLOCKS];	/* to be written */
	bool bad[RD_SEG_BLOCKS];
	bool is_unknown;		/* what it should be */
	struct rd_seg_fp fp;
	unsigned int busy;		/* reads or writes that have not ended */
	int r;				/* of the reads */
	struct rd_job job;
	struct rd_op op;		/* on the target */
	struct iovec iov;
	struct rd_op ops[RD_SEG_BLOCKS];	/* writes; or reads, alone */
	struct iovec iovs[RD_SEG_BLOCKS];
};

/* A read of neighbours, which may be several pieces'. */
struct gather {
	struct restore *restore;
	struct rd_op op;
	unsigned int nr;
	struct iovec iov[MAX_IOVS];
	struct iovec used[MAX_IOVS];	/* op uses its own up */
	struct piece *owner[MAX_IOVS];
	struct gather *next;
};

struct want {
	u64 offset;
	struct piece *piece;
	unsigned int block;
};

struct restore {
	struct rd_pool *pool;
	const struct rd_restore_options *options;
	struct rd_restore_report *report;
	struct rd_ring *ring;
	struct rd_workers *workers;
	struct rd_resolver *resolver;
	struct rd_hasher *hasher;
	int r;
	u64 nr_segs;
	u64 next;			/* segment to begin with */
	u64 out;			/* segment that the target gets next */
	u64 gap, gap_end;		/* when it comes to the gap, what follows is next */
	u64 row, row_end;		/* no rows of the catalog between these segments */
	u64 hole, hole_end;		/* and no data in the target */
	u8 *data;			/* a segment for each piece */
	struct rd_fp *fps;		/* and its blocks' fingerprints */
	struct piece *pieces;		/* segment % NR_PIECES; large, and mostly unused */
	struct want *wants;
	unsigned int nr_wants;
	struct gather *spare;
	rd_sum sum;			/* of what it has come from, see proof.h */
	bool is_unknown;		/* of some of it that is not known */
};

static u64 piece_offset(const struct piece *piece)
{
	return piece->segment << RD_SEG_SHIFT;
}

/* --- what to read */

static bool is_wanted(const struct piece *piece, unsigned int block)
{
	return rd_place_kind(piece->map.at[block]) == RD_OWN && piece->need[block];
}

static int resolve_piece(struct restore *restore, struct piece *piece)
{
	unsigned int i;

	if (piece->recipe)
		return rd_resolve(restore->resolver, piece->recipe, &piece->map, &piece->want);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		piece->map.at[i] = rd_place_make(RD_ZERO, 0, 0);
	return 0;
}

static void start_check(struct piece *piece);

static void read_ended(struct piece *piece, int r)
{
	if (r && !piece->r)
		piece->r = r;
	if (!--piece->busy)
		start_check(piece);
}

static void gather_done(struct rd_op *op, int r)
{
	struct gather *gather = op->ctx;
	struct restore *restore = gather->restore;
	unsigned int i;

	for (i = 0; i < gather->nr; i++)
		read_ended(gather->owner[i], r);
	gather->next = restore->spare;
	restore->spare = gather;
}

static struct gather *get_gather(struct restore *restore)
{
	struct gather *gather = restore->spare;

	if (gather)
		restore->spare = gather->next;
	else
		gather = malloc(sizeof(*gather));
	if (!gather)
		return NULL;
	gather->restore = restore;
	gather->nr = 0;
	return gather;
}

static void submit_gather(struct gather *gather, u64 offset)
{
	memcpy(gather->used, gather->iov, gather->nr * sizeof(*gather->iov));
	gather->op = (struct rd_op){
		.kind = RD_OP_READ,
		.fd = gather->restore->pool->area.fd,
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
	if (last && (u8 *)last->iov_base + last->iov_len == to) {
		last->iov_len += RD_BLOCK_SIZE;
		return;
	}
	gather->iov[gather->nr] = (struct iovec){ .iov_base = to, .iov_len = RD_BLOCK_SIZE };
	gather->owner[gather->nr++] = want->piece;
	want->piece->busy++;
}

static int compare_wants(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Read restore->wants, in the order of their places. */
static int read_wants(struct restore *restore)
{
	struct gather *gather = NULL;
	u64 start = 0, end = 0;
	unsigned int i;

	qsort(restore->wants, restore->nr_wants, sizeof(*restore->wants), compare_wants);
	for (i = 0; i < restore->nr_wants; i++) {
		const struct want *want = &restore->wants[i];

		if (gather && (want->offset != end || gather->nr == MAX_IOVS ||
			       end - start >= RD_SEG_SIZE)) {
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
	return 0;
}

static void want_piece(struct piece *piece)
{
	struct restore *restore = piece->restore;
	unsigned int i;

	piece->state = PIECE_READ;
	piece->r = 0;
	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		if (is_wanted(piece, i))
			restore->wants[restore->nr_wants++] = (struct want){
				.offset = rd_place_offset(piece->map.at[i]),
				.piece = piece,
				.block = i,
			};
		else if (rd_place_kind(piece->map.at[i]) == RD_ZERO)
			memset(piece->data + (size_t)i * RD_BLOCK_SIZE, 0, RD_BLOCK_SIZE);
	}
}

/* --- checking */

static void check(struct rd_job *job, struct rd_hasher *hasher)
{
	struct piece *piece = job->ctx;

	rd_fp_segment(hasher, piece->data, piece->len, piece->fps, &piece->fp);
}

static void checked(struct rd_job *job)
{
	struct piece *piece = job->ctx;

	piece->state = piece->state == PIECE_TARGET ? PIECE_COMPARE : PIECE_CHECKED;
}

static void start_check(struct piece *piece)
{
	if (piece->state == PIECE_READ)
		piece->state = PIECE_CHECK;
	piece->job = (struct rd_job){ .run = check, .done = checked, .ctx = piece };
	rd_workers_give(piece->restore->workers, &piece->job);
}

/* Blocks of the pool that are not what they were; what was not read is not asked. */
static bool find_bad(struct restore *restore, struct piece *piece)
{
	struct rd_fp stored[RD_SEG_BLOCKS], found[RD_SEG_BLOCKS];
	unsigned int i, nr = piece->len / RD_BLOCK_SIZE;
	struct rd_blame blame;
	bool any = false;

	rd_read_map_fps(&restore->pool->area, &piece->map, stored);
	for (i = 0; i < RD_SEG_BLOCKS; i++)
		found[i] = i < nr && is_wanted(piece, i) ? piece->fps[i] : stored[i];
	rd_blame(restore->hasher, &piece->map, &piece->want, stored, found, &blame);
	for (i = 0; i < nr; i++) {
		piece->bad[i] = is_wanted(piece, i) && blame.bad[i] & RD_BAD_CONTENT;
		any |= piece->bad[i];
	}
	return any;
}

static bool is_good(struct restore *restore, struct piece *piece)
{
	if (!piece->recipe)
		return true;
	if (!piece->r && rd_seg_fp_equal(&piece->fp, &piece->want))
		return true;
	/* Of a delta not all is here. */
	if (restore->options->mode != RD_RESTORE_DELTA)
		return false;
	return !find_bad(restore, piece) && !piece->r;
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

/* Block by block, so that one that cannot be read spoils no other. */
static void read_alone(struct restore *restore, struct piece *piece)
{
	unsigned int i;
	int r;

	piece->r = 0;
	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		u8 *to = piece->data + (size_t)i * RD_BLOCK_SIZE;

		memset(to, 0, RD_BLOCK_SIZE);
		if (!is_wanted(piece, i))
			continue;
		r = rd_area_read(&restore->pool->area, to, RD_BLOCK_SIZE,
				 rd_place_offset(piece->map.at[i]));
		if (r)
			memset(to, 0, RD_BLOCK_SIZE);
	}
	rd_fp_segment(restore->hasher, piece->data, piece->len, piece->fps, &piece->fp);
}

/* It was not what it should be: look whether it has moved. */
static int try_again(struct restore *restore, struct piece *piece)
{
	struct rd_map before;
	unsigned int tries;
	int r;

	for (tries = 0; tries < MAX_TRIES; tries++) {
		before = piece->map;
		r = rd_sql_begin_read(restore->pool->sql);
		if (r)
			return r;
		rd_resolver_forget(restore->resolver);
		r = rd_segments_read(restore->pool->sql, restore->options->version.volume,
				     restore->options->version.number, piece->segment, 1,
				     &piece->recipe);
		if (!r)
			r = resolve_piece(restore, piece);
		rd_sql_end_read(restore->pool->sql);
		if (r)
			break;
		read_alone(restore, piece);
		if (is_good(restore, piece)) {
			/* What looked bad was elsewhere. */
			memset(piece->bad, 0, sizeof(piece->bad));
			return 0;
		}
		if (tries && !memcmp(&before, &piece->map, sizeof(before)))
			break;
	}
	if (r && r != -EUCLEAN && r != -ENOENT)
		return r;
	piece->is_unknown = r;
	if (r)
		/* Where its blocks are is not known: all of them are lost. */
		memset(piece->bad, 1, sizeof(piece->bad));
	else
		find_bad(restore, piece);
	return note_bad(restore, piece);
}

/* --- the target */

static void wrote(struct rd_op *op, int r)
{
	struct piece *piece = op->ctx;
	struct restore *restore = piece->restore;

	if (r && !restore->r)
		restore->r = rd_err(r, "cannot write to the target");
	if (!--piece->busy)
		piece->state = PIECE_FREE;
}

static bool should_write(const struct piece *piece, unsigned int i)
{
	if (piece->bad[i])
		return false;
	if (piece->restore->options->mode == RD_RESTORE_NEW)
		return rd_place_kind(piece->map.at[i]) != RD_ZERO;
	return piece->need[i];
}

/* A file of any size gets whole blocks, and is cut in the end; a device cannot. */
static size_t write_len(const struct piece *piece, unsigned int first, unsigned int end)
{
	u64 offset = piece_offset(piece) + (u64)first * RD_BLOCK_SIZE;
	u64 len = (u64)(end - first) * RD_BLOCK_SIZE;

	if (piece->restore->options->is_device)
		len = rd_min(len, piece->restore->options->version.size - offset);
	return len;
}

static void write_run(struct piece *piece, unsigned int first, unsigned int end)
{
	size_t len = write_len(piece, first, end);
	unsigned int nr = piece->busy++;

	piece->iovs[nr] = (struct iovec){
		.iov_base = piece->data + (size_t)first * RD_BLOCK_SIZE,
		.iov_len = len,
	};
	piece->ops[nr] = (struct rd_op){
		.kind = RD_OP_WRITE,
		.fd = piece->restore->options->fd,
		.offset = piece_offset(piece) + (u64)first * RD_BLOCK_SIZE,
		.iov = &piece->iovs[nr],
		.nr_iov = 1,
		.done = wrote,
		.ctx = piece,
	};
	piece->restore->report->bytes_written += len;
	rd_ring_submit(piece->restore->ring, &piece->ops[nr]);
}

/* What a file is to have as zeros it had better not have at all. */
static int punch_zeros(struct piece *piece)
{
	const struct rd_restore_options *options = piece->restore->options;
	unsigned int i, first;

	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		if (!piece->need[i] || rd_place_kind(piece->map.at[i]) != RD_ZERO)
			continue;
		for (first = i; i < piece->len / RD_BLOCK_SIZE && piece->need[i] &&
		     rd_place_kind(piece->map.at[i]) == RD_ZERO; i++)
			piece->need[i] = false;
		if (fallocate(options->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      piece_offset(piece) + (u64)first * RD_BLOCK_SIZE,
			      (u64)(i - first) * RD_BLOCK_SIZE)) {
			/* Then they are written. */
			while (first < i)
				piece->need[first++] = true;
			return 0;
		}
	}
	return 0;
}

static int write_stream(struct piece *piece)
{
	const struct rd_restore_options *options = piece->restore->options;
	size_t len = rd_min(options->version.size - piece_offset(piece), RD_SEG_SIZE), have = 0;
	unsigned int i;

	for (i = 0; i < RD_SEG_BLOCKS; i++)
		if (piece->bad[i])
			memset(piece->data + (size_t)i * RD_BLOCK_SIZE, 0, RD_BLOCK_SIZE);
	while (have < len) {
		ssize_t r = write(options->fd, piece->data + have, len - have);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return rd_err(-errno, "cannot write to the output");
		have += r;
	}
	piece->restore->report->bytes_written += len;
	piece->state = PIECE_FREE;
	return 0;
}

static int write_piece(struct piece *piece)
{
	enum rd_restore_mode mode = piece->restore->options->mode;
	unsigned int i, first, nr = piece->len / RD_BLOCK_SIZE;

	if (mode == RD_RESTORE_STREAM)
		return write_stream(piece);
	piece->state = PIECE_WRITE;
	if (mode == RD_RESTORE_DELTA && !piece->restore->options->is_device)
		punch_zeros(piece);
	piece->busy = 0;
	for (i = 0; mode != RD_RESTORE_NONE && i < nr; i++) {
		if (!should_write(piece, i))
			continue;
		first = i;
		while (i < nr && should_write(piece, i))
			i++;
		write_run(piece, first, i);
	}
	if (!piece->busy)
		piece->state = PIECE_FREE;
	return 0;
}

/* --- delta: what the target has */

static void target_read(struct rd_op *op, int r)
{
	struct piece *piece = op->ctx;

	if (r && !piece->restore->r)
		piece->restore->r = rd_err(r, "cannot read the target");
	start_check(piece);
}

static void read_target(struct piece *piece)
{
	piece->state = PIECE_TARGET;
	piece->iov = (struct iovec){ .iov_base = piece->data, .iov_len = piece->len };
	piece->op = (struct rd_op){
		.kind = RD_OP_READ,
		.fd = piece->restore->options->fd,
		.offset = piece_offset(piece),
		.iov = &piece->iov,
		.nr_iov = 1,
		.done = target_read,
		.ctx = piece,
	};
	rd_ring_submit(piece->restore->ring, &piece->op);
}

static int compare_target(struct restore *restore, struct piece *piece)
{
	struct rd_fp fps[RD_SEG_BLOCKS];
	unsigned int i;

	rd_read_map_fps(&restore->pool->area, &piece->map, fps);
	for (i = 0; i < piece->len / RD_BLOCK_SIZE; i++) {
		piece->need[i] = !rd_fp_equal(&fps[i], &piece->fps[i]);
		if (!piece->need[i])
			restore->report->bytes_same += RD_BLOCK_SIZE;
	}
	/* Where the fingerprints are not what the recipe says, trust none. */
	if (piece->recipe && !rd_fps_are_of(restore->hasher, fps, &piece->want))
		memset(piece->need, 1, sizeof(piece->need));
	want_piece(piece);
	return 0;
}

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
	r = resolve_piece(restore, piece);
	if (r == -EUCLEAN || r == -ENOENT) {
		/* It will be found to be damaged. */
		piece->r = -EUCLEAN;
		piece->state = PIECE_CHECKED;
		return 0;
	}
	if (r)
		return r;
	if (restore->options->mode == RD_RESTORE_DELTA) {
		read_target(piece);
	} else {
		/* Zeros need no checking, and a target that has them nothing at all. */
		if (recipe || needs_zeros(restore))
			want_piece(piece);
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
	return r ? r : read_wants(restore);
}

/* The first segment from restore->next on that a version of the volume says something of. */
static int next_row(struct restore *restore, u64 *ret)
{
	u64 from = restore->next;
	i64 segment;
	int r;

	if (from < restore->row || from >= restore->row_end) {
		r = rd_sql_number(restore->pool->sql, &segment, "SELECT segment FROM segment"
				  " WHERE volume = ? AND segment >= ? ORDER BY segment LIMIT 1",
				  "ii", restore->options->version.volume, (i64)from);
		if (r && r != -ENOENT)
			return r;
		restore->row = from;
		restore->row_end = r ? U64_MAX : (u64)segment;
	}
	*ret = restore->row_end;
	return 0;
}

/* The first one that the target has data in; what cannot say so has data everywhere. */
static u64 next_data(struct restore *restore)
{
	u64 from = restore->next;
	off_t data;

	if (restore->options->mode != RD_RESTORE_DELTA)
		return U64_MAX;
	if (restore->options->is_device)
		return from;
	if (from < restore->hole || from >= restore->hole_end) {
		data = lseek(restore->options->fd, from << RD_SEG_SHIFT, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return from;
		restore->hole = from;
		restore->hole_end = data < 0 ? U64_MAX : (u64)data >> RD_SEG_SHIFT;
	}
	return restore->hole_end;
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
	end = rd_min(restore->nr_segs, rd_min(end, next_data(restore)));
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

/* What did not have to be read from the pool need not be checked. */
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
		r = compare_target(restore, piece);
		return r ? r : read_wants(restore);
	}
	if (piece->state != PIECE_CHECKED || piece->segment != restore->out)
		return 0;
	restore->out++;
	leave_gap(restore);
	if (piece->recipe && !is_good(restore, piece))
		r = try_again(restore, piece);
	if (r)
		return r;
	restore->is_unknown |= piece->is_unknown;
	if (piece->recipe && !piece->is_unknown)
		restore->sum += rd_fp_sum(restore->hasher, piece->segment, &piece->want);
	return write_piece(piece);
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
			r = rd_ring_wait(restore->ring);
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
	restore->fps = malloc(NR_PIECES * RD_FPS_SIZE);
	restore->pieces = calloc(NR_PIECES, sizeof(*restore->pieces));
	if (!restore->data || !restore->fps || !restore->pieces)
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
	restore->wants = malloc(WINDOW * RD_SEG_BLOCKS * sizeof(*restore->wants));
	if (!restore->resolver || !restore->hasher || !restore->wants)
		return -ENOMEM;
	r = make_pieces(restore);
	if (r)
		return r;
	r = rd_ring_new(&restore->ring, 64);
	return r ? r : rd_workers_new(&restore->workers, restore->ring);
}

static void tear_down(struct restore *restore)
{
	struct gather *gather;

	rd_workers_free(restore->workers);
	rd_ring_free(restore->ring);
	free(restore->pieces);
	free(restore->fps);
	free(restore->data);
	while (restore->spare) {
		gather = restore->spare;
		restore->spare = gather->next;
		free(gather);
	}
	free(restore->wants);
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
	tear_down(&restore);
	if (!r && restore.is_unknown)
		rd_warn("the catalog has lost what some segments are: that all others are of this version is not proven");
	else if (!r && restore.sum != options->version.sum)
		r = rd_version_disproved(pool, &options->version);
	return r;
}
