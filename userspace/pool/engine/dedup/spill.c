// SPDX-License-Identifier: GPL-2.0
/* Records in a file without a name: see spill.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/direct.h"
#include "base/inject.h"
#include "base/log.h"
#include "base/pace.h"
#include "base/remedy.h"
#include "pool/data/ring.h"
#include "spill.h"

/* Chunks are aligned for direct writes. */
#define MIN_CHUNK	4096U
#ifdef RD_TEST
#define MAX_CHUNK	4096U
#define MAX_READ	2U
#else
#define MAX_CHUNK	(256U << 10)
#define MAX_READ	(RD_SPILL_BUFFERS / MIN_CHUNK)
#endif
/* Chunks that are read or written at once; so many buffers there are beside those of buckets. */
#define DEPTH		16U

struct bucket {
	u64 nr;			/* records */
	u8 *buffer;		/* a chunk */
	unsigned int filled;	/* bytes of it */
	struct rd_buffer chunks;	/* u32 each: number in the file */
};

struct rd_spill {
	int fd;
	const char *dir;
	struct rd_pace *pace;
	size_t size;
	unsigned int chunk;	/* bytes */
	unsigned int per_chunk;	/* records */
	u32 nr_chunks;
	unsigned int nr_buckets;
	struct bucket *buckets;
	u8 *data;		/* a chunk a bucket, and DEPTH; then chunks of one that is read */
	struct rd_ring *ring;
	int error;		/* of what was in flight */
	struct rd_op ops[DEPTH];	/* fd -1: it is not in flight */
	u8 *spare[DEPTH];	/* buffers, of operations that are not in flight */
	/* The bucket that is read. */
	unsigned int bucket;
	u64 done;		/* records */
	unsigned int room;	/* chunks in @data */
	unsigned int first, nr_read;	/* those that are there */
};

static int tell(const struct rd_spill *spill, int r)
{
	rd_err(r, "cannot use a temporary file in '%s'", spill->dir);
	rd_remedy(RD_REMEDY_NAME_TEMP, NULL, NULL);
	return r;
}

