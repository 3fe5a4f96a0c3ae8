// SPDX-License-Identifier: GPL-2.0
/* Do something while a device is suspended. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../pool/clock.h"
#include "../pool/log.h"
#include "guard.h"

struct guard {
	pid_t pid;
	int fd;
};

static int resume(const char *name)
{
	struct rd_dm_info info;

	if (!name || rd_dm_info(name, &info) || !info.exists || !info.suspended)
		return 0;
	return rd_dm_resume(name, 0);
}

static void resume_all(const struct rd_pause *pause)
{
	resume(pause->inner);
	if (!resume(pause->device) || !pause->repeat)
		return;
	/* In a test: the one that was meant is dead. */
	unsetenv("REVDEDUP_FAIL");
	execv("/proc/self/exe", pause->repeat);
}

/* A byte says that all is well; the end of the pipe alone, that nobody is there. */
static void watch(int fd, const struct rd_pause *pause)
{
	ssize_t len;
	char byte;

	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	setsid();
	/* The disk that it would be paged in from may be the one that is suspended. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	do {
		len = read(fd, &byte, 1);
	} while (len < 0 && errno == EINTR);
	if (len < 1)
		resume_all(pause);
}

static int begin_guard(struct guard *guard, const struct rd_pause *pause)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return rd_err(-errno, "cannot make a pipe");
	guard->pid = fork();
	if (!guard->pid) {
		close(ends[1]);
		watch(ends[0], pause);
		_exit(0);
	}
	close(ends[0]);
	guard->fd = ends[1];
	if (guard->pid > 0)
		return 0;
	close(ends[1]);
	return rd_err(-errno, "cannot start a process");
}

static void end_guard(struct guard *guard)
{
	if (write(guard->fd, "", 1) != 1)
		rd_warn("the process that guards the device is gone");
	close(guard->fd);
	while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int rd_pause(struct rd_pause *pause, int *ret_resumed)
{
	struct guard guard = { .fd = -1 };
	u64 began;
	int r;

	*ret_resumed = 0;
	r = begin_guard(&guard, pause);
	if (r)
		return r;
	/* Nothing of us may have to be read from the disk that is suspended. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	began = rd_now_us();
	/* Those above wait from here ... */
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
	end_guard(&guard);
	return r;
}
