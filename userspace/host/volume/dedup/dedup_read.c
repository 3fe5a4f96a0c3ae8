// SPDX-License-Identifier: GPL-2.0
/* Read a volume and its pool side by side; see dedup_read.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/direct.h"
#include "base/log.h"
#include "meta/pack_read.h"
#include "pool/data/ring.h"
#include "dedup_read.h"

#define MAX_PIECES	2
#define DEPTH		64
#define MAX_BLOCKS	(RD_DEDUP_READ / RD_BLOCK_SIZE)

struct read {
	struct rd_op op;
	struct iovec iov;
	struct in_flight *piece;
};

struct in_flight {
	struct rd_dedup_piece piece;
	const struct rd_dedup_run *run;
	u8 *live, *pool;
	/* The volume, then each run of blocks that lie in a row in the pool. */
	struct read reads[1 + MAX_BLOCKS];
	unsigned int nr_reads;
	unsigned int nr_busy;
	int r;				/* the first error */
};

struct rd_dedup_reader {
	struct rd_ring *ring;		/* NULL: a read has ended when it is submitted */
	struct rd_pack_reader *packs;	/* by which a read has always ended */
	struct rd_pack_want wants[MAX_BLOCKS];
	struct in_flight pieces[MAX_PIECES];
	unsigned int first, nr;		/* pieces that were started and not waited for */
};

int rd_dedup_reader_new(struct rd_dedup_reader **ret, const struct rd_dedup_run *run)
{
	struct rd_dedup_reader *reader = calloc(1, sizeof(*reader));
	unsigned int i;
	bool has_all;

	if (!reader)
		return -ENOMEM;
	has_all = !rd_dedup_reads_ahead(run) || !rd_ring_new(&reader->ring, DEPTH);
	if (!rd_dedup_is_zeros(run)) {
		reader->packs = rd_pack_reader_new(run->pool_fd, run->source.nr_places,
						   run->pool->area.super.uuid);
		has_all = has_all && reader->packs;
	}
	for (i = 0; i < MAX_PIECES; i++) {
		struct in_flight *piece = &reader->pieces[i];

		piece->run = run;
		piece->live = rd_alloc_direct(RD_DEDUP_READ);
		piece->pool = rd_alloc_direct(RD_DEDUP_READ);
		has_all = has_all && piece->live && piece->pool;
	}
	if (!has_all) {
		rd_dedup_reader_free(reader);
		return -ENOMEM;
	}
	*ret = reader;
	return 0;
}

void rd_dedup_reader_free(struct rd_dedup_reader *reader)
{
	unsigned int i;

	if (!reader)
		return;
	/* First, as it waits for what is still read. */
	if (reader->ring)
		rd_ring_free(reader->ring);
	rd_pack_reader_free(reader->packs);
	for (i = 0; i < MAX_PIECES; i++) {
		free(reader->pieces[i].live);
		free(reader->pieces[i].pool);
	}
	free(reader);
}

bool rd_dedup_reader_has_room(const struct rd_dedup_reader *reader)
{
	return reader->nr < MAX_PIECES;
}

/* --- starting */

static int say(const struct read *read, int r)
{
	const struct rd_dedup_run *run = read->piece->run;
	u64 offset = read->op.offset;

	if (read->op.fd == run->fd)
		return rd_err(r, "cannot read '%s' at offset %llu", run->at->device, offset);
	return rd_err(r, "cannot read the pool '%s' at offset %llu", run->pool->path, offset);
}

static void done(struct rd_op *op, int r)
{
	struct read *read = op->ctx;

	read->piece->nr_busy--;
	if (r && !read->piece->r)
		read->piece->r = say(read, r);
}

static void submit(struct rd_dedup_reader *reader, struct in_flight *piece, int fd, u8 *to,
		   u64 nr, u64 block)
{
	struct read *read = &piece->reads[piece->nr_reads++];

	read->piece = piece;
	read->iov = (struct iovec){ .iov_base = to, .iov_len = nr * RD_BLOCK_SIZE };
	read->op = (struct rd_op){
		.kind = RD_OP_READ,
		.fd = fd,
		.offset = block * RD_BLOCK_SIZE,
		.iov = &read->iov,
		.nr_iov = 1,
		.done = done,
		.ctx = read,
	};
	piece->nr_busy++;
	if (reader->ring)
		rd_ring_submit(reader->ring, &read->op);
	else
		done(&read->op, rd_read_direct(fd, to, read->iov.iov_len, read->op.offset));
}

