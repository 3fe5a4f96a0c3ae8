/* SPDX-License-Identifier: GPL-2.0 */
/* Attributes for what a function frees on every way out. Do not mix them with goto. */
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