/* Some file systems, such as NFS, have no files without a name. */
static int open_file(const char *dir)
{
	char path[PATH_MAX];
	int fd = rd_open_direct(dir, O_RDWR | O_TMPFILE, 0600);

	if (fd != -EOPNOTSUPP && fd != -EISDIR)
		return fd;
	if (snprintf(path, sizeof(path), "%s/.revdedup-%d-%llx", dir, getpid(),
		     rd_now_us()) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = rd_open_direct(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static void share_buffers(struct rd_spill *spill)
{
	u8 *data = spill->data;
	unsigned int i;

	for (i = 0; i < spill->nr_buckets; i++, data += spill->chunk)
		spill->buckets[i].buffer = data;
	for (i = 0; i < DEPTH; i++, data += spill->chunk) {
		spill->spare[i] = data;
		spill->ops[i].fd = -1;
	}
}

int rd_spill_new(struct rd_spill **ret, const char *dir, size_t size, unsigned int nr_buckets,
		 struct rd_pace *pace)
{
	struct rd_spill *spill = calloc(1, sizeof(*spill));
	unsigned int chunk = RD_SPILL_BUFFERS / nr_buckets / MIN_CHUNK * MIN_CHUNK;

	if (!spill)
		return -ENOMEM;
	spill->fd = -1;
	spill->dir = dir;
	spill->pace = pace;
	spill->size = size;
	spill->chunk = rd_min(rd_max(chunk, MIN_CHUNK), rd_pace_at_once(pace, MAX_CHUNK));
	spill->per_chunk = spill->chunk / size;
	spill->nr_buckets = nr_buckets;
	spill->buckets = calloc(nr_buckets, sizeof(*spill->buckets));
	spill->data = rd_alloc_direct((size_t)(nr_buckets + DEPTH) * spill->chunk);
	if (!spill->buckets || !spill->data || rd_ring_new(&spill->ring, DEPTH)) {
		rd_spill_free(spill);
		return -ENOMEM;
	}
	share_buffers(spill);
	spill->fd = open_file(dir);
	if (spill->fd < 0) {
		int r = tell(spill, spill->fd);

		rd_spill_free(spill);
		return r;
	}
	*ret = spill;
	return 0;
}

void rd_spill_free(struct rd_spill *spill)
{
	unsigned int i;

	if (!spill)
		return;
	for (i = 0; spill->buckets && i < spill->nr_buckets; i++)
		rd_buffer_free(&spill->buckets[i].chunks);
	if (spill->fd >= 0)
		close(spill->fd);
	rd_ring_free(spill->ring);
	free(spill->buckets);
	free(spill->data);
	free(spill);
}

/* --- in flight */

static void end_op(struct rd_op *op, int r)
{
	struct rd_spill *spill = op->ctx;

	spill->error = spill->error ? spill->error : r;
	op->fd = -1;
}

/* Wait for an operation that is not in flight: *@ret is its number. */
static int wait_for_op(struct rd_spill *spill, unsigned int *ret)
{
	unsigned int i;
	int r;

	for (;;) {
		for (i = 0; i < DEPTH; i++)
			if (spill->ops[i].fd < 0)
				break;
		*ret = i;
		if (i < DEPTH)
			return 0;
		r = rd_ring_wait(spill->ring);
		if (r)
			return r;
	}
}

static int wait_for_all(struct rd_spill *spill)
{
	int r = 0;

	while (!r && rd_ring_busy(spill->ring))
		r = rd_ring_wait(spill->ring);
	return r ? r : spill->error;
}

static void submit(struct rd_spill *spill, unsigned int i, enum rd_op_kind kind, u8 *data,
		   u32 chunk)
{
	spill->ops[i] = (struct rd_op){
		.kind = kind,
		.fd = spill->fd,
		.offset = (u64)chunk * spill->chunk,
		.own = { data, spill->chunk },
		.done = end_op,
		.ctx = spill,
	};
	rd_pace(spill->pace, spill->chunk);
	rd_ring_submit(spill->ring, &spill->ops[i]);
}

/* --- writing */

static int write_chunk(struct rd_spill *spill, struct bucket *bucket)
{
	u8 *data = bucket->buffer;
	unsigned int i = 0;
	int r;

	rd_buffer_put(&bucket->chunks, &spill->nr_chunks, sizeof(spill->nr_chunks));
	if (bucket->chunks.failed)
		return -ENOMEM;
	r = rd_failpoint("spill");
	if (!r)
		r = wait_for_op(spill, &i);
	if (!r)
		r = spill->error;
	if (r)
		return tell(spill, r);
	/* It has the other buffer until this one is written. */
	bucket->buffer = spill->spare[i];
	bucket->filled = 0;
	spill->spare[i] = data;
	submit(spill, i, RD_OP_WRITE, data, spill->nr_chunks++);
	return 0;
}

int rd_spill_put(struct rd_spill *spill, unsigned int nr, const void *record)
{
	struct bucket *bucket = &spill->buckets[nr];

	memcpy(bucket->buffer + bucket->filled, record, spill->size);
	bucket->filled += spill->size;
	bucket->nr++;
	return bucket->nr % spill->per_chunk ? 0 : write_chunk(spill, bucket);
}

int rd_spill_end(struct rd_spill *spill)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < spill->nr_buckets && !r; i++)
		if (spill->buckets[i].filled)
			r = write_chunk(spill, &spill->buckets[i]);
	if (r)
		return r;
	r = wait_for_all(spill);
	if (r)
		return tell(spill, r);
	free(spill->data);
	spill->room = rd_min(RD_SPILL_BUFFERS / spill->chunk, MAX_READ);
	spill->data = rd_alloc_direct((size_t)spill->room * spill->chunk);
	/* Nothing of a bucket is there. */
	spill->bucket = spill->nr_buckets;
	return spill->data ? 0 : -ENOMEM;
}

/* --- reading */

u64 rd_spill_nr(const struct rd_spill *spill, unsigned int bucket)
{
	return spill->buckets[bucket].nr;
}

void rd_spill_rewind(struct rd_spill *spill, unsigned int bucket)
{
	if (spill->bucket != bucket || spill->first)
		spill->nr_read = 0;
	spill->bucket = bucket;
	spill->first = 0;
	spill->done = 0;
}

/* Read chunk @chunk, and as many of the next ones as there is room for. */
static int read_chunks(struct rd_spill *spill, unsigned int chunk)
{
	const struct rd_buffer *chunks = &spill->buckets[spill->bucket].chunks;
	unsigned int i, op = 0;
	u32 nr;
	int r = 0;

	spill->first = chunk;
	spill->nr_read = rd_min(spill->room, chunks->len / sizeof(nr) - chunk);
	for (i = 0; i < spill->nr_read && !r; i++) {
		memcpy(&nr, chunks->data + (chunk + i) * sizeof(nr), sizeof(nr));
		r = wait_for_op(spill, &op);
		if (!r)
			submit(spill, op, RD_OP_READ, spill->data + (size_t)i * spill->chunk, nr);
	}
	return r ? r : wait_for_all(spill);
}

int rd_spill_next(struct rd_spill *spill, const void **ret, unsigned int *ret_nr)
{
	unsigned int chunk = spill->done / spill->per_chunk;
	int r = 0;

	*ret_nr = rd_min((u64)spill->per_chunk, spill->buckets[spill->bucket].nr - spill->done);
	if (!*ret_nr)
		return 0;
	if (chunk < spill->first || chunk - spill->first >= spill->nr_read) {
		r = rd_failpoint("spill");
		if (!r)
			r = read_chunks(spill, chunk);
		if (r)
			return tell(spill, r);
	}
	*ret = spill->data + (size_t)(chunk - spill->first) * spill->chunk;
	spill->done += *ret_nr;
	return 0;
}
