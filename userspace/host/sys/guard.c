// SPDX-License-Identifier: GPL-2.0
/* Undo a change of state however the command dies. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "guard.h"

/* The exit status of the guard. */
enum { DONE, FAILED, LATE };

/*
 * Wait for a byte, which says that it is time, or for the end of the stream, which says that
 * the command has died.
 */
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
	/* The reader of our messages may be gone. */
	signal(SIGPIPE, SIG_IGN);
	setsid();
	/* A page fault could wait for the suspended disk. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	/* All signals that could interrupt poll() are ignored. */
	r = poll(&wait, 1, guard->limit_ms);
	if (r)
		len = read(fd, &byte, 1);
	failed = guard->end(guard->ctx, len < 1);
	return !r ? LATE : failed ? FAILED : DONE;
}

int rd_guard_begin(struct rd_guard *guard)
{
	int ends[2], r;

	/* Not a pipe: writing to one without a reader would kill the command. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return rd_err(-errno, "cannot make a socket");
	guard->pid = fork();
	if (!guard->pid) {
		close(ends[1]);
		if (guard->drop_fd)
			close(guard->drop_fd);
		_exit(watch(guard, ends[0]));
	}
	r = -errno;
	close(ends[0]);
	guard->fd = ends[1];
	if (guard->pid > 0)
		return 0;
	close(ends[1]);
	/* There is none to end. */
	guard->pid = 0;
	return rd_err(r, "cannot start a process");
}

int rd_guard_end(struct rd_guard *guard)
{
	int status = 0;

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