/* How many blocks from @at on are in a row in the pool? 0: this one is no block of it. */
static u64 count_row(const struct rd_dedup_piece *piece, u64 at)
{
	const struct dmr_entry *first = piece->places + at;
	u64 nr = 0;

	if (first->kind != DMR_POOL)
		return 0;
	while (at + nr < piece->nr && dmr_entry_goes_on(*first, nr, first[nr]))
		nr++;
	return nr;
}

/* How many blocks from @at on are in one pack, in the order of its slots? */
static u64 count_packed(const struct rd_dedup_piece *piece, u64 at)
{
	const struct dmr_entry *first = piece->places + at;
	u64 nr = 0;

	while (at + nr < piece->nr && first[nr].kind == DMR_PACK &&
	       dmr_entry_pool_block(first[nr]) == dmr_entry_pool_block(*first) &&
	       (!nr || first[nr].block > first[nr - 1].block))
		nr++;
	return nr;
}

/* Read what the target would: what is damaged is found here, and not by a guest. */
static void read_packed(struct rd_dedup_reader *reader, struct in_flight *piece, u64 at, u64 nr)
{
	const struct dmr_entry *places = piece->piece.places + at;
	u64 i;
	int r;

	for (i = 0; i < nr; i++)
		reader->wants[i] = (struct rd_pack_want){
			.head = dmr_entry_pool_block(places[i]),
			.slot = dmr_entry_slot(places[i]),
			.to = piece->pool + (at + i) * RD_BLOCK_SIZE,
		};
	r = rd_pack_read(reader->packs, reader->wants, nr);
	if (!r || piece->r)
		return;
	piece->r = r == -EBADMSG ? -EUCLEAN : r;
	rd_err(r == -EBADMSG ? 0 : r, "cannot read the pool '%s': %s", piece->run->pool->path,
	       rd_pack_read_what(reader->packs));
	if (r == -EBADMSG)
		rd_remedy(RD_REMEDY_SCRUB, NULL, "nothing more of this volume was given back");
}

static void submit_pool(struct rd_dedup_reader *reader, struct in_flight *piece)
{
	u64 at, nr;

	for (at = 0; at < piece->piece.nr; at += nr) {
		u8 *to = piece->pool + at * RD_BLOCK_SIZE;

		nr = count_packed(&piece->piece, at);
		if (nr) {
			read_packed(reader, piece, at, nr);
			continue;
		}
		nr = count_row(&piece->piece, at);
		if (nr) {
			submit(reader, piece, piece->run->pool_fd, to, nr,
			       piece->piece.places[at].block);
			continue;
		}
		nr = 1;
	}
}

void rd_dedup_reader_start(struct rd_dedup_reader *reader, u64 first, u64 nr,
			   const struct dmr_entry *places)
{
	struct in_flight *piece = &reader->pieces[(reader->first + reader->nr++) % MAX_PIECES];

	piece->piece = (struct rd_dedup_piece){
		.first = first,
		.nr = nr,
		.places = places,
		.live = piece->live,
		.pool = piece->pool,
	};
	piece->nr_reads = 0;
	piece->r = 0;
	submit(reader, piece, piece->run->fd, piece->live, nr, first);
	submit_pool(reader, piece);
}

/* --- waiting */

int rd_dedup_reader_wait(struct rd_dedup_reader *reader, const struct rd_dedup_piece **ret)
{
	struct in_flight *piece = &reader->pieces[reader->first];
	int r = 0;

	*ret = NULL;
	if (!reader->nr)
		return 0;
	while (piece->nr_busy && !r)
		r = rd_ring_wait(reader->ring);
	if (r)
		return rd_err(r, "cannot wait for what is read of '%s'", piece->run->at->device);
	reader->first = (reader->first + 1) % MAX_PIECES;
	reader->nr--;
	*ret = &piece->piece;
	return piece->r;
}

void rd_dedup_reader_drain(struct rd_dedup_reader *reader)
{
	while (reader->ring && rd_ring_busy(reader->ring) && !rd_ring_wait(reader->ring))
		;
	reader->nr = 0;
}
