// SPDX-License-Identifier: GPL-2.0
/* A disk that is read over NBD: see nbd.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sort.h"
#include "pool/data/ring.h"
#include "pool/data/store.h"
#include "libnbd.h"
#include "nbd.h"

#define ALLOCATION	"base:allocation"
#define BITMAP		"qemu:dirty-bitmap:"
/* Of base:allocation: it reads as zeros. Of a bitmap: it is dirty. */
#define STATE_ZERO	2
#define STATE_DIRTY	1
/* Of the disk, for one question where its holes are: an answer has lengths of 32 bits. */
#define WINDOW		(1U << 30)
#define LOOK_US		500000
/* So often a wait looks whether it is to stop. */
#define STEP_MS		200

/* What lies between the end of the run before and here. */
struct run {
	u64 end;
	bool is_data;
};

struct rd_nbd {
	struct rd_store store;
	const struct rd_libnbd *lib;
	struct nbd_handle *handle;
	struct rd_nbd_options options;
	const char *uri;
	char *bitmap;			/* its meta context, or NULL */
	bool tells_holes;

	struct rd_ring *ring;		/* while a snapshot reads */
	/* For the socket, while requests are in flight: it can be read; it can be written to. */
	struct waiter {
		struct rd_nbd *nbd;
		struct rd_op op;
		bool is_waiting;
	} readable, writable;
	struct rd_op alarm;		/* for a server that hangs */
	int timer;
	u64 looked;			/* when options.look() was called last */
	unsigned int in_flight;
	struct question *question;	/* that is to be answered, or NULL */

	/* The runs of [from, to), as the server said last. */
	struct rd_buffer runs;
	u64 from, to;
};

