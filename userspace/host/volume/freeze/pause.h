/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Devices that are suspended for a moment, and resumed even if the command is killed.
 */
#ifndef RD_PAUSE_H
#define RD_PAUSE_H

#include "host/sys/dm.h"

struct rd_paused {
	char device[RD_DM_NAME_MAX];
	/* Another device that @work suspends, to be resumed before @device; or "". */
	char inner[RD_DM_NAME_MAX];
	unsigned int flags;	/* of the suspend */
};

/*
 * Do something while all of them are suspended. If the command dies meanwhile a guard resumes
 * them.
 */
struct rd_pause {
	const struct rd_paused *devices;
	unsigned int nr;
	/* The program to run, with arguments, where one cannot be resumed; or NULL. */
	char *const *repeat;
	int (*work)(void *ctx);
	void *ctx;
	u64 usec;		/* that I/O waited, of the one that waited longest */
};

/*
 * Suspend them in their order, work, resume. 0 or the first error; where one cannot be suspended
 * there is no work. *@ret_resumed: the result of resuming, which is tried whatever @work returns.
 */
int rd_pause(struct rd_pause *pause, int *ret_resumed);

#endif
