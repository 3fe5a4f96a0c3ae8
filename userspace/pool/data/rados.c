// SPDX-License-Identifier: GPL-2.0
/*
 * The data area in RADOS, read and written: see rados.h.
 *
 * A transfer is cut into parts, one for each object. librados ends a part in a thread of its own,
 * which also decides how a write goes on that was refused: the object is not there, or is; another
 * command of this host has raised the epoch; or another host has taken the shard over, and that is
 * the end.
 *
 * Of the writes to an object that compare an attribute, an OSD does one at a time, until all copies
 * have it. So parts for an object to which one is under way wait for that, and then go in one
 * operation: the fingerprints of 256 frames, which are one object, would hold up the frames.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/sort.h"
#include "fp.h"
#include "rados_parts.h"
#include "ring.h"

#define OBJECT		((u64)RD_SEG_SIZE)
/* After so many seconds a user is told why nothing happens. */
#define SILENCE		10
/* So many objects are punched at a time. */
#define DEPTH		64

enum kind {
	READ,
	WRITE,
	ZERO,		/* ranges */
	REMOVE,
};

/* Ends when all of its parts have. */
struct request {
	struct rd_rados *rados;
	unsigned int how;		/* RD_WRITE_* */
	struct rd_op *op;		/* or NULL: @is_done */
	unsigned int busy;		/* under rados->lock, as what follows */
	int r;
	bool is_done;
	pthread_cond_t *done;
};

struct slice {
	char *data;
	u64 offset;			/* in the object */
	size_t len;
	size_t got;
	int r;
};

struct part {
	struct request *request;
	enum kind kind;
	u64 object;
	bool creates, is_whole;
	u64 epoch;			/* of the write that is under way */
	char owner[RD_RADOS_OWNER];
	/* Under rados->lock; of the first part of an operation, but for @with: */
	bool is_shared;			/* it is in rados->shared */
	struct part *with;		/* goes in the same operation */
	struct part *waiting;		/* goes in the next one, with others */
	struct part *next;		/* of another object */
	unsigned int nr;
	struct slice slices[];
};

/* --- the end */

static void put_request(struct request *request, int r)
{
	struct rd_rados *rados = request->rados;
	struct rd_op *op = request->op;
	bool is_last;

	pthread_mutex_lock(&rados->lock);
	if (r && !request->r)
		request->r = r;
	is_last = !--request->busy;
	r = request->r;
	if (is_last && !op) {
		/* From now on it may be gone. */
		request->is_done = true;
		pthread_cond_signal(request->done);
	}
	pthread_mutex_unlock(&rados->lock);
	if (is_last && op) {
		free(request);
		rd_ring_end(op, r);
	}
}

static void start_write(struct part *part);

/* The operation of @part has ended: return the parts that waited for that, if any. */
static struct part *next_shared(struct part *part)
{
	struct rd_rados *rados = part->request->rados;
	struct part *waiting, **link;

	pthread_mutex_lock(&rados->lock);
	for (link = &rados->shared; *link != part; link = &(*link)->next)
		;
	waiting = part->waiting;
	if (waiting) {
		waiting->is_shared = true;
		waiting->next = part->next;
	}
	*link = waiting ? waiting : part->next;
	pthread_mutex_unlock(&rados->lock);
	return waiting;
}

static void end_part(struct part *part, int r)
{
	struct part *waiting = part->is_shared ? next_shared(part) : NULL;
	struct request *request;
	struct part *with;

	/* First, as with the last request that ends the store may be gone. */
	if (waiting)
		start_write(waiting);
	for (; part; part = with) {
		with = part->with;
		request = part->request;
		free(part);
		put_request(request, r);
	}
}

/* --- refused */

static void tell_fenced(struct rd_rados *rados, const struct rd_shard *owner)
{
	bool told;

	pthread_mutex_lock(&rados->lock);
	told = rados->told_fenced;
	rados->told_fenced = true;
	pthread_mutex_unlock(&rados->lock);
	if (told)
		return;
	rd_err(0, "'%s' was taken over by the host '%s': this command has lost it",
	       rados->ceph.name, owner->host);
	rd_hint("what it had not finished is undone there; no version that was reported is lost");
}

