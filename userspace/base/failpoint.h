/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Named steps at which a test stops, kills or fails a command. A build without
 * RD_TEST has none of this.
 *
 *	REVDEDUP_FAIL=NAME[:N]=kill|stop|EIO|ENOSPC|short
 *
 * acts when the step NAME is reached for the Nth time (1 if not said); the
 * name "any" counts every step. "short" cuts transfers in two, the Nth and all
 * that come after it. REVDEDUP_FAIL_LOG=FILE gets the name of each step that is
 * reached, and then that of the one that acts once more, after "!".
 */
#ifndef RD_FAILPOINT_H
#define RD_FAILPOINT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef RD_TEST
/* 0, or the -errno that the step fails with. */
int rd_failpoint(const char *name);
/* The same of a read or write; *@ret_short: not all of it is to be done. */
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

/* How much of @len bytes a short transfer is: whole blocks, as long as it can. */
static inline size_t rd_cut(size_t len)
{
	return len > 4096 ? (len / 2 + 4095) / 4096 * 4096 : len > 512 ? 512 : len;
}

#endif
