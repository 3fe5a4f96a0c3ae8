/* SPDX-License-Identifier: GPL-2.0 */
/* Which processes have a file or device open. */
#ifndef RD_OPENERS_H
#define RD_OPENERS_H

#include <sys/types.h>

#include "base/buffer.h"

#define RD_OPENER_TEXT	120

struct rd_opener {
	pid_t pid;
	char command[RD_OPENER_TEXT];	/* its arguments, or how they begin */
};

/*
 * Append a struct rd_opener for each other process that has the file or device @path open, and one
 * for those that a process has forked for the same command.
 * Processes of other users are seen by root alone.
 */
void rd_openers(const char *path, struct rd_buffer *ret);

#endif
