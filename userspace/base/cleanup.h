/* SPDX-License-Identifier: GPL-2.0 */
/* What a function gives back on every way out. No goto beside these. */
#ifndef RD_CLEANUP_H
#define RD_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void rd_free_p(void *p)
{
	free(*(void **)p);
}

static inline void rd_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define RD_FREE		__attribute__((cleanup(rd_free_p)))
#define RD_CLOSE	__attribute__((cleanup(rd_close_p)))

#endif
