/* SPDX-License-Identifier: GPL-2.0 */
/* Time that passes, independent of changes of the system's clock. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <time.h>

#include "units.h"

static inline u64 rd_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
