/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hooks of the tests: named steps that stop, kill or fail a command, and a trace of
 * everything that is written. A build without RD_TEST has neither.
 */
#ifndef RD_INJECT_H
#define RD_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "units.h"

/*
 * Steps
 *
 *	REVDEDUP_FAIL=NAME[:N]=kill|stop|EIO|ENOSPC|short[,NAME...]
 *
 * acts when a command reaches the step NAME for the Nth time (without N, the first). The
 * name "any" counts every step. "short" cuts transfers in two, the Nth and all later
 * ones. What follows a comma begins to count when the one before it has acted.
 * REVDEDUP_FAIL_LOG=FILE gets the name of each step that is reached, and, after
 * "!", that of the step that acts.
 */
#ifdef RD_TEST
/* Reach a step: 0, or the -errno that it fails with. */
int rd_failpoint(const char *name);
/* Reach a step that reads or writes. *@ret_short: the transfer is to be cut in two. */
int rd_transfer_point(const char *name, bool *ret_short);
#else
static inline int rd_failpoint(const char *name)
{
	(void)name;
	return 0;
}

static inline int rd_transfer_point(const char *name, bool *ret_short)
{
	(void)name;
	*ret_short = false;
	return 0;
}
#endif

/* Return the length of the first part of a short transfer of @len bytes: whole blocks. */
static inline size_t rd_cut(size_t len)
{
	return len > 4096 ? (len / 2 + 4095) / 4096 * 4096 : len > 512 ? 512 : len;
}

/*
 * The trace: writes, flushes and holes of the data area and of the catalog's files, in
 * order, for the test that cuts the power.
 */

/* These stand for the catalog's files, in place of a file descriptor. */
#define RD_TRACE_CATALOG	(-2)
#define RD_TRACE_LOG		(-3)	/* catalog.db-wal */
#define RD_TRACE_PAGES		(-4)	/* catalog.db-pages */

struct rd_tracer {
	/* A write begins, and has ended well: it may be stable at any moment between. */
	u64 (*write)(int fd, const struct iovec *iov, unsigned int nr_iov, u64 offset);
	void (*written)(u64 id);
	/* Writes that had ended when a flush began are stable when it has ended. */
	u64 (*sync)(int fd);
	void (*synced)(u64 id);
	void (*punch)(int fd, u64 offset, u64 len);
	void (*cut)(int fd, u64 size);
	void (*removed)(int fd);
};

#ifdef RD_TEST
/* Set while no thread writes. */
extern const struct rd_tracer *rd_tracer;
#else
static const struct rd_tracer *const rd_tracer;
#endif

static inline u64 rd_trace_write(int fd, const struct iovec *iov, unsigned int nr_iov,
				 u64 offset)
{
	return rd_tracer ? rd_tracer->write(fd, iov, nr_iov, offset) : 0;
}

static inline u64 rd_trace_buffer(int fd, const void *buf, size_t len, u64 offset)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

	return rd_trace_write(fd, &iov, 1, offset);
}

static inline void rd_trace_written(u64 id)
{
	if (rd_tracer)
		rd_tracer->written(id);
}

static inline u64 rd_trace_sync(int fd)
{
	return rd_tracer ? rd_tracer->sync(fd) : 0;
}

static inline void rd_trace_synced(u64 id)
{
	if (rd_tracer)
		rd_tracer->synced(id);
}

static inline void rd_trace_punch(int fd, u64 offset, u64 len)
{
	if (rd_tracer)
		rd_tracer->punch(fd, offset, len);
}

static inline void rd_trace_cut(int fd, u64 size)
{
	if (rd_tracer)
		rd_tracer->cut(fd, size);
}

static inline void rd_trace_removed(int fd)
{
	if (rd_tracer)
		rd_tracer->removed(fd);
}

#endif
