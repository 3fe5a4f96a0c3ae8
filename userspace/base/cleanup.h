/* SPDX-License-Identifier: GPL-2.0 */
/* Attributes for what a function frees on every way out. Do not mix them with goto. */
#ifndef RD_CLEANUP_H
#define RD_CLEANUP_H

#include <dirent.h>
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

static inline void rd_closedir_p(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define RD_FREE		__attribute__((cleanup(rd_free_p)))
#define RD_CLOSE	__attribute__((cleanup(rd_close_p)))
#define RD_DIR		__attribute__((cleanup(rd_closedir_p)))

#endif