/* The owner as it is now is in part->owner: may this command go on? */
static void owner_read(rados_completion_t completion, void *arg)
{
	struct part *part = arg;
	struct rd_rados *rados = part->request->rados;
	bool goes_on = false, is_ours;
	struct rd_shard owner;
	int r;

	r = rados->ceph.lib->aio_get_return_value(completion);
	rados->ceph.lib->aio_release(completion);
	if (r < 0) {
		end_part(part, r);
		return;
	}
	part->owner[rd_min((size_t)r, sizeof(part->owner) - 1)] = '\0';
	if (!rd_rados_parse_owner(part->owner, &owner)) {
		end_part(part, -EBADMSG);
		return;
	}
	pthread_mutex_lock(&rados->lock);
	is_ours = rd_rados_is_ours(rados, &owner);
	if (is_ours && owner.epoch > part->epoch) {
		goes_on = true;
		rados->epoch = rd_max(rados->epoch, owner.epoch);
	}
	pthread_mutex_unlock(&rados->lock);
	if (goes_on) {
		start_write(part);
		return;
	}
	if (!is_ours)
		tell_fenced(rados, &owner);
	/* Else an object of the journal is lost. */
	end_part(part, is_ours ? -EIO : -ESTALE);
}

static void ask_owner(struct part *part)
{
	struct rd_rados *rados = part->request->rados;
	rados_completion_t completion;
	int r;

	r = rados->ceph.lib->aio_create_completion2(part, owner_read, &completion);
	if (!r)
		r = rados->ceph.lib->aio_getxattr(rados->ceph.io, RD_RADOS_HEAD, completion,
					     RD_RADOS_ATTR_OWNER, part->owner,
					     sizeof(part->owner) - 1);
	if (r)
		end_part(part, r);
}

static void wrote(rados_completion_t completion, void *arg)
{
	struct part *part = arg;
	struct request *request = part->request;
	struct rd_rados *rados = request->rados;
	int r = rados->ceph.lib->aio_get_return_value(completion);

	rados->ceph.lib->aio_release(completion);
	if (r == -EDQUOT)
		r = -ENOSPC;
	if (r == -ENOENT && part->kind != WRITE) {
		end_part(part, 0);
	} else if (r == -ENOENT && request->how & RD_WRITE_THERE) {
		/* The frame was given back by a later epoch. */
		ask_owner(part);
	} else if ((r == -ENOENT && !part->creates) || (r == -EEXIST && part->creates)) {
		part->creates = !part->creates;
		start_write(part);
	} else if (r == -ECANCELED) {
		ask_owner(part);
	} else {
		end_part(part, r < 0 ? r : 0);
	}
}

/* --- writes */

static void add_data(const struct rd_librados *lib, rados_write_op_t op, const struct part *part)
{
	unsigned int i;

	for (i = 0; i < part->nr; i++)
		if (part->kind == ZERO)
			lib->write_op_zero(op, part->slices[i].offset, part->slices[i].len);
		else
			lib->write_op_write(op, part->slices[i].data, part->slices[i].len,
					    part->slices[i].offset);
}

static void start_write(struct part *part)
{
	struct rd_rados *rados = part->request->rados;
	const struct rd_librados *lib = rados->ceph.lib;
	int flags = part->request->how & RD_WRITE_FULL ? LIBRADOS_OPERATION_FULL_FORCE :
		LIBRADOS_OPERATION_NOFLAG;
	rados_completion_t completion;
	char epoch[RD_RADOS_EPOCH], object[RD_RADOS_OBJECT];
	const struct part *with;
	rados_write_op_t op;
	int r;

	pthread_mutex_lock(&rados->lock);
	part->epoch = rados->epoch;
	pthread_mutex_unlock(&rados->lock);
	rd_rados_print_epoch(epoch, part->epoch);
	rd_rados_object(rados, part->object, object);
	op = lib->create_write_op();
	if (part->creates)
		lib->write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	else
		lib->write_op_cmpxattr(op, RD_RADOS_ATTR_E, LIBRADOS_CMPXATTR_OP_GTE, epoch,
				       RD_RADOS_EPOCH - 1);
	if (part->kind == REMOVE) {
		lib->write_op_remove(op);
	} else {
		if (part->is_whole && !part->creates)
			lib->write_op_truncate(op, 0);
		for (with = part; with; with = with->with)
			add_data(lib, op, with);
		lib->write_op_setxattr(op, RD_RADOS_ATTR_E, epoch, RD_RADOS_EPOCH - 1);
	}
	r = lib->aio_create_completion2(part, wrote, &completion);
	if (!r)
		r = lib->aio_write_op_operate(op, rados->ceph.io, completion, object, NULL, flags);
	lib->release_write_op(op);
	if (r)
		end_part(part, r);
}

