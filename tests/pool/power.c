// SPDX-License-Identifier: GPL-2.0
/* Files after a power cut. See power.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inject.h"
#include "power.h"

#define SECTOR	512
#define NEVER	((size_t)-1)
/* Only what is used takes memory. */
#define MAX_EVENTS	(1U << 22)
#define MAX_BYTES	(16ULL << 30)

enum file { DATA, CATALOG, PAGES, LOG, NR_FILES };

static const char *const names[NR_FILES] = {
	"data", "catalog.db", "catalog.db-pages", "catalog.db-wal",
};

enum kind { WRITE, PUNCH, CUT, SYNC, REMOVE };

struct event {
	enum kind kind;
	enum file file;
	size_t ended;		/* how many events there were then */
	u64 offset, len;
	u8 *content;		/* of a write */
};

/* Processes that are forked share all of it: they may be killed. */
static struct event *events;
static struct noted {
	size_t nr;		/* events */
	size_t used;		/* bytes of what was written */
} *noted;
static u8 *contents;
static ino_t data_ino;

/* What is stable at the last cut, in files of our own, and what was not. */
static int stable[NR_FILES] = { -1, -1, -1, -1 };
static size_t done, *pending, nr_pending;
/* The log as it is now begins after this event. */
static size_t log_begin;
/* A flush of each that has ended began here, last. */
static size_t flushed[NR_FILES];

__attribute__((noreturn))
static void die(const char *what)
{
	fprintf(stderr, "power: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- noting */

static u64 note(enum kind kind, enum file file, u64 offset, u64 len)
{
	if (noted->nr == MAX_EVENTS)
		die("too much is written");
	events[noted->nr] = (struct event){
		.kind = kind,
		.file = file,
		.ended = NEVER,
		.offset = offset,
		.len = len,
	};
	return noted->nr++;
}

/* Or is it nothing that we care about, such as the target of a restore? */
static bool is_ours(int fd, enum file *ret)
{
	struct stat st;

	if (fd <= RD_TRACE_CATALOG) {
		*ret = fd == RD_TRACE_CATALOG ? CATALOG : fd == RD_TRACE_PAGES ? PAGES : LOG;
		return true;
	}
	*ret = DATA;
	return fd >= 0 && !fstat(fd, &st) && st.st_ino == data_ino;
}

static u64 trace_write(int fd, const struct iovec *iov, unsigned int nr_iov, u64 offset)
{
	u64 id, len = 0;
	enum file file;
	unsigned int i;

	if (!is_ours(fd, &file))
		return NEVER;
	for (i = 0; i < nr_iov; i++)
		len += iov[i].iov_len;
	id = note(WRITE, file, offset, len);
	if (noted->used + len > MAX_BYTES)
		die("too much is written");
	events[id].content = contents + noted->used;
	noted->used += len;
	for (i = 0, len = 0; i < nr_iov; len += iov[i++].iov_len)
		memcpy(events[id].content + len, iov[i].iov_base, iov[i].iov_len);
	return id;
}

static void trace_ended(u64 id)
{
	if (id != NEVER)
		events[id].ended = noted->nr;
}

static u64 trace_sync(int fd)
{
	enum file file;

	return is_ours(fd, &file) ? note(SYNC, file, 0, 0) : NEVER;
}

static void trace_punch(int fd, u64 offset, u64 len)
{
	enum file file;

	if (is_ours(fd, &file))
		trace_ended(note(PUNCH, file, offset, len));
}

static void trace_cut(int fd, u64 size)
{
	enum file file;

	if (is_ours(fd, &file))
		trace_ended(note(CUT, file, size, 0));
}

static void trace_removed(int fd)
{
	enum file file;

	if (is_ours(fd, &file))
		note(REMOVE, file, 0, 0);
}

static const struct rd_tracer tracer = {
	.write = trace_write,
	.written = trace_ended,
	.sync = trace_sync,
	.synced = trace_ended,
	.punch = trace_punch,
	.cut = trace_cut,
	.removed = trace_removed,
};

/* --- files */

static int open_in(const char *directory, enum file file, int flags)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, names[file]);
	fd = open(path, flags, 0600);
	if (fd < 0)
		die(path);
	return fd;
}

