/* SPDX-License-Identifier: GPL-2.0 */
/* Do not read and write more than so many bytes a second. */
#ifndef RD_PACE_H
#define RD_PACE_H

#include <time.h>

#include "clock.h"
#include "units.h"

struct rd_pace {
	u64 rate;		/* bytes a second; 0: any */
	u64 free_us;		/* when what was done so far is paid for */
	volatile int *stop;	/* set by a signal: nothing waits any more; or NULL */
};

/*
 * How much of @bytes to read or write at once: with a rate there are others, whose reads wait
 * behind each of ours.
 */
static inline size_t rd_pace_at_once(const struct rd_pace *pace, size_t bytes)
{
	return pace->rate ? rd_min(bytes, (size_t)32 << 10) : bytes;
}

/* Pay for @bytes that were read or written: sleep until the rate is kept. */
static inline void rd_pace(struct rd_pace *pace, u64 bytes)
{
	u64 now, wait;
	struct timespec t;

	if (!pace->rate || (pace->stop && *pace->stop))
		return;
	now = rd_now_us();
	pace->free_us = rd_max(pace->free_us, now) + bytes * 1000000 / pace->rate;
	wait = pace->free_us - now;
	/* A signal ends the wait: the caller looks at what it means. */
	t = (struct timespec){ .tv_sec = wait / 1000000, .tv_nsec = wait % 1000000 * 1000 };
	nanosleep(&t, NULL);
}

#endif
