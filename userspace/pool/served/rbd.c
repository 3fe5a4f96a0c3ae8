// SPDX-License-Identifier: GPL-2.0
/* A disk on RBD: requests and holes. See rbd.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "pool/data/fp.h"
#include "pool/data/ring.h"
#include "rbd_disk.h"

/* Of the disk, for one question where its holes are. */
#define WINDOW		(1ULL << 30)

static struct rd_rbd *rbd_of(struct rd_store *store)
{
	return (struct rd_rbd *)((char *)store - offsetof(struct rd_rbd, store));
}

/* What ends a connection is told once, with whatever it began. */
static bool is_told(struct rd_rbd *rbd)
{
	return __atomic_exchange_n(&rbd->is_told, true, __ATOMIC_RELAXED);
}

static void tell_silence(struct rd_rbd *rbd)
{
	if (is_told(rbd))
		return;
	rbd->is_silent = true;
	rd_err(0, "the cluster of '%s' has not answered for %s seconds", rbd->ceph.name,
	       rbd->ceph.patience);
	rd_hint("'ceph status' says what is wrong with it");
}

static void tell_shut_out(struct rd_rbd *rbd)
{
	if (is_told(rbd))
		return;
	rd_err(0, "the cluster has shut this command out of '%s'", rbd->ceph.name);
	rd_hint("another one needed the image while this one did not answer: run it again");
}

void rd_rbd_gone(struct rd_rbd *rbd)
{
	if (!is_told(rbd))
		rd_err(0, "a snapshot of '%s' was removed while it was read", rbd->ceph.name);
}

/* Say it, if the error has a reason of this connection. */
static bool tell_reason(struct rd_rbd *rbd, int r)
{
	if (r == -ETIMEDOUT)
		tell_silence(rbd);
	else if (r == -ESHUTDOWN)
		tell_shut_out(rbd);
	else if (r == -ENOENT && rbd->is_moment)
		rd_rbd_gone(rbd);
	else
		return false;
	return true;
}

int rd_rbd_failed(struct rd_rbd *rbd, int r, const char *what)
{
	if (tell_reason(rbd, r))
		return r;
	rd_err(r, "cannot %s '%s'", what, rbd->ceph.name);
	if (r == -EPERM || r == -EACCES)
		rd_hint("client.%s lacks a right: see DISKS ON RBD in the manual", rbd->ceph.user);
	return r;
}

/* --- requests */

struct request {
	struct rd_rbd *rbd;
	struct rd_op *op;
};

/* In a thread of librbd. */
static void end_request(rbd_completion_t completion, void *arg)
{
	struct request *request = arg;
	struct rd_rbd *rbd = request->rbd;
	ssize_t r = rbd->lib->rbd_aio_get_return_value(completion);

	rbd->lib->rbd_aio_release(completion);
	pthread_mutex_lock(&rbd->lock);
	tell_reason(rbd, (int)r);
	/* Before it is not busy: the ring and rd_rbd_close() come after that. */
	rd_ring_end(request->op, r < 0 ? (int)r : 0);
	if (!--rbd->busy)
		pthread_cond_signal(&rbd->idle);
	pthread_mutex_unlock(&rbd->lock);
	free(request);
}

/* Buffers of requests are freed after this. */
static void end(struct rd_store *store)
{
	struct rd_rbd *rbd = rbd_of(store);

	pthread_mutex_lock(&rbd->lock);
	while (rbd->busy)
		pthread_cond_wait(&rbd->idle, &rbd->lock);
	pthread_mutex_unlock(&rbd->lock);
}

/* What is all zeros takes no room there. */
static int request(struct rd_rbd *rbd, const struct rd_op *op, size_t len,
		   rbd_completion_t completion)
{
	const struct rd_librbd *lib = rbd->lib;
	char *data = op->iov->iov_base;

	if (op->kind == RD_OP_READ)
		return lib->rbd_aio_read2(rbd->disk, op->offset, len, data, completion,
					  LIBRADOS_OP_FLAG_FADVISE_NOCACHE);
	if (rd_is_zero(data, len))
		return lib->rbd_aio_write_zeroes(rbd->disk, op->offset, len, completion, 0, 0);
	return lib->rbd_aio_write(rbd->disk, op->offset, len, data, completion);
}

static int start_request(struct rd_rbd *rbd, struct rd_op *op, size_t len)
{
	struct request *mine = malloc(sizeof(*mine));
	rbd_completion_t completion;
	int r;

	if (!mine)
		return -ENOMEM;
	*mine = (struct request){ rbd, op };
	r = rbd->lib->rbd_aio_create_completion(mine, end_request, &completion);
	if (!r) {
		pthread_mutex_lock(&rbd->lock);
		rbd->busy++;
		pthread_mutex_unlock(&rbd->lock);
		r = request(rbd, op, len, completion);
		if (r >= 0)
			return 0;
		rbd->lib->rbd_aio_release(completion);
		pthread_mutex_lock(&rbd->lock);
		rbd->busy--;
		pthread_mutex_unlock(&rbd->lock);
	}
	free(mine);
	return r;
}