bool rd_nbd_is_uri(const char *text)
{
	static const char *const schemes[] = {
		"nbd://", "nbds://", "nbd+unix://", "nbds+unix://", "nbd+vsock://", "nbds+vsock://",
	};
	size_t i;

	for (i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (!strncmp(text, schemes[i], strlen(schemes[i])))
			return true;
	return false;
}

/* A server that sends nothing for so long, though it was asked, has failed. */
static int patience(void)
{
#ifdef RD_TEST
	if (getenv("REVDEDUP_NBD_SECONDS"))
		return atoi(getenv("REVDEDUP_NBD_SECONDS"));
#endif
	return 60;
}

static int tell_silence(const struct rd_nbd *nbd)
{
	rd_err(0, "the server of '%s' has not answered for %d seconds", nbd->uri, patience());
	return -ETIMEDOUT;
}

static int last_error(const struct rd_nbd *nbd)
{
	int error = nbd->lib->get_errno();

	return error ? -error : -EIO;
}

/* --- requests */

struct request {
	struct rd_nbd *nbd;
	struct rd_op *op;
};

static int end_request(void *user_data, int *error)
{
	struct request *request = user_data;

	request->nbd->in_flight--;
	/* When the handle is closed, the snapshot is gone, and what it had in flight. */
	if (request->nbd->ring)
		rd_ring_end(request->op, -*error);
	return 1;
}

static void set_alarm(struct rd_nbd *nbd)
{
	const struct itimerspec spec = { .it_value.tv_sec = patience() };

	timerfd_settime(nbd->timer, 0, &spec, NULL);
}

/* The connection ends, and with it all requests. */
static void cut_off(struct rd_nbd *nbd)
{
	int fd = nbd->lib->aio_get_fd(nbd->handle);

	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
}

static void look(struct rd_nbd *nbd)
{
	u64 now = rd_now_us();

	if (!nbd->options.look || now - nbd->looked <= LOOK_US)
		return;
	nbd->looked = now;
	nbd->options.look(nbd->options.ctx);
}

static void polled(struct rd_op *op, int r);

static void start_waiting(struct rd_nbd *nbd, struct waiter *waiter, short events)
{
	if (waiter->is_waiting)
		return;
	*waiter = (struct waiter){
		.nbd = nbd,
		.is_waiting = true,
		.op = {
			.kind = RD_OP_POLL,
			.fd = nbd->lib->aio_get_fd(nbd->handle),
			.events = events,
			.done = polled,
			.ctx = waiter,
		},
	};
	rd_ring_submit(nbd->ring, &waiter->op);
}

static void keep_polling(struct rd_nbd *nbd)
{
	unsigned int direction = nbd->lib->aio_get_direction(nbd->handle);

	if (nbd->in_flight && direction & LIBNBD_AIO_DIRECTION_READ)
		start_waiting(nbd, &nbd->readable, POLLIN);
	/* A write that the socket has no room for. */
	if (nbd->in_flight && direction & LIBNBD_AIO_DIRECTION_WRITE)
		start_waiting(nbd, &nbd->writable, POLLOUT);
}

/*
 * libnbd asks the socket once more: told to read where there is nothing, it would wait for an
 * answer with half of a write sent.
 */
static void polled(struct rd_op *op, int r)
{
	struct waiter *waiter = op->ctx;
	struct rd_nbd *nbd = waiter->nbd;

	(void)r;
	waiter->is_waiting = false;
	set_alarm(nbd);
	look(nbd);
	nbd->lib->poll(nbd->handle, 0);
	keep_polling(nbd);
}

static void start_alarm(struct rd_nbd *nbd);

static void alarmed(struct rd_op *op, int r)
{
	struct rd_nbd *nbd = op->ctx;
	u64 count;

	if (r)
		return;
	/* Nothing is read if it was set anew since. */
	if (read(nbd->timer, &count, sizeof(count)) > 0 && nbd->in_flight) {
		tell_silence(nbd);
		cut_off(nbd);
	}
	start_alarm(nbd);
}

static void start_alarm(struct rd_nbd *nbd)
{
	set_alarm(nbd);
	nbd->alarm = (struct rd_op){
		.kind = RD_OP_POLL,
		.fd = nbd->timer,
		.done = alarmed,
		.ctx = nbd,
	};
	rd_ring_submit(nbd->ring, &nbd->alarm);
}

/* --- what a snapshot calls */

static struct rd_nbd *nbd_of(struct rd_store *store)
{
	return (struct rd_nbd *)((char *)store - offsetof(struct rd_nbd, store));
}

static int begin(struct rd_store *store, struct rd_ring *ring)
{
	struct rd_nbd *nbd = nbd_of(store);

	nbd->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (nbd->timer < 0)
		return -errno;
	nbd->ring = ring;
	start_alarm(nbd);
	return 0;
}

/* The ring waits for what it polls before it is freed: let both come at once. */
static void end(struct rd_store *store)
{
	const struct itimerspec now = { .it_value.tv_nsec = 1 };
	struct rd_nbd *nbd = nbd_of(store);

	if (!nbd->ring)
		return;
	rd_ring_forget(nbd->ring);
	nbd->ring = NULL;
	if (nbd->options.end)
		nbd->options.end(nbd->options.ctx);
	/* If the server has ended it, this does nothing. */
	cut_off(nbd);
	timerfd_settime(nbd->timer, 0, &now, NULL);
}

static void submit(struct rd_store *store, struct rd_op *op)
{
	struct rd_nbd *nbd = nbd_of(store);
	size_t len = op->iov->iov_len;
	u64 left = op->offset < store->bytes ? store->bytes - op->offset : 0;
	struct request *request = malloc(sizeof(*request));
	nbd_completion_callback callback = {
		.callback = end_request,
		.user_data = request,
		.free = free,
	};

	i64 cookie;

	/* As with a file, there are zeros behind the end. */
	if (len > left && op->kind == RD_OP_READ) {
		memset((char *)op->iov->iov_base + left, 0, len - left);
		len = left;
	}
	if (!request) {
		rd_ring_end(op, -ENOMEM);
	} else {
		*request = (struct request){ nbd, op };
		if (!nbd->in_flight++)
			set_alarm(nbd);
		cookie = op->kind == RD_OP_READ ?
			nbd->lib->aio_pread(nbd->handle, op->iov->iov_base, len, op->offset,
					    callback, 0) :
			nbd->lib->aio_pwrite(nbd->handle, op->iov->iov_base, len, op->offset,
					     callback, 0);
		if (cookie < 0) {
			nbd->in_flight--;
			rd_ring_end(op, last_error(nbd));
		}
	}
	keep_polling(nbd);
}

/* --- what it is asked about ranges */

/* A question about a part of the disk, in one meta context. */
struct question {
	const char *context;
	u64 offset;		/* what was answered ends here */
	void (*add)(struct question *question, u64 end, u32 flags);
	struct rd_buffer *into;
	bool is_wrong;
};

static int take_answer(void *user_data, const char *context, uint64_t offset, uint32_t *entries,
		       size_t nr_entries, int *error)
{
	struct rd_nbd *nbd = user_data;
	struct question *question = nbd->question;
	size_t i;

	(void)error;
	/* An answer that nothing waits for any more comes late. */
	if (!question || strcmp(context, question->context))
		return 0;
	question->is_wrong |= offset != question->offset;
	for (i = 0; i + 1 < nr_entries && !question->is_wrong; i += 2) {
		u64 start = question->offset;

		/* The last may reach beyond what was asked, and even beyond the disk. */
		question->is_wrong = !entries[i];
		question->offset += entries[i];
		question->add(question, start, entries[i + 1]);
	}
	return 0;
}

/* Serve the socket until something comes. *@since: when something did. */
static int wait_a_bit(struct rd_nbd *nbd, u64 *since)
{
	int r = nbd->lib->poll(nbd->handle, STEP_MS);

	look(nbd);
	if (nbd->options.stop && *nbd->options.stop)
		return -EINTR;
	if (r < 0)
		return last_error(nbd);
	if (r)
		*since = rd_now_us();
	if (rd_now_us() - *since < patience() * 1000000ULL)
		return 0;
	return tell_silence(nbd);
}

/* Serve the socket until @cookie has been answered. */
static int wait_for(struct rd_nbd *nbd, i64 cookie)
{
	u64 since = rd_now_us();
	int r = cookie < 0 ? last_error(nbd) : 0, done = 0;

	while (!r && !(done = nbd->lib->aio_command_completed(nbd->handle, cookie)))
		r = wait_a_bit(nbd, &since);
	if (done < 0)
		r = last_error(nbd);
	else if (r == -ETIMEDOUT || r == -EINTR)
		cut_off(nbd);
	nbd->question = NULL;
	return r;
}

static int flush(struct rd_store *store)
{
	struct rd_nbd *nbd = nbd_of(store);
	int r;

	if (nbd->lib->can_flush(nbd->handle) <= 0)
		return 0;
	r = wait_for(nbd, nbd->lib->aio_flush(nbd->handle, (nbd_completion_callback){ 0 }, 0));
	return r ? rd_err(r, "cannot flush '%s'", nbd->uri) : 0;
}

/* Ask about the disk from question->offset on, for some of it. */
static int ask(struct rd_nbd *nbd, struct question *question)
{
	u64 from = question->offset, len = rd_min((u64)WINDOW, nbd->store.bytes - from);
	nbd_extent_callback callback = { .callback = take_answer, .user_data = nbd };
	i64 cookie;
	int r;

	nbd->question = question;
	cookie = nbd->lib->aio_block_status(nbd->handle, len, from, callback,
					    (nbd_completion_callback){ 0 }, 0);
	r = wait_for(nbd, cookie);
	if (r)
		return r;
	if (question->is_wrong || question->offset == from)
		return -EPROTO;
	question->offset = rd_min(question->offset, nbd->store.bytes);
	return question->into->failed ? -ENOMEM : 0;
}

/* --- holes */

static void add_run(struct question *question, u64 start, u32 flags)
{
	struct run run = { .end = question->offset, .is_data = !(flags & STATE_ZERO) };
	struct run *last = NULL;

	(void)start;
	if (question->into->len)
		last = (struct run *)(question->into->data + question->into->len) - 1;
	if (last && last->is_data == run.is_data)
		last->end = run.end;
	else
		rd_buffer_put(question->into, &run, sizeof(run));
}

static int load_runs(struct rd_nbd *nbd, u64 offset)
{
	struct question question = {
		.context = ALLOCATION,
		.offset = offset,
		.add = add_run,
		.into = &nbd->runs,
	};
	int r;

	nbd->runs.len = 0;
	nbd->from = offset;
	nbd->to = offset;
	r = ask(nbd, &question);
	if (!r)
		nbd->to = question.offset;
	return r;
}

/* The first run that ends behind @offset, which is in the window. */
static const struct run *find_run(const struct rd_nbd *nbd, u64 offset)
{
	const struct run *runs = (const struct run *)nbd->runs.data;

	return &runs[rd_count_below(nbd->runs.len / sizeof(*runs) - 1, i, runs[i].end <= offset)];
}

static off_t seek(struct rd_store *store, off_t offset, int whence)
{
	struct rd_nbd *nbd = nbd_of(store);
	const struct run *run;
	u64 at = offset;

	while (at < store->bytes && nbd->tells_holes) {
		if ((at < nbd->from || at >= nbd->to) && load_runs(nbd, at)) {
			errno = EIO;
			return -1;
		}
		run = find_run(nbd, at);
		if (whence == SEEK_DATA ? run->is_data : !run->is_data)
			return at;
		at = rd_min(run->end, nbd->to);
	}
	if (at < store->bytes)
		return whence == SEEK_DATA ? at : store->bytes;
	if (whence == SEEK_HOLE)
		return store->bytes;
	errno = ENXIO;
	return -1;
}

/* --- what is dirty */

static void add_range(struct rd_buffer *ranges, u64 start, u64 end)
{
	struct rd_changed_range range = { .offset = start, .len = end - start };
	struct rd_changed_range *last = NULL;

	if (ranges->len)
		last = (struct rd_changed_range *)(ranges->data + ranges->len) - 1;
	if (last && last->offset + last->len >= start)
		last->len = rd_max(last->offset + last->len, end) - last->offset;
	else
		rd_buffer_put(ranges, &range, sizeof(range));
}

static void add_dirty(struct question *question, u64 start, u32 flags)
{
	if (flags & STATE_DIRTY)
		add_range(question->into, start >> RD_SEG_SHIFT << RD_SEG_SHIFT,
			  rd_round_up(question->offset, RD_SEG_SIZE));
}

bool rd_nbd_has_bitmap(const struct rd_nbd *nbd)
{
	return nbd->bitmap && nbd->lib->can_meta_context(nbd->handle, nbd->bitmap) > 0;
}

/* Append the zeros that may have been cut off and be there again: see nbd.h. */
static int add_zeros(struct rd_nbd *nbd, struct rd_buffer *zeros)
{
	u64 size = nbd->store.bytes, start, end = 0;
	off_t at;

	while (end < size) {
		at = seek(&nbd->store, end, SEEK_HOLE);
		if (at < 0)
			return -EIO;
		start = at;
		at = seek(&nbd->store, start, SEEK_DATA);
		if (at < 0 && errno != ENXIO)
			return -EIO;
		end = at < 0 ? size : (u64)at;
		if (start < size && (end == size || end >> RD_SEG_SHIFT != start >> RD_SEG_SHIFT))
			add_range(zeros, start >> RD_SEG_SHIFT << RD_SEG_SHIFT,
				  end == size ? size : end >> RD_SEG_SHIFT << RD_SEG_SHIFT);
	}
	return zeros->failed ? -ENOMEM : 0;
}

/* Merge two lists, each in order, into @ret. */
static int merge(const struct rd_buffer *a, const struct rd_buffer *b, struct rd_buffer *ret)
{
	const struct rd_changed_range *from[2] = { (void *)a->data, (void *)b->data };
	const struct rd_changed_range *end[2] = { (void *)(a->data + a->len),
						  (void *)(b->data + b->len) };
	unsigned int i;

	while (from[0] < end[0] || from[1] < end[1]) {
		i = from[0] == end[0] || (from[1] < end[1] && from[1]->offset < from[0]->offset);
		add_range(ret, from[i]->offset, from[i]->offset + from[i]->len);
		from[i]++;
	}
	return ret->failed ? -ENOMEM : 0;
}

int rd_nbd_dirty(struct rd_nbd *nbd, struct rd_buffer *ret)
{
	RD_BUFFER struct rd_buffer dirty = { 0 }, zeros = { 0 };
	struct question question = { .context = nbd->bitmap, .add = add_dirty, .into = &dirty };
	int r = 0;

	while (!r && question.offset < nbd->store.bytes)
		r = ask(nbd, &question);
	if (!r)
		r = add_zeros(nbd, &zeros);
	if (!r)
		r = merge(&dirty, &zeros, ret);
	return r && r != -EINTR && r != -ENOMEM ?
		rd_err(r, "cannot read the bitmap '%s' of '%s'", nbd->options.bitmap, nbd->uri) : r;
}

/* --- the connection */

/* Wait until the server has said what it has. */
static int wait_ready(struct rd_nbd *nbd)
{
	const struct rd_libnbd *lib = nbd->lib;
	u64 since = rd_now_us();
	int r = 0;

	while (!r && lib->aio_is_connecting(nbd->handle) > 0)
		r = wait_a_bit(nbd, &since);
	if (r == -ETIMEDOUT || r == -EINTR)
		return r;
	if (lib->aio_is_ready(nbd->handle) > 0)
		return 0;
	rd_err(0, "cannot connect to '%s': %s", nbd->uri, lib->get_error() ? : "it was refused");
	return last_error(nbd);
}

/* Reads are of 4 KiB to 2 MiB, at multiples of 4 KiB. */
static int check_sizes(struct rd_nbd *nbd)
{
	i64 least = nbd->lib->get_block_size(nbd->handle, LIBNBD_SIZE_MINIMUM);
	i64 most = nbd->lib->get_block_size(nbd->handle, LIBNBD_SIZE_MAXIMUM);
	i64 size = nbd->lib->get_size(nbd->handle);

	if (size < 0)
		return rd_err(0, "'%s': %s", nbd->uri, nbd->lib->get_error()), last_error(nbd);
	nbd->store.bytes = size;
	if (nbd->store.bytes > RD_VERSION_MAX)
		return rd_err(-EFBIG, "'%s' has %llu bytes", nbd->uri, nbd->store.bytes);
	if (least <= RD_BLOCK_SIZE && (most <= 0 || most >= RD_SEG_SIZE))
		return 0;
	rd_err(0, "the server of '%s' takes requests of %lld to %lld bytes, and must take 4096 to %d",
	       nbd->uri, least, most, RD_SEG_SIZE);
	return -EOPNOTSUPP;
}

static int connect_to(struct rd_nbd *nbd)
{
	char **argv = nbd->options.argv;
	const struct rd_libnbd *lib = nbd->lib;
	int r;

	nbd->handle = lib->create();
	if (!nbd->handle)
		return -ENOMEM;
	/* A read that fails ends the snapshot, and what it had is not looked at. */
	lib->set_pread_initialize(nbd->handle, false);
	lib->set_uri_allow_local_file(nbd->handle, true);
	if (lib->add_meta_context(nbd->handle, ALLOCATION) ||
	    (nbd->bitmap && lib->add_meta_context(nbd->handle, nbd->bitmap)) ||
	    (argv ? lib->aio_connect_systemd_socket_activation(nbd->handle, argv) :
	     lib->aio_connect_uri(nbd->handle, nbd->uri))) {
		rd_err(0, "cannot connect to '%s': %s", nbd->uri, lib->get_error());
		return last_error(nbd);
	}
	r = wait_ready(nbd);
	if (!r)
		r = check_sizes(nbd);
	nbd->tells_holes = !r && lib->can_meta_context(nbd->handle, ALLOCATION) > 0;
	return r;
}

static const struct rd_store_ops ops = {
	.begin = begin,
	.submit = submit,
	.sync = flush,
	.seek = seek,
	.end = end,
};

int rd_nbd_open(struct rd_nbd **ret, const struct rd_nbd_options *options)
{
	struct rd_nbd *nbd = calloc(1, sizeof(*nbd));
	int r;

	*ret = nbd;
	if (!nbd)
		return -ENOMEM;
	nbd->store = (struct rd_store){ .ops = &ops, .caps = RD_STORE_HOLES, .fd = -1 };
	nbd->timer = -1;
	nbd->options = *options;
	nbd->uri = options->uri;
	if (options->bitmap && asprintf(&nbd->bitmap, BITMAP "%s", options->bitmap) < 0) {
		nbd->bitmap = NULL;
		return -ENOMEM;
	}
	r = rd_libnbd_load(&nbd->lib);
	return r ? r : connect_to(nbd);
}

void rd_nbd_close(struct rd_nbd *nbd)
{
	if (!nbd)
		return;
	if (nbd->handle)
		nbd->lib->close(nbd->handle);
	if (nbd->timer >= 0)
		close(nbd->timer);
	rd_buffer_free(&nbd->runs);
	free(nbd->bitmap);
	free(nbd);
}

bool rd_nbd_is_read_only(const struct rd_nbd *nbd)
{
	return nbd->lib->is_read_only(nbd->handle) != 0;
}

struct rd_store *rd_nbd_store(struct rd_nbd *nbd)
{
	return &nbd->store;
}
