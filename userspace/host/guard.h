/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Do something while a device is suspended. Nobody may be left so: a process of its
 * own waits for the end of the command meanwhile, and should that die, whatever of,
 * resumes what is suspended.
 */
#ifndef RD_GUARD_H
#define RD_GUARD_H

#include "dm.h"

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