/* Start to write a part of an object, now, or in the operation behind that which is under way. */
static void share_write(struct part *part)
{
	struct rd_rados *rados = part->request->rados;
	struct part *first, **last;

	pthread_mutex_lock(&rados->lock);
	for (first = rados->shared; first; first = first->next)
		if (first->object == part->object && first->request->how == part->request->how)
			break;
	if (first) {
		/* In the order in which they came, as without it. */
		for (last = &first->waiting; *last; last = &(*last)->with)
			;
		*last = part;
	} else {
		part->is_shared = true;
		part->next = rados->shared;
		rados->shared = part;
	}
	pthread_mutex_unlock(&rados->lock);
	if (!first)
		start_write(part);
}

/* --- reads */

static void have_read(rados_completion_t completion, void *arg)
{
	struct part *part = arg;
	struct rd_rados *rados = part->request->rados;
	int r = rados->ceph.lib->aio_get_return_value(completion);
	unsigned int i;

	rados->ceph.lib->aio_release(completion);
	if (r == -ENOENT)
		r = 0;
	for (i = 0; i < part->nr && r >= 0; i++) {
		struct slice *slice = &part->slices[i];

		/* Nothing is there, or it ends before: zeros. */
		if (slice->got < slice->len)
			memset(slice->data + slice->got, 0, slice->len - slice->got);
		r = slice->r < 0 ? slice->r : 0;
	}
	end_part(part, r < 0 ? r : 0);
}

static void start_read(struct part *part)
{
	struct rd_rados *rados = part->request->rados;
	const struct rd_librados *lib = rados->ceph.lib;
	char object[RD_RADOS_OBJECT];
	rados_completion_t completion;
	rados_read_op_t op;
	unsigned int i;
	int r;

	rd_rados_object(rados, part->object, object);
	op = lib->create_read_op();
	for (i = 0; i < part->nr; i++) {
		struct slice *slice = &part->slices[i];

		slice->got = 0;
		slice->r = 0;
		lib->read_op_read(op, slice->offset, slice->len, slice->data, &slice->got,
				  &slice->r);
	}
	r = lib->aio_create_completion2(part, have_read, &completion);
	if (!r)
		r = lib->aio_read_op_operate(op, rados->ceph.io, completion, object, 0);
	lib->release_read_op(op);
	if (r)
		end_part(part, r);
}

/* --- into parts */

static struct part *new_part(struct request *request, enum kind kind, u64 object, unsigned int nr)
{
	struct part *part = calloc(1, sizeof(*part) + nr * sizeof(part->slices[0]));

	if (part) {
		part->request = request;
		part->kind = kind;
		part->object = object;
	}
	return part;
}

static void start(struct part *part)
{
	struct rd_rados *rados = part->request->rados;

	if (part->kind == READ) {
		start_read(part);
		return;
	}
	if (!rados->can_write) {
		end_part(part, -EROFS);
		return;
	}
	pthread_mutex_lock(&rados->lock);
	rados->has_objects = false;
	pthread_mutex_unlock(&rados->lock);
	if (part->kind == WRITE && !part->is_whole)
		share_write(part);
	else
		start_write(part);
}

/* Add @len bytes; of a whole object only what is not zeros. */
static void add_slices(struct part *part, char *data, u64 offset, size_t len)
{
	size_t at, from;

	if (!part->is_whole) {
		part->slices[part->nr++] = (struct slice){ data, offset, len, 0, 0 };
		return;
	}
	for (at = 0; at < len; at += RD_BLOCK_SIZE) {
		for (from = at; at < len && !rd_is_zero(data + at, RD_BLOCK_SIZE);)
			at += RD_BLOCK_SIZE;
		if (from < at)
			part->slices[part->nr++] = (struct slice){
				data + from, offset + from, at - from, 0, 0
			};
	}
}

/* The vectors, cut at the ends of objects. */
struct cursor {
	const struct iovec *iov;
	unsigned int nr;
	size_t skip;
};

/* How many slices has the part of @len bytes at @at? */
static unsigned int count_slices(struct cursor at, u64 len)
{
	unsigned int nr = 0;
	size_t now;

	for (; len; len -= now, nr++) {
		now = rd_min(at.iov->iov_len - at.skip, len);
		at.skip = 0;
		at.iov++;
	}
	return nr;
}

