/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What must be undone, whatever the command dies of: a process of its own waits for
 * the end of the command meanwhile.
 */
#ifndef RD_GUARD_H
#define RD_GUARD_H

#include <sys/types.h>

#include "host/sys/dm.h"

struct rd_guard {
	/*
	 * Runs in that process, once: when it is told to by rd_guard_end(), when the
	 * command is gone, or when the time is over; @is_alone: one of the last two.
	 */
	int (*end)(void *ctx, bool is_alone);
	void *ctx;
	int limit_ms;		/* -1: for as long as it takes */

	pid_t pid;
	int fd;
};

int rd_guard_begin(struct rd_guard *guard);
/*
 * Has run @end when it returns: 0, -EIO where that did not return 0, -ETIME where the
 * time was over before.
 */
int rd_guard_end(struct rd_guard *guard);

/*
 * Do something while a device is suspended. Nobody may be left so: should the command
 * die, a guard resumes what is suspended.
 */
struct rd_pause {
	const char *device;
	/* Another one that @work suspends, which is to be resumed before it; or NULL. */
	const char *inner;
	/* Where it cannot be resumed, this program is run with that instead; or NULL. */
	char *const *repeat;
	int (*work)(void *ctx);
	void *ctx;
	u64 usec;		/* that those above had to wait */
};

/*
 * 0, or the first error. *@ret_resumed: what came of resuming it, which is tried
 * whatever @work says.
 */
int rd_pause(struct rd_pause *pause, int *ret_resumed);

#endif
