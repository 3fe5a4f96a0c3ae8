/* SPDX-License-Identifier: GPL-2.0 */
/* Time that passes, independent of changes of the system's clock, and dates. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <stdio.h>
#include <time.h>

#include "units.h"

static inline u64 rd_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#define RD_TIME_TEXT	32

/* Print the local date and time of @when, or a number where that is of no calendar. */
static inline const char *rd_print_time(char text[RD_TIME_TEXT], i64 when)
{
	time_t seconds = when;
	struct tm tm;

	if (!localtime_r(&seconds, &tm) ||
	    !strftime(text, RD_TIME_TEXT, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, RD_TIME_TEXT, "%lld", (long long)when);
	return text;
}

#endif
