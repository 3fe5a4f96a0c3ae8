// SPDX-License-Identifier: GPL-2.0
/* Suspend devices, work, resume them; a guard resumes them where the command dies. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/inject.h"
#include "host/sys/guard.h"
#include "pause.h"

static int resume(const char *name)
{
	struct rd_dm_info info;

	if (!name[0] || rd_dm_info(name, &info) || !info.exists || !info.suspended)
		return 0;
	/* udev may wait for one that is still suspended. */
	return rd_dm_resume(name, RD_DM_LATER);
}

static int resume_all(void *ctx, bool is_alone)
{
	const struct rd_pause *pause = ctx;
	unsigned int i;
	int r = 0;

	if (!is_alone)
		return 0;
	for (i = 0; i < pause->nr; i++)
		resume(pause->devices[i].inner);
	for (i = 0; i < pause->nr; i++)
		r |= resume(pause->devices[i].device);
	rd_dm_settle();
	if (!r || !pause->repeat)
		return 0;
	/* In a test, the failpoint was meant for the command that died. */
	unsetenv("REVDEDUP_FAIL");
	execv("/proc/self/exe", pause->repeat);
	return -errno;
}

/* Programs above wait from the first suspend on, until their device is resumed. */
static int suspend_and_work(struct rd_pause *pause, int *ret_resumed)
{
	unsigned int i, nr = 0;
	int one, r = 0;

	while (!r && nr < pause->nr) {
		r = rd_dm_suspend(pause->devices[nr].device, pause->devices[nr].flags);
		nr += !r;
		if (!r && nr < pause->nr)
			r = rd_failpoint("pause-next");
	}
	if (!r)
		r = pause->work(pause->ctx);
	for (i = 0; i < nr; i++) {
		one = rd_dm_resume(pause->devices[i].device, RD_DM_LATER);
		*ret_resumed = *ret_resumed ? *ret_resumed : one;
	}
	return r ? r : *ret_resumed;
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
	/* No page of this program may have to be read from a suspended disk. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	began = rd_now_us();
	r = suspend_and_work(pause, ret_resumed);
	pause->usec = rd_now_us() - began;
	rd_dm_settle();
	munlockall();
	rd_guard_end(&guard);
	return r;
}
