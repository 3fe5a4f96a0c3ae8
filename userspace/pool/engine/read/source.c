// SPDX-License-Identifier: GPL-2.0
/* The image, block device or served disk that a snapshot reads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "pool/catalog/versions.h"
#include "source.h"

/* --- written meanwhile? */

/* Count what a device has written and discarded; 0: the kernel does not. */
static u64 count_sectors(dev_t device)
{
	unsigned long long written = 0, discarded = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(device), minor(device));
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* Sectors, for a flush without any may count as a write as well. */
	if (fscanf(file, "%*u %*u %*u %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %llu",
		   &written, &discarded) < 1)
		written = 0;
	fclose(file);
	return written + discarded;
}

static int read_stamp(int fd, struct rd_source_stamp *ret)
{
	/*
	 * A write through the page cache that came before must not count as one that came
	 * after, and a store to a mapped page is counted only once that page is clean.
	 */
	if (fsync(fd) && errno != EROFS && errno != EINVAL)
		return -errno;
	if (fstat(fd, &ret->st))
		return -errno;
	ret->sectors = S_ISBLK(ret->st.st_mode) ? count_sectors(ret->st.st_rdev) : 0;
	return 0;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool differs(const struct rd_source_stamp *before, const struct rd_source_stamp *after)
{
	/* Times of a device's node say nothing about what it holds. */
	if (S_ISBLK(before->st.st_mode))
		return before->sectors != after->sectors;
	/* st_ctim: a program that sets st_mtim back cannot set that. */
	return before->st.st_size != after->st.st_size ||
		!is_same_time(&before->st.st_mtim, &after->st.st_mtim) ||
		!is_same_time(&before->st.st_ctim, &after->st.st_ctim);
}

int rd_source_has_changed(struct rd_source *source, bool *ret)
{
	const struct rd_source_stamp *before = &source->before;
	struct rd_source_stamp now;
	int r;

	*ret = false;
	if (source->is_frozen)
		return 0;
	r = read_stamp(source->store->fd, &now);
	if (r)
		return rd_err(r, "cannot look at '%s'", source->path);
	if (S_ISREG(before->st.st_mode) && now.st.st_size < before->st.st_size) {
		rd_err(0, "'%s' was cut off while it was read", source->path);
		return -EIO;
	}
	*ret = differs(before, &now);
	return 0;
}

/* --- */

int rd_source_open(struct rd_source *source, const char *path, bool is_frozen)
{
	int r;

	source->path = path;
	source->is_frozen = is_frozen;
	r = rd_store_open(&source->store, path, O_RDONLY);
	if (r == -ENOTBLK)
		return rd_err(0, "'%s' is neither a file nor a block device", path), r;
	if (r)
		return rd_err(r, "cannot open '%s'", path);
	source->size = source->store->bytes;
	if (source->size > RD_VERSION_MAX) {
		rd_err(-EFBIG, "'%s' has %llu bytes", path, source->size);
		return -EFBIG;
	}
	source->nr_segs = rd_nr_segs(source->size);
	if (!is_frozen)
		r = read_stamp(source->store->fd, &source->before);
	return r ? rd_err(r, "cannot look at '%s'", path) : 0;
}

int rd_source_serve(struct rd_source *source, struct rd_store *store, struct rd_ring *ring)
{
	source->store = store;
	source->is_served = true;
	source->is_frozen = true;
	source->size = store->bytes;
	source->nr_segs = rd_nr_segs(source->size);
	return rd_store_begin(store, ring);
}

void rd_source_close(struct rd_source *source)
{
	if (source->is_served)
		rd_store_end(source->store);
	else
		rd_store_close(source->store);
	source->store = NULL;
}

/* --- reading */

void rd_source_read(struct rd_source *source, struct rd_ring *ring, struct rd_op *op)
{
	op->store = source->store;
	rd_ring_submit(ring, op);
}

struct waiting {
	bool is_done;
	int r;
};

static void read_now_done(struct rd_op *op, int r)
{
	*(struct waiting *)op->ctx = (struct waiting){ true, r };
}

int rd_source_read_now(struct rd_source *source, struct rd_ring *ring, void *data, size_t len,
		       u64 offset)
{
	struct waiting waiting = { 0 };
	struct rd_op op = {
		.kind = RD_OP_READ,
		.offset = offset,
		.own = { data, len },
		.done = read_now_done,
		.ctx = &waiting,
	};
	int r = 0;

	rd_source_read(source, ring, &op);
	while (!waiting.is_done && !r)
		r = rd_ring_wait(ring);
	return r ? r : waiting.r;
}

/* --- holes */

bool rd_source_is_hole(struct rd_source *source, u64 segment)
{
	u64 start = segment << RD_SEG_SHIFT;
	off_t data;

	if (!rd_store_can(source->store, RD_STORE_HOLES))
		return false;
	if (start < source->data_end || start >= source->data_start) {
		data = rd_store_seek(source->store, start, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return false;
		source->data_end = start;
		source->data_start = data < 0 ? U64_MAX : (u64)data;
	}
	return source->data_start >= start + RD_SEG_SIZE;
}

void rd_source_trim(struct rd_source *source, u64 segment, u64 *ret_from, u64 *ret_to)
{
	u64 start = segment << RD_SEG_SHIFT, end = start + RD_SEG_SIZE;
	off_t hole, data;

	*ret_from = start;
	*ret_to = end;
	if (source->data_start < start || source->data_start >= end ||
	    (start >= source->run && end <= source->run_end))
		return;
	*ret_from = source->data_start / RD_BLOCK_SIZE * RD_BLOCK_SIZE;
	hole = rd_store_seek(source->store, source->data_start, SEEK_HOLE);
	if (hole < 0)
		return;
	source->run = source->data_start;
	source->run_end = hole;
	if (source->run_end >= end)
		return;
	data = rd_store_seek(source->store, hole, SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		return;
	source->data_end = hole;
	source->data_start = data < 0 ? U64_MAX : (u64)data;
	if (source->data_start >= end)
		*ret_to = rd_round_up(hole, RD_BLOCK_SIZE);
}
