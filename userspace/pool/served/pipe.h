/* SPDX-License-Identifier: GPL-2.0 */
/* A disk that comes once, from its beginning to its end, down a pipe: see pool/data/store.h. */
#ifndef RD_PIPE_H
#define RD_PIPE_H

#include "pool/data/store.h"

struct rd_pipe {
	struct rd_store store;
	int fd;
	u64 at;				/* so far it was read */
	const volatile int *stop;	/* not 0: the user has asked to stop */
};

/* Read a disk of @size bytes from @fd. */
void rd_pipe_open(struct rd_pipe *pipe, int fd, u64 size, const volatile int *stop);
/* All was read: does it end there? -EFBIG. Says what is wrong. */
int rd_pipe_check_end(struct rd_pipe *pipe);

#endif
