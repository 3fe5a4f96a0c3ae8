// SPDX-License-Identifier: GPL-2.0
/* What must be undone, whatever the command dies of. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "guard.h"

/* --- guards */

/* How the process ends. */
enum { DONE, FAILED, LATE };

/* A byte says that it is time; the end of the stream alone, that nobody is there. */
static int watch(const struct rd_guard *guard, int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	ssize_t len = 0;
	bool failed;
	char byte;
	int r;

	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Who reads what we say may be gone. */
	signal(SIGPIPE, SIG_IGN);
	setsid();
	/* The disk that it would be paged in from may be the one that is suspended. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* All signals that could interrupt it are ignored. */
	r = poll(&wait, 1, guard->limit_ms);
	if (r)
		len = read(fd, &byte, 1);
	failed = guard->end(guard->ctx, len < 1);
	return !r ? LATE : failed ? FAILED : DONE;
}

int rd_guard_begin(struct rd_guard *guard)
{
	int ends[2];

	/* Not a pipe: to write to one that nobody reads any more would kill us. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return rd_err(-errno, "cannot make a socket");
	guard->pid = fork();
	if (!guard->pid) {
		close(ends[1]);
		_exit(watch(guard, ends[0]));
	}
	close(ends[0]);
	guard->fd = ends[1];
	if (guard->pid > 0)
		return 0;
	close(ends[1]);
	return rd_err(-errno, "cannot start a process");
}

int rd_guard_end(struct rd_guard *guard)
{
	int status;

	send(guard->fd, "", 1, MSG_NOSIGNAL);
	close(guard->fd);
	while (waitpid(guard->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status)) {
		rd_warn("the guard process of the device was killed");
		return guard->end(guard->ctx, false) ? -EIO : 0;
	}
	return WEXITSTATUS(status) == LATE ? -ETIME : WEXITSTATUS(status) ? -EIO : 0;
}

/* --- a pause */

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
	/* In a test: the one that was meant is dead. */
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
	rd_guard_end(&guard);
	return r;
}