static void copy(int from, int to)
{
	static u8 buf[1 << 20];
	off_t at = 0, end;
	struct stat st;

	if (fstat(from, &st) || ftruncate(to, 0) || ftruncate(to, st.st_size))
		die("cannot copy");
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		end = lseek(from, at, SEEK_HOLE);
		while (at < end) {
			size_t len = rd_min(end - at, sizeof(buf));

			if (pread(from, buf, len, at) != (ssize_t)len ||
			    pwrite(to, buf, len, at) != (ssize_t)len)
				die("cannot copy");
			at += len;
		}
	}
}

static void *share(size_t len)
{
	void *r = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (r == MAP_FAILED)
		die("no memory");
	return r;
}

void power_begin(const char *pool)
{
	enum file file;
	struct stat st;
	int fd;

	events = share(MAX_EVENTS * sizeof(*events));
	noted = share(sizeof(*noted));
	contents = share(MAX_BYTES);
	for (file = DATA; file < LOG; file++) {
		fd = open_in(pool, file, O_RDONLY);
		stable[file] = memfd_create(names[file], 0);
		if (stable[file] < 0 || fstat(fd, &st))
			die("cannot begin");
		if (file == DATA)
			data_ino = st.st_ino;
		copy(fd, stable[file]);
		close(fd);
	}
	rd_tracer = &tracer;
}

size_t power_now(void)
{
	return noted->nr;
}

size_t power_next_commit(size_t at)
{
	size_t i;

	for (i = at; i < noted->nr; i++)
		if (events[i].kind == SYNC && events[i].file == LOG && events[i].ended != NEVER)
			return rd_min(events[i].ended, noted->nr - 1);
	return at;
}

size_t power_next_super(size_t begin, size_t end, size_t otherwise)
{
	size_t i;

	for (i = begin; i < end; i++)
		/* The first copy, which is where the data begins. */
		if (events[i].kind == WRITE && events[i].file == DATA && !events[i].offset)
			return i + 1;
	return otherwise;
}

/* Was it written before the process ended? A write that was is as any other one, */
static bool has_landed(const char *pool, const struct event *event)
{
	char path[512];
	bool same;
	u8 *now;
	int fd;

	if (event->kind != WRITE)
		return true;
	snprintf(path, sizeof(path), "%s/%s", pool, names[event->file]);
	fd = open(path, O_RDONLY);
	now = malloc(event->len);
	if (!now)
		die("no memory");
	same = fd >= 0 && pread(fd, now, event->len, event->offset) == (ssize_t)event->len &&
		!memcmp(now, event->content, event->len);
	free(now);
	if (fd >= 0)
		close(fd);
	return same;
}

/* and one that was not has not begun. */
void power_killed(size_t since, const char *pool)
{
	struct event *event;

	for (event = events + since; event < events + noted->nr; event++) {
		if (event->ended != NEVER || event->kind == SYNC || event->kind == REMOVE)
			continue;
		if (!has_landed(pool, event))
			event->len = 0;
		event->ended = noted->nr;
	}
}

void power_end(void)
{
	rd_tracer = NULL;
	pending = malloc((noted->nr + 1) * sizeof(*pending));
	if (!pending)
		die("no memory");
}

/* --- cutting */

static void apply_part(int fd, const struct event *event, u64 offset, u64 len)
{
	switch (event->kind) {
	case WRITE:
		if (pwrite(fd, event->content + offset, len, event->offset + offset) !=
		    (ssize_t)len)
			die("cannot write");
		break;
	case PUNCH:
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      event->offset + offset, len))
			die("cannot punch");
		break;
	default:
		if (ftruncate(fd, event->offset))
			die("cannot cut");
	}
}