static void fill_part(struct part *part, struct cursor *at, u64 offset, u64 len)
{
	size_t now;

	for (; len; len -= now, offset += now) {
		now = rd_min(at->iov->iov_len - at->skip, len);
		add_slices(part, (char *)at->iov->iov_base + at->skip, offset, now);
		at->skip += now;
		if (at->skip == at->iov->iov_len) {
			at->iov++;
			at->skip = 0;
		}
	}
}

static void start_all(struct request *request, enum kind kind, const struct iovec *iov,
		      unsigned int nr_iov, u64 offset, u64 len)
{
	struct cursor at = { .iov = iov, .nr = nr_iov };
	u64 end = offset + len, now;
	struct part *part;
	unsigned int nr;

	/* One for this function: the request must not end before all parts have begun. */
	request->busy = 1;
	for (; offset < end; offset += now) {
		bool is_whole;

		now = rd_min(end, (offset / OBJECT + 1) * OBJECT) - offset;
		is_whole = kind == WRITE && now == OBJECT;
		nr = is_whole ? RD_SEG_BLOCKS : count_slices(at, now);
		part = new_part(request, kind, offset / OBJECT, nr);
		if (!part)
			break;
		part->is_whole = is_whole;
		/* What is written from its beginning on is most often a new one. */
		part->creates = kind == WRITE && offset % OBJECT == 0 &&
			!(request->how & RD_WRITE_THERE);
		fill_part(part, &at, offset % OBJECT, now);
		pthread_mutex_lock(&request->rados->lock);
		request->busy++;
		pthread_mutex_unlock(&request->rados->lock);
		start(part);
	}
	put_request(request, offset < end ? -ENOMEM : 0);
}

static void submit(struct rd_store *store, struct rd_op *op)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request) {
		rd_ring_end(op, -ENOMEM);
		return;
	}
	request->rados = rd_rados_of(store);
	request->op = op;
	start_all(request, op->kind == RD_OP_READ ? READ : WRITE, op->iov, op->nr_iov, op->offset,
		  op->left);
}

/* --- one that waits */

/* A write that was given up may land all the same, so there is no end to this but a kill. */
void rd_rados_wait(struct rd_rados *rados, const bool *is_done, pthread_cond_t *done)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += SILENCE;
	pthread_mutex_lock(&rados->lock);
	while (!*is_done) {
		if (pthread_cond_timedwait(done, &rados->lock, &limit) != ETIMEDOUT)
			continue;
		limit.tv_sec += SILENCE;
		if (rados->told_silent)
			continue;
		rados->told_silent = true;
		rd_warn("the cluster of '%s' has not answered for %d seconds", rados->ceph.name,
			SILENCE);
		rd_hint("the command goes on when it does: 'ceph status' says what is wrong with it; a second Ctrl-C ends the command, and loses nothing");
	}
	pthread_mutex_unlock(&rados->lock);
}

static int wait_for(struct request *request)
{
	rd_rados_wait(request->rados, &request->is_done, request->done);
	return request->r;
}

static int transfer(struct rd_store *store, enum kind kind, void *buf, size_t len, u64 offset,
		    unsigned int how)
{
	pthread_cond_t done = PTHREAD_COND_INITIALIZER;
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct request request = {
		.rados = rd_rados_of(store),
		.how = how,
		.done = &done,
	};

	start_all(&request, kind, &iov, 1, offset, len);
	return wait_for(&request);
}

static int read_range(struct rd_store *store, void *buf, size_t len, u64 offset)
{
	return transfer(store, READ, buf, len, offset, 0);
}

static int write_range(struct rd_store *store, const void *buf, size_t len, u64 offset,
		       unsigned int how)
{
	return transfer(store, WRITE, (void *)(uintptr_t)buf, len, offset, how);
}

/* --- holes */

/* The ranges from @from on that are in one object, until @to. */
static struct part *punch_part(struct request *request, const struct rd_range *ranges,
			       unsigned int from, unsigned int to)
{
	u64 object = ranges[from].offset / OBJECT;
	struct part *part;

	part = new_part(request, ZERO, object, to - from);
	for (; part && from < to; from++)
		part->slices[part->nr++] = (struct slice){
			NULL, ranges[from].offset % OBJECT, ranges[from].len, 0, 0
		};
	if (part && part->slices[0].len == OBJECT)
		part->kind = REMOVE;
	return part;
}

