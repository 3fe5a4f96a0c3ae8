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
#include "spill.h"

/* Chunks are aligned for direct writes. */
#define MIN_CHUNK	4096U
#ifdef RD_TEST
#define MAX_CHUNK	4096U
#else
#define MAX_CHUNK	(256U << 10)
#endif

struct bucket {
	u64 nr;			/* records */
	unsigned int filled;	/* bytes of the buffer */
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
	u8 *data;		/* a chunk a bucket; then one, that is read */
	/* The bucket that is read. */
	unsigned int bucket;
	u64 done;
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
		     (unsigned long long)rd_now_us()) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = rd_open_direct(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
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
	spill->chunk = rd_min(rd_max(chunk, MIN_CHUNK), MAX_CHUNK);
	spill->per_chunk = spill->chunk / size;
	spill->nr_buckets = nr_buckets;
	spill->buckets = calloc(nr_buckets, sizeof(*spill->buckets));
	spill->data = rd_alloc_direct((size_t)nr_buckets * spill->chunk);
	if (!spill->buckets || !spill->data) {
		rd_spill_free(spill);
		return -ENOMEM;
	}
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
	free(spill->buckets);
	free(spill->data);
	free(spill);
}

static int write_chunk(struct rd_spill *spill, unsigned int nr)
{
	struct bucket *bucket = &spill->buckets[nr];
	u32 chunk = spill->nr_chunks;
	int r;

	bucket->filled = 0;
	rd_buffer_put(&bucket->chunks, &chunk, sizeof(chunk));
	if (bucket->chunks.failed)
		return -ENOMEM;
	spill->nr_chunks++;
	rd_pace(spill->pace, spill->chunk);
	r = rd_failpoint("spill");
	if (!r)
		r = rd_write_direct(spill->fd, spill->data + (size_t)nr * spill->chunk,
				    spill->chunk, (u64)chunk * spill->chunk);
	return r ? tell(spill, r) : 0;
}

int rd_spill_put(struct rd_spill *spill, unsigned int nr, const void *record)
{
	struct bucket *bucket = &spill->buckets[nr];

	memcpy(spill->data + (size_t)nr * spill->chunk + bucket->filled, record, spill->size);
	bucket->filled += spill->size;
	bucket->nr++;
	return bucket->nr % spill->per_chunk ? 0 : write_chunk(spill, nr);
}

int rd_spill_end(struct rd_spill *spill)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < spill->nr_buckets && !r; i++)
		if (spill->buckets[i].filled)
			r = write_chunk(spill, i);
	free(spill->data);
	spill->data = r ? NULL : rd_alloc_direct(spill->chunk);
	return r || spill->data ? r : -ENOMEM;
}

u64 rd_spill_nr(const struct rd_spill *spill, unsigned int bucket)
{
	return spill->buckets[bucket].nr;
}

void rd_spill_rewind(struct rd_spill *spill, unsigned int bucket)
{
	spill->bucket = bucket;
	spill->done = 0;
}

int rd_spill_next(struct rd_spill *spill, const void **ret, unsigned int *ret_nr)
{
	const struct bucket *bucket = &spill->buckets[spill->bucket];
	u32 chunk;
	int r;

	*ret = spill->data;
	*ret_nr = rd_min((u64)spill->per_chunk, bucket->nr - spill->done);
	if (!*ret_nr)
		return 0;
	memcpy(&chunk, bucket->chunks.data + spill->done / spill->per_chunk * sizeof(chunk),
	       sizeof(chunk));
	spill->done += *ret_nr;
	rd_pace(spill->pace, spill->chunk);
	r = rd_failpoint("spill");
	if (!r)
		r = rd_read_direct(spill->fd, spill->data, spill->chunk,
				   (u64)chunk * spill->chunk);
	return r ? tell(spill, r) : 0;
}
