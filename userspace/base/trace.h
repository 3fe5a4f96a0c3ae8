/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What goes to the data area and to the catalog's files, in order, for the test
 * that cuts the power. A build without RD_TEST has none of this.
 */
#ifndef RD_TRACE_H
#define RD_TRACE_H

#include <sys/uio.h>

#include "units.h"

/* The catalog's files, where others have a file descriptor. */
#define RD_TRACE_CATALOG	(-2)
#define RD_TRACE_LOG		(-3)	/* catalog.db-wal */
#define RD_TRACE_PAGES		(-4)	/* catalog.db-pages */

struct rd_tracer {
	/* A write begins, and has ended well: it may be stable at any moment between. */
	u64 (*write)(int fd, const struct iovec *iov, unsigned int nr_iov, u64 offset);
	void (*written)(u64 id);
	/* What had ended when a flush began is stable when it has ended. */
	u64 (*sync)(int fd);
	void (*synced)(u64 id);
	void (*punch)(int fd, u64 offset, u64 len);
	void (*cut)(int fd, u64 size);
	void (*removed)(int fd);
};

#ifdef RD_TEST
/* Set while nobody writes. */
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
