// SPDX-License-Identifier: GPL-2.0
/* The target of a restore: what it has, and what it gets. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "restore_pieces.h"

/* --- writing */

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

	piece->ops[nr] = (struct rd_op){
		.kind = RD_OP_WRITE,
		.store = piece->restore->options->store,
		.fd = piece->restore->options->fd,
		.offset = piece_offset(piece) + (u64)first * RD_BLOCK_SIZE,
		.own = { piece->data + (size_t)first * RD_BLOCK_SIZE, len },
		.done = wrote,
		.ctx = piece,
	};
	piece->restore->report->bytes_written += len;
	rd_ring_submit(piece->restore->ring, &piece->ops[nr]);
}

/* Of what is bad, the map may be of another segment. */
static bool should_punch(const struct piece *piece, unsigned int i)
{
	return !piece->bad[i] && piece->need[i] && rd_place_kind(piece->map.at[i]) == RD_ZERO;
}

/* What a file is to have as zeros it had better not have at all. */
static int punch_zeros(struct piece *piece)
{
	const struct rd_restore_options *options = piece->restore->options;
	unsigned int i, first, nr = piece->len / RD_BLOCK_SIZE;

	for (i = 0; i < nr; i++) {
		if (!should_punch(piece, i))
			continue;
		for (first = i; i < nr && should_punch(piece, i); i++)
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

int rd_restore_write(struct piece *piece)
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
	rd_restore_hash(piece);
}

void rd_restore_read_target(struct piece *piece)
{
	piece->state = PIECE_TARGET;
	piece->op = (struct rd_op){
		.kind = RD_OP_READ,
		.store = piece->restore->options->store,
		.fd = piece->restore->options->fd,
		.offset = piece_offset(piece),
		.own = { piece->data, piece->len },
		.done = target_read,
		.ctx = piece,
	};
	rd_ring_submit(piece->restore->ring, &piece->op);
}

int rd_restore_compare(struct restore *restore, struct piece *piece)
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
	rd_restore_want(piece);
	return 0;
}
