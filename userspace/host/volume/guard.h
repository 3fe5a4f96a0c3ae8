/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Undo something even if the command is killed: a process of its own waits for the end
 * of the command.
 */
#ifndef RD_GUARD_H
#define RD_GUARD_H

#include <sys/types.h>

#include "host/sys/dm.h"

struct rd_guard {
	/*
	 * Runs in that process, once: when rd_guard_end() tells it to, when the command is
	 * gone, or when the time is over. @is_alone: one of the last two.
	 */
	int (*end)(void *ctx, bool is_alone);
	void *ctx;
	int limit_ms;		/* -1: for as long as it takes */

	pid_t pid;
	int fd;
};

int rd_guard_begin(struct rd_guard *guard);
/*
 * Have @end run, and wait for it. -EIO: it did not return 0; -ETIME: the time was over
 * before.
 */
int rd_guard_end(struct rd_guard *guard);

/*
 * Do something while a device is suspended. If the command dies meanwhile a guard resumes
 * the device.
 */
struct rd_pause {
	const char *device;
	/* Another device that @work suspends, to be resumed before @device; or NULL. */
	const char *inner;
	/* The program to run, with arguments, where it cannot be resumed; or NULL. */
	char *const *repeat;
	int (*work)(void *ctx);
	void *ctx;
	u64 usec;		/* that I/O waited */
};

/*
 * Suspend, work, resume. 0 or the first error. *@ret_resumed: the result of resuming, which
 * is tried whatever @work returns.
 */
int rd_pause(struct rd_pause *pause, int *ret_resumed);

#endif
