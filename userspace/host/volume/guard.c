// SPDX-License-Identifier: GPL-2.0
/* Undo what must be undone, whatever the command dies of. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "guard.h"

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
