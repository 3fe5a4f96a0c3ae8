// SPDX-License-Identifier: GPL-2.0
/* Suspend a device, work, resume it; a guard resumes it where the command dies. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/sys/dm.h"
#include "host/sys/guard.h"
#include "pause.h"

static int resume(const char *name)
{
	struct rd_dm_info info;

	if (!name || rd_dm_info(name, &info) || !info.exists || !info.suspended)
		return 0;
	return rd_dm_resume(name, 0);
}

static int resume_all(void *ctx, bool is_alone)
{
	const struct rd_pause *pause = ctx;

	if (!is_alone)
		return 0;
	resume(pause->inner);
	if (!resume(pause->device) || !pause->repeat)
		return 0;
	/* In a test, the failpoint was meant for the command that died. */
	unsetenv("REVDEDUP_FAIL");
	execv("/proc/self/exe", pause->repeat);
	return -errno;
}

int rd_pause(struct rd_pause *pause, int *ret_resumed)
{
	struct rd_guard guard = { .end = resume_all, .ctx = pause, .limit_ms = -1 };
	u64 began;
	int r;

	*ret_resumed = 0;
	r = rd_guard_begin(&guard);
	if (r)
		return r;
	/* No page of this program may have to be read from the suspended disk. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	began = rd_now_us();
	/* Programs above wait from here ... */
	r = rd_dm_suspend(pause->device, 0);
	if (!r) {
		r = pause->work(pause->ctx);
		/* ... to here. */
		*ret_resumed = rd_dm_resume(pause->device, RD_DM_LATER);
		r = r ? r : *ret_resumed;
	}
	pause->usec = rd_now_us() - began;
	rd_dm_settle();
	munlockall();
	rd_guard_end(&guard);
	return r;
}