/* Each range lies in one object. */
static int punch_cut(struct rd_rados *rados, const struct rd_range *ranges, unsigned int nr)
{
	pthread_cond_t done = PTHREAD_COND_INITIALIZER;
	struct request request = {
		.rados = rados,
		.how = RD_WRITE_FULL,
		.done = &done,
		.busy = 1,
	};
	unsigned int from, to;
	struct part *part;

	for (from = 0; from < nr; from = to) {
		for (to = from + 1; to < nr; to++)
			if (ranges[to].offset / OBJECT != ranges[from].offset / OBJECT)
				break;
		part = punch_part(&request, ranges, from, to);
		if (!part)
			break;
		pthread_mutex_lock(&rados->lock);
		request.busy++;
		pthread_mutex_unlock(&rados->lock);
		start(part);
	}
	put_request(&request, from < nr ? -ENOMEM : 0);
	return wait_for(&request);
}

static int punch(struct rd_store *store, const struct rd_range *ranges, unsigned int nr)
{
	struct rd_range cut[DEPTH];
	unsigned int i, nr_cut = 0;
	int r = 0;

	for (i = 0; i < nr && !r; i++) {
		u64 offset = ranges[i].offset, end = offset + ranges[i].len, now;

		for (; offset < end && !r; offset += now) {
			now = rd_min(end, (offset / OBJECT + 1) * OBJECT) - offset;
			cut[nr_cut++] = (struct rd_range){ offset, now };
			if (nr_cut < DEPTH)
				continue;
			r = punch_cut(rd_rados_of(store), cut, nr_cut);
			nr_cut = 0;
		}
	}
	return r || !nr_cut ? r : punch_cut(rd_rados_of(store), cut, nr_cut);
}

/* --- the rest */

/* What a write is told of is stable. */
static int sync_all(struct rd_store *store)
{
	(void)store;
	return 0;
}

/* An object is data as a whole. Between its neighbours there is a hole. */
static off_t seek(struct rd_store *store, off_t offset, int whence)
{
	struct rd_rados *rados = rd_rados_of(store);
	u64 at = offset / OBJECT, *objects;
	size_t nr, low;
	int r;

	if (whence != SEEK_DATA) {
		errno = EOPNOTSUPP;
		return -1;
	}
	r = rados->has_objects ? 0 : rd_rados_list(rados);
	if (r) {
		errno = -r;
		return -1;
	}
	objects = (u64 *)rados->objects.data;
	nr = rados->objects.len / sizeof(*objects);
	low = rd_count_below(nr, i, objects[i] < at);
	if (low == nr) {
		errno = ENXIO;
		return -1;
	}
	return rd_max((u64)offset, objects[low] * OBJECT);
}

static int resize(struct rd_store *store, u64 bytes)
{
	struct rd_rados *rados = rd_rados_of(store);
	char text[24], epoch[RD_RADOS_EPOCH];
	rados_write_op_t op;
	int len, r;

	len = snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	pthread_mutex_lock(&rados->lock);
	rd_rados_print_epoch(epoch, rados->epoch);
	pthread_mutex_unlock(&rados->lock);
	op = rados->ceph.lib->create_write_op();
	rados->ceph.lib->write_op_cmpxattr(op, RD_RADOS_ATTR_EPOCH, LIBRADOS_CMPXATTR_OP_EQ, epoch,
				      RD_RADOS_EPOCH - 1);
	rados->ceph.lib->write_op_setxattr(op, "bytes", text, len);
	r = rd_rados_write_head(rados, RD_RADOS_HEAD, op);
	if (r == -ECANCELED) {
		rd_err(0, "'%s' has another epoch by now: its size was not changed",
		       rados->ceph.name);
		rd_hint("nothing was changed; repeat it");
		return -ESTALE;
	}
	if (!r)
		store->bytes = bytes;
	return r;
}

static u64 room(const struct rd_store *store)
{
	(void)store;
	return U64_MAX;
}

const struct rd_store_ops rd_rados_ops = {
	.read = read_range,
	.write = write_range,
	.submit = submit,
	.sync = sync_all,
	.punch = punch,
	.seek = seek,
	.resize = resize,
	.room = room,
	.close = rd_rados_close,
};