static void apply(int fd, const struct event *event)
{
	apply_part(fd, event, 0, event->len);
}

/* Each sector with a probability of @of_4 in 4; 4: all, 0: none. */
static void apply_some(int fd, const struct event *event, unsigned int of_4,
		       u64 (*below)(u64 limit))
{
	u64 offset;

	if (of_4 == 4 || (event->kind == CUT && of_4 >= 2)) {
		apply(fd, event);
		return;
	}
	for (offset = 0; of_4 && offset < event->len; offset += SECTOR)
		if (below(4) < of_4)
			apply_part(fd, event, offset, rd_min(SECTOR, event->len - offset));
}

static bool is_stable(const struct event *event)
{
	return event->ended != NEVER && event->ended <= flushed[event->file];
}

/* Which flushes have ended, and what is new, up to @at. */
static void advance(size_t at)
{
	size_t i, nr = 0;

	for (i = 0; i < at; i++)
		if (events[i].kind == SYNC && events[i].ended <= at && i > flushed[events[i].file])
			flushed[events[i].file] = i;
	for (; done < at; done++)
		if (events[done].file != LOG && events[done].kind != SYNC)
			pending[nr_pending++] = done;
	for (i = 0; i < nr_pending; i++) {
		const struct event *event = &events[pending[i]];

		if (is_stable(event))
			apply(stable[event->file], event);
		else
			pending[nr++] = pending[i];
	}
	nr_pending = nr;
}

/* The log is written anew each time: it is short. */
static void cut_log(size_t at, const char *to, unsigned int of_4, u64 (*below)(u64 limit))
{
	size_t i, begin = log_begin, end = at;
	char path[512];
	int fd = -1;

	for (i = log_begin; i < at; i++) {
		if (events[i].kind != REMOVE)
			continue;
		/* Not yet removed, and what is written since is to a file without a name. */
		if (flushed[LOG] < i && below(2)) {
			end = i;
			break;
		}
		begin = i + 1;
		if (flushed[LOG] > i)
			log_begin = begin;
	}
	snprintf(path, sizeof(path), "%s/%s", to, names[LOG]);
	unlink(path);
	for (i = begin; i < end; i++) {
		if (events[i].file != LOG || events[i].kind == SYNC)
			continue;
		if (fd < 0)
			fd = open_in(to, LOG, O_RDWR | O_CREAT);
		if (is_stable(&events[i]))
			apply(fd, &events[i]);
		else
			apply_some(fd, &events[i], of_4, below);
	}
	if (fd >= 0)
		close(fd);
}

/* The newest write to a file, if it is to be there whole: what is lost in its place is order. */
static size_t choose_whole(enum file file, u64 (*below)(u64 limit))
{
	size_t i = nr_pending;

	while (i && events[pending[i - 1]].file != file)
		i--;
	return i && below(2) ? i - 1 : NEVER;
}

void power_cut(size_t at, const char *to, u64 (*below)(u64 limit))
{
	/* What was not flushed, of each file: all of it, most, some, little, nothing. */
	unsigned int of_4[NR_FILES] = { below(5), below(5), below(5), below(5) };
	enum file file;
	size_t i, whole;
	int fd;

	advance(at);
	for (file = DATA; file < LOG; file++) {
		whole = choose_whole(file, below);
		fd = open_in(to, file, O_RDWR | O_CREAT);
		copy(stable[file], fd);
		for (i = 0; i < nr_pending; i++) {
			const struct event *event = &events[pending[i]];

			if (i == whole)
				apply(fd, event);
			/* Some writes go their own way. */
			else if (event->file == file)
				apply_some(fd, event, below(8) ? of_4[file] : below(5), below);
		}
		close(fd);
	}
	cut_log(at, to, of_4[LOG], below);
}