static void submit(struct rd_store *store, struct rd_op *op)
{
	struct rd_rbd *rbd = rbd_of(store);
	size_t len = op->iov->iov_len;
	u64 left = op->offset < store->bytes ? store->bytes - op->offset : 0;
	int r;

	/* As with a file, there are zeros behind the end. */
	if (len > left && op->kind == RD_OP_READ) {
		memset((char *)op->iov->iov_base + left, 0, len - left);
		len = left;
	}
	r = start_request(rbd, op, len);
	if (r)
		rd_ring_end(op, r);
}

static int flush(struct rd_store *store)
{
	struct rd_rbd *rbd = rbd_of(store);
	int r = rbd->lib->rbd_flush(rbd->disk);

	return r ? rd_rbd_failed(rbd, r, "flush") : 0;
}

/* --- ranges */

struct diff {
	struct rd_buffer *into;
	u64 unit;
	bool changed;		/* zeros count too */
	bool is_in_order;
};

static void add_range(struct diff *diff, struct rd_rbd_range range)
{
	struct rd_rbd_range *last = NULL;

	if (diff->into->len)
		last = (struct rd_rbd_range *)(diff->into->data + diff->into->len) - 1;
	if (last && range.start >= last->start && range.start <= last->end) {
		last->end = rd_max(last->end, range.end);
		return;
	}
	diff->is_in_order &= !last || range.start > last->start;
	rd_buffer_put(diff->into, &range, sizeof(range));
}

static int take_extent(uint64_t offset, size_t len, int exists, void *arg)
{
	struct diff *diff = arg;

	if (exists || diff->changed)
		add_range(diff, (struct rd_rbd_range){
			offset / diff->unit * diff->unit, rd_round_up(offset + len, diff->unit),
		});
	return diff->into->failed ? -ENOMEM : 0;
}

/* With stripes the extents of an object are not next to each other. */
static int sort(struct diff *diff)
{
	struct rd_buffer all = *diff->into;
	const struct rd_rbd_range *range;

	if (diff->is_in_order)
		return 0;
	rd_sort((struct rd_rbd_range *)all.data, all.len / sizeof(*range), start);
	memset(diff->into, 0, sizeof(*diff->into));
	rd_each(range, &all)
		add_range(diff, *range);
	rd_buffer_free(&all);
	return diff->into->failed ? -ENOMEM : 0;
}

int rd_rbd_diff(struct rd_rbd *rbd, const char *since, u64 from, u64 to, u64 unit,
		struct rd_buffer *ret)
{
	struct diff diff = {
		.into = ret,
		.unit = unit,
		.changed = since,
		.is_in_order = true,
	};
	int r;

	r = rbd->lib->rbd_diff_iterate2(rbd->disk, since, from, to - from, 1, 0, take_extent,
					&diff);
	if (r && r != -ENOMEM)
		return rd_rbd_failed(rbd, r, "list the changes of");
	return r ? r : sort(&diff);
}

static int load_window(struct rd_rbd *rbd, u64 offset)
{
	int r;

	rbd->data.len = 0;
	rbd->from = offset;
	rbd->to = offset;
	r = rd_rbd_diff(rbd, NULL, offset, rd_min(offset + WINDOW, rbd->store.bytes),
			RD_BLOCK_SIZE, &rbd->data);
	if (!r)
		rbd->to = rd_min(offset + WINDOW, rbd->store.bytes);
	return r;
}

/* The first range of the window that ends behind @offset, or where its end would be. */
static const struct rd_rbd_range *find_range(const struct rd_rbd *rbd, u64 offset)
{
	const struct rd_rbd_range *ranges = (const struct rd_rbd_range *)rbd->data.data;
	size_t nr = rbd->data.len / sizeof(*ranges);
	size_t low = rd_count_below(nr, i, ranges[i].end <= offset);

	return low < nr ? &ranges[low] : NULL;
}

static off_t seek(struct rd_store *store, off_t offset, int whence)
{
	struct rd_rbd *rbd = rbd_of(store);
	const struct rd_rbd_range *range;
	u64 at = offset;

	while (at < store->bytes && !rbd->is_listed) {
		if ((at < rbd->from || at >= rbd->to) && load_window(rbd, at)) {
			errno = EIO;
			return -1;
		}
		range = find_range(rbd, at);
		if (whence == SEEK_DATA && range)
			return rd_max(at, range->start);
		if (whence == SEEK_HOLE && (!range || range->start > at))
			return at;
		at = range ? rd_min(range->end, rbd->to) : rbd->to;
	}
	if (at < store->bytes)
		return whence == SEEK_DATA ? at : store->bytes;
	if (whence == SEEK_HOLE)
		return store->bytes;
	errno = ENXIO;
	return -1;
}

static const struct rd_store_ops ops = {
	.submit = submit,
	.sync = flush,
	.seek = seek,
	.end = end,
};

struct rd_store *rd_rbd_store(struct rd_rbd *rbd)
{
	rbd->store.ops = &ops;
	rbd->store.caps = RD_STORE_HOLES;
	rbd->store.fd = -1;
	return &rbd->store;
}
