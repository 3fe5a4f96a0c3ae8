/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A device that is suspended for a moment, and resumed even if the command is killed.
 */
#ifndef RD_PAUSE_H
#define RD_PAUSE_H

#include "base/units.h"

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
